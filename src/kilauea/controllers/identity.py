"""Results that are kept for as long as a part of an object is the very same.

Controllers look at an object again whenever its status changes, and its specification is then the same object in
memory. What has been read from it need not be read again.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Same(Generic[T]):
    """Equal only to one around the very same thing: as an argument of a cached function, which must not be changed.

    A cache holds what it has been asked about, so nothing else can have its identity meanwhile.

    Attributes:
        thing: the thing.
    """

    __slots__ = ("thing",)

    def __init__(self, thing: T) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)
