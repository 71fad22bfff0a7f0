"""Checks of paths that must stay within a volume or a folder."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.status import Cause

MAX_MODE = 0o777
_MODE_WORDS = "must be a number between 0 and 0777 (octal), both inclusive"


def check_no_way_up(path: str, place: str) -> Iterator[Cause]:
    """No part of a path leads to the folder above."""
    if ".." in place.split("/"):
        yield invalid_value(path, place, "must not contain '..'")


def check_descending(path: str, place: str) -> Iterator[Cause]:
    """A path that starts somewhere below and stays there."""
    if place.startswith("/"):
        yield invalid_value(path, place, "must be a relative path")
    yield from check_no_way_up(path, place)


def check_unreserved(path: str, place: str) -> Iterator[Cause]:
    """The same, and its first name is not one of those that only the kubelet uses."""
    yield from check_descending(path, place)
    if place.startswith("..") and not place.startswith("../"):
        yield invalid_value(path, place, "must not start with '..'")


def check_mode(path: str, mode: int | None) -> Iterator[Cause]:
    """The rights of a file, where there are some."""
    if mode is not None and not 0 <= mode <= MAX_MODE:
        yield invalid_value(path, mode, _MODE_WORDS)
