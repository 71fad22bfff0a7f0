"""Paths that rules name."""

from __future__ import annotations


def is_below(path: str, pattern: str) -> bool:
    """Return True if a path is one that a rule names, which may end in a star."""
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return path == pattern
