"""Loops of CEL: the macros that iterate over the elements of a list or map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kilauea.api.cel.frames import Frame, Step, caught, decided
from kilauea.api.cel.values import CelError


class Loop:
    """A running loop, which iterates over the elements that meet the condition, with its variables set."""

    def __init__(self, frame: Frame, names: tuple[str, ...], over: Any, where: Step | None, body: Step) -> None:
        self.frame, self._names, self.over, self._where, self._body = frame, names, over, where, body

    def _elements(self) -> Iterator[tuple[Any, Any]]:
        """Yield each key or index with its element, while the variables are set."""
        charge, values, over = self.frame.charge, self.frame.values, self.over
        first, *second = self._names
        is_map = over.__class__ is dict
        for key, value in over.items() if is_map else enumerate(over):
            charge(1)
            values[first] = key if is_map or second else value
            if second:
                values[second[0]] = value
            yield key, value

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yield each key or index, the element, and the value of the body for it."""
        for key, value in self._elements():
            if self._where is None or self._where(self.frame) is True:
                yield key, value, self._body(self.frame)

    def answers(self) -> Iterator[Any]:
        """Yield the result of the body for each element, or its error."""
        for _ in self._elements():
            yield caught(self._body, self.frame)


def _one(loop: Loop) -> bool:
    return sum(_true(answer) for _, _, answer in loop) == 1


def _true(answer: Any) -> bool:
    if answer.__class__ is not bool:
        raise CelError("no such overload")
    return bool(answer)


def _filter(loop: Loop) -> list[Any]:
    is_map = loop.over.__class__ is dict
    return [key if is_map else value for key, value, answer in loop if _true(answer)]


def _entries(loop: Loop) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for _, _, entry in loop:
        for key, value in entry.items():
            if key in made:
                raise CelError(f"insert failed: key {key} already exists")
            made[key] = value
    return made


def _sorted_by(loop: Loop) -> list[Any]:
    keyed = [(answer, value) for _, value, answer in loop]
    if len({each[0].__class__ for each in keyed}) > 1:
        raise CelError("no such overload")
    return [value for _, value in sorted(keyed, key=lambda each: each[0])]


MACROS: Mapping[str, Callable[[Loop], Any]] = {
    "all": lambda loop: decided(loop.answers(), False),
    "exists": lambda loop: decided(loop.answers(), True),
    "exists_one": _one,
    "existsOne": _one,
    "filter": _filter,
    "map": lambda loop: [made for _, _, made in loop],
    "sortBy": _sorted_by,
    "transformList": lambda loop: [made for _, _, made in loop],
    "transformMap": lambda loop: {key: made for key, _, made in loop},
    "transformMapEntry": _entries,
}
FILTERED = frozenset({"map", "transformList", "transformMap", "transformMapEntry"})
TWO_ONLY = frozenset({"transformList", "transformMap", "transformMapEntry"})
