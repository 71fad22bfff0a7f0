"""Parts that lists share: the rows on a page of a long list, and the links to its neighbors."""

from __future__ import annotations

from typing import NamedTuple

PAGE = 50
"""Number of rows on a page."""


class Paging(NamedTuple):
    """The position of a page in a long list.

    Attributes:
        page: its number, from 1.
        pages: number of pages, at least 1.
        first, last: numbers of its first and last row, from 1; 0 for an empty list.
        total: total number of rows.
    """

    page: int
    pages: int
    first: int
    last: int
    total: int


def paging(total: int, page: int, size: int = PAGE) -> Paging:
    """The position of a page; a page beyond the end is the last one."""
    pages = max(1, -(-total // size))
    at = min(max(1, page), pages)
    first = (at - 1) * size
    return Paging(at, pages, first + 1 if total else 0, min(total, first + size), total)
