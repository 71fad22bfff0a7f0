"""Non-resource paths in rules."""

from __future__ import annotations


def is_below(path: str, pattern: str) -> bool:
    """Return True if a path matches one in a rule, which may end with `*`."""
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return path == pattern
