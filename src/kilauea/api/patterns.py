"""Regular expressions in objects, compiled and matched by RE2 as in Kubernetes, in linear time.

Errors have the messages of Go's `regexp`, which users of Kubernetes know.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import re2

LONGEST = 8192
"""Maximum characters of a pattern, which determine the size of its program and the time of a search."""
MEMORY = 2 << 20
"""Maximum bytes of a compiled pattern; RE2 rejects larger programs, and drops states beyond it."""
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = MEMORY
_WORDS = {
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class": "invalid character class",
    "invalid character class range": "invalid character class range",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid UTF-8": "invalid UTF-8",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": "expression too large",
}
"""Messages of RE2 with those of Go's `regexp` for the same error."""


class Found(Protocol):
    """A match."""

    def __getitem__(self, group: int, /) -> str: ...


class Pattern(Protocol):
    """A pattern that searches texts."""

    def search(self, text: str, /) -> Found | None:
        """Return the first match in a text."""


@lru_cache(maxsize=128)
def pattern_of(text: str) -> Pattern:
    """Compile a pattern.

    Raises:
        ValueError: it is not valid for RE2, or too large; with Go's message.
    """
    if len(text) > LONGEST:
        raise ValueError(f"error parsing regexp: expression too large: it is longer than {LONGEST} characters")
    try:
        found: Pattern = re2.compile(text, _OPTIONS)
    except re2.error as error:
        told = error.args[0] if error.args else ""
        words, _, part = (told.decode(errors="replace") if isinstance(told, bytes) else str(told)).partition(": ")
        raise ValueError(f"error parsing regexp: {_WORDS.get(words, words)}: `{part}`") from None
    except UnicodeEncodeError:
        raise ValueError("error parsing regexp: invalid UTF-8") from None
    return found


def find_all(pattern: str, text: str) -> list[str]:
    """Return all non-overlapping matches in a text, in order.

    Raises:
        ValueError: the pattern is invalid.
    """
    pattern_of(pattern)
    return [match[0] for match in re2.finditer(pattern, text, _OPTIONS)]
