"""Checks of paths that must stay within a volume or a directory."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.status import Cause

MAX_MODE = 0o777
_MODE_WORDS = "must be a number between 0 and 0777 (octal), both inclusive"


def check_no_way_up(path: str, place: str) -> Iterator[Cause]:
    """Check that a path has no `..` element."""
    if ".." in place.split("/"):
        yield invalid_value(path, place, "must not contain '..'")


def check_descending(path: str, place: str) -> Iterator[Cause]:
    """Check that a path is relative and has no `..` element."""
    if place.startswith("/"):
        yield invalid_value(path, place, "must be a relative path")
    yield from check_no_way_up(path, place)


def check_unreserved(path: str, place: str) -> Iterator[Cause]:
    """Check that a path also does not start with a name reserved for the kubelet."""
    yield from check_descending(path, place)
    if place.startswith("..") and not place.startswith("../"):
        yield invalid_value(path, place, "must not start with '..'")


def check_mode(path: str, mode: int | None) -> Iterator[Cause]:
    """Check the mode bits of a file, if set."""
    if mode is not None and not 0 <= mode <= MAX_MODE:
        yield invalid_value(path, mode, _MODE_WORDS)
