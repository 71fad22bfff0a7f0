"""Steps of a JSONPath: from the values found so far to those one step further, as client-go walks them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import eq, ge, gt, le, lt, ne
from typing import Any

Values = list[Any]

LIMIT = 100_000
"""Values that all steps of all columns may find in one object: filters and repeated `..` and `[0,0]` multiply them."""
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_ORDERED = (str, int, float)


class FindError(ValueError):
    """A path that does not fit the values."""


class TooManyValues(FindError):
    """A path that finds more values than it may."""


class Budget:
    """The values that may still be found."""

    def __init__(self) -> None:
        self._left = LIMIT

    def spend(self, count: int) -> None:
        """Take some values off.

        Raises:
            TooManyValues: there are not so many left.
        """
        self._left -= count
        if self._left < 0:
            raise TooManyValues(f"more than {LIMIT:,} values")

    def taken(self, values: Iterable[Any]) -> Values:
        """The values as a list, each of them taken off."""
        found = []
        for value in values:
            self.spend(1)
            found.append(value)
        return found


Step = Callable[[Values, Budget], Values]


def walk(steps: Sequence[Step], values: Values, budget: Budget) -> Values:
    """The values that are found after all steps."""
    for step in steps:
        budget.spend(len(values) + 1)
        values = step(values, budget)
    return values


def field(name: str) -> Step:
    """The values of a field; objects without it, and what is not an object, have none."""
    return lambda values, _: [value[name] for value in values if isinstance(value, dict) and name in value]


def constant(wanted: Any) -> Step:
    """A number, or true or false, for each value."""
    return lambda values, _: [wanted] * len(values)


def text(wanted: str) -> Step:
    """A text, once."""
    return lambda _, __: [wanted]


def unknown_word(word: str) -> Step:
    """A word that has no meaning in a column."""

    def step(_: Values, __: Budget) -> Values:
        raise FindError(f"unrecognized identifier {word}")

    return step


def every(values: Values, budget: Budget) -> Values:
    """All values of objects and items of lists."""
    return budget.taken(each for value in values for each in _parts(value))


def descend(values: Values, budget: Budget) -> Values:
    """All objects and lists, at any depth, that are not empty."""
    return budget.taken(each for value in values for each in _below(value, budget))


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _below(value: Any, budget: Budget) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        at = waiting.pop()
        parts = list(_parts(at))
        budget.spend(len(parts))
        if parts:
            yield at
            waiting += reversed(parts)


def union(branches: Sequence[Sequence[Step]]) -> Step:
    """The values of several paths, one after another."""
    return lambda values, budget: [each for steps in branches for each in walk(steps, values, budget)]


def items(start: int | None, end: int | None, pace: int | None, single: bool) -> Step:
    """A range of the items of lists.

    Args:
        start: the first, counted from the end if negative; None for the first of all.
        end: the one behind the last, in the same way; None for all others.
        pace: distance between two; None for 1.
        single: only the item at `start` is wanted, and `end` follows from it.
    """
    return lambda values, budget: budget.taken(
        each for value in values if value is not None for each in _slice(value, start, end, pace, single)
    )


def _slice(value: Any, start: int | None, end: int | None, pace: int | None, single: bool) -> Values:
    if not isinstance(value, list):
        raise FindError("not a list")
    first, size = start or 0, len(value)
    last = size if end is None else end
    first += size if first < 0 else 0
    last += size if last < 0 or (last == 0 and single) else 0
    if first == last:
        return []
    if not (0 <= first < size and 0 <= last <= size and first <= last):
        raise FindError(f"items {first} to {last} of {size}")
    if pace is not None and pace <= 0:
        raise FindError("step must be > 0")
    return value[first : last : pace or 1]


def having(condition: Sequence[Step]) -> Step:
    """The items for which a path finds a value."""
    return partial(_filtered, lambda item, budget: _has(condition, item, budget))


def comparing(left: Sequence[Step], operator: str, right: Sequence[Step]) -> Step:
    """The items for which a comparison of two paths holds."""

    def passes(item: Any, budget: Budget) -> bool:
        return _holds(walk(left, [item], budget), operator, walk(right, [item], budget))

    return partial(_filtered, passes)


def _filtered(passes: Callable[[Any, Budget], bool], values: Values, budget: Budget) -> Values:
    found: Values = []
    for value in values:
        if not isinstance(value, list):
            raise FindError("not a list and cannot be filtered")
        found += [item for item in budget.taken(value) if passes(item, budget)]
    return found


def _has(condition: Sequence[Step], item: Any, budget: Budget) -> bool:
    try:
        return bool(walk(condition, [item], budget))
    except TooManyValues:
        raise
    except FindError:
        return True  # client-go looks only at the values before the error, which are there


def _holds(lefts: Values, operator: str, rights: Values) -> bool:
    """Compare the only value on each side; nothing holds for a value that is missing."""
    if not lefts or not rights:
        return False
    if len(lefts) > 1 or len(rights) > 1:
        raise FindError("can only compare one element at a time")
    left, right = lefts[0], rights[0]
    compare = _OPERATORS.get(operator)
    if compare is None:
        raise FindError(f"unrecognized filter operator {operator}")
    if isinstance(left, bool) and isinstance(right, bool) and operator in ("==", "!="):
        return compare(left, right)
    if type(left) is not type(right) or type(left) not in _ORDERED:
        raise FindError("incompatible types for comparison")
    return compare(left, right)
