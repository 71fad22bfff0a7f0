"""Files of environment variables in volumes, which containers write for later ones (`fileKeyRef`).

Each line is `NAME='value'`; a value may span several lines. Empty lines and comments are skipped. Files of pods are not
trusted: only regular files in the volume itself are read, up to a maximum size.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

LARGEST = 1 << 20
"""Maximum size of a file in bytes."""


class EnvFileError(ValueError):
    """A file that is unreadable or invalid; the message gives the reason."""


def value_in(folder: Path, path: str, key: str) -> str:
    """Return the value of a variable in a file of a volume; empty if missing.

    Args:
        folder: of the volume.
        path: of the file, relative to the volume.
        key: name of the variable.

    Raises:
        EnvFileError: there is no such file, it is not a regular one, it is too large, or it has another form.
    """
    try:
        lines = _read(folder, path).decode(errors="surrogateescape").split("\n")
    except (OSError, ValueError) as error:
        raise EnvFileError(f"failed to open environment variable file {path!r}: {error}") from error
    return next((value for name, value in _variables(lines) if name == key), "")


def _read(folder: Path, path: str) -> bytes:
    """The content of a file, opened step by step, so that links changed meanwhile cannot lead outside the volume."""
    root = folder.resolve()
    steps = (root / path).resolve().relative_to(root).parts
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in steps:
            below = os.open(step, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
        found = os.fstat(at)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        if found.st_size > LARGEST:
            raise ValueError(f"it has {found.st_size} bytes, and may have {LARGEST}")
        return os.read(at, LARGEST)
    finally:
        os.close(at)


def _variables(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The variables of a file, in order.

    Raises:
        EnvFileError: a line has another form.
    """
    rest = iter(enumerate(lines, 1))
    for number, text in rest:
        line = text.removesuffix("\r").lstrip(" \t")
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise _wrong(number, "missing '='")
        if not name:
            raise _wrong(number, "empty variable name")
        if name != name.rstrip(" \t"):
            raise _wrong(number, "whitespace before '=' is not allowed")
        if value != value.lstrip(" \t"):  # as in a shell, the variable is empty, and the rest is something else
            yield name, ""
            continue
        if not value.startswith("'"):
            raise _wrong(number, "value must be enclosed in single quotes")
        yield name, _quoted(value[1:], number, rest)


def _quoted(text: str, number: int, rest: Iterator[tuple[int, str]]) -> str:
    """A value up to its closing quote, which may be on a later line."""
    parts, start = [], number
    while "'" not in text:
        parts.append(text)
        number, text = next(rest, (0, ""))
        if not number:
            raise EnvFileError(f"invalid environment variable format starting at line {start}: unclosed single quote")
    value, _, after = text.partition("'")
    after = after.lstrip(" \t\r")
    if after and not after.startswith("#"):
        raise _wrong(number, "unexpected content after closing quote")
    return "\n".join((*parts, value))


def _wrong(number: int, problem: str) -> EnvFileError:
    return EnvFileError(f"invalid environment variable format at line {number}: {problem}")
