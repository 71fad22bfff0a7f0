"""Texts that name objects created from a template: suffixes of pods, hashes of templates.

They have the form of Kubernetes (letters and digits that do not form words). Suffixes are not random: a controller
takes the free ones of a sequence that is seeded with the owner's UID and version. So equal views give equal names: a
retry after a partial failure does not create too many pods; and as the version changes, a name is not reused when its
pod is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
LONGEST_BASE = 63 - SUFFIX_LENGTH
_DRAW = 1 << 60


def suffixes(seed: str) -> Iterator[str]:
    """Yield an endless sequence of suffixes, always the same for a seed."""
    draw = Random(seed).randrange
    letters, base = ALPHABET, len(ALPHABET)
    while True:
        number = draw(_DRAW)
        text = ""
        for _ in range(SUFFIX_LENGTH):
            number, letter = divmod(number, base)
            text += letters[letter]
        yield text


def template_hash(template: Any, collisions: int = 0) -> str:
    """A short text that equal templates share (FNV-1a of 32 bits, spelled in the alphabet).

    Args:
        template: decoded JSON.
        collisions: number of times that the text was already taken by another template.
    """
    data = msgspec.json.encode(template, order="deterministic") + (b"%d" % collisions if collisions else b"")
    number = 0x811C9DC5
    for byte in data:
        number = ((number ^ byte) * 0x01000193) & 0xFFFFFFFF
    return "".join(ALPHABET[ord(digit) % len(ALPHABET)] for digit in str(number))
