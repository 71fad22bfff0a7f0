"""Steps of a JSONPath: functions from the current values to those one step further, as in client-go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import eq, ge, gt, le, lt, ne
from typing import Any

Values = list[Any]

LIMIT = 100_000
"""Maximum number of values for all columns of one object: filters and repeated `..` and `[0,0]` multiply them."""
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_ORDERED = (str, int, float)


class FindError(ValueError):
    """A path does not fit the values."""


class TooManyValues(FindError):
    """A path finds too many values."""


class Budget:
    """The remaining number of values."""

    def __init__(self) -> None:
        self._left = LIMIT

    def spend(self, count: int) -> None:
        """Subtract a number of values.

        Raises:
            TooManyValues: fewer are left.
        """
        self._left -= count
        if self._left < 0:
            raise TooManyValues(f"more than {LIMIT:,} values")

    def taken(self, values: Iterable[Any]) -> Values:
        """Return the values as a list, subtracting each."""
        found = []
        for value in values:
            self.spend(1)
            found.append(value)
        return found


Step = Callable[[Values, Budget], Values]


def walk(steps: Sequence[Step], values: Values, budget: Budget) -> Values:
    """Return the values after all steps."""
    for step in steps:
        budget.spend(len(values) + 1)
        values = step(values, budget)
    return values


def field(name: str) -> Step:
    """Return a step to a field; objects without it and other values yield none."""
    return lambda values, _: [value[name] for value in values if isinstance(value, dict) and name in value]


def constant(wanted: Any) -> Step:
    """Return a step that yields a number or boolean for each value."""
    return lambda values, _: [wanted] * len(values)


def text(wanted: str) -> Step:
    """Return a step that yields a text once."""
    return lambda _, __: [wanted]


def unknown_word(word: str) -> Step:
    """Return a step for an unsupported word."""

    def step(_: Values, __: Budget) -> Values:
        raise FindError(f"unrecognized identifier {word}")

    return step


def every(values: Values, budget: Budget) -> Values:
    """Return all values of objects and items of lists."""
    return budget.taken(each for value in values for each in _parts(value))


def descend(values: Values, budget: Budget) -> Values:
    """Return all objects and lists, at any depth, that are not empty."""
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
    """Return a step that yields the values of several paths in order."""
    return lambda values, budget: [each for steps in branches for each in walk(steps, values, budget)]


def items(start: int | None, end: int | None, pace: int | None, single: bool) -> Step:
    """Return a step to a range of the items of lists.

    Args:
        start: the first index, counted from the end if negative; None for 0.
        end: the index after the last, likewise; None for the length.
        pace: the step between indexes; None for 1.
        single: True to select only the item at `start`, ignoring `end`.
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
    """Return a step to the items for which a path finds a value."""
    return partial(_filtered, lambda item, budget: _has(condition, item, budget))


def comparing(left: Sequence[Step], operator: str, right: Sequence[Step]) -> Step:
    """Return a step to the items for which a comparison of two paths holds."""

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
        return True  # client-go checks only the values before the error, which exist


def _holds(lefts: Values, operator: str, rights: Values) -> bool:
    """Compare the single value on each side; False if a value is missing."""
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
