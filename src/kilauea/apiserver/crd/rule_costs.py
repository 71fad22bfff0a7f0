"""The estimated costs of the rules of a definition, and the errors about costs beyond the limits of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.apiserver.fields import forbidden_field
from kilauea.apiserver.status import Cause

COST_OF_RULE = 10_000_000
"""Maximum cost of a rule for all values in an object."""
COST_OF_DEFINITION = 100_000_000
"""Maximum total cost of the rules of a version."""
_NAMED = 4
"""Maximum number of rules to name if the total cost is too high; those below a hundredth are not named."""
_MOST = 2**64 - 1


class RuleCosts:
    """Sums up the costs of the rules below a path."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._total = 0
        self._expensive: list[tuple[int, str]] = []

    def add(self, name: str, path: str, cost: int, count: int) -> Iterator[Cause]:
        """Add the cost of an expression for each of `count` values; yield an error if it exceeds the limit."""
        whole = min(cost * count, _MOST)
        self._total = min(self._total + whole, _MOST)
        if whole >= COST_OF_DEFINITION // 100:
            self._expensive.append((whole, path))
        if whole > COST_OF_RULE:
            yield forbidden_field(path, exceeded(f"estimated {name} cost", whole, COST_OF_RULE))

    def total_causes(self) -> Iterator[Cause]:
        """Yield the errors if the total cost is too high: the most expensive rules, and the sum."""
        if self._total <= COST_OF_DEFINITION:
            return
        worst = sorted(self._expensive, key=lambda each: -each[0])[:_NAMED]
        message = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        for _, path in worst:
            yield forbidden_field(path, message)
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield forbidden_field(self._path, exceeded(name, self._total, COST_OF_DEFINITION))


def exceeded(name: str, cost: int, limit: int) -> str:
    """Return the error about a cost beyond its limit."""
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    advice = (
        "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings "
        "are declared"
    )
    return f"{name} exceeds budget by factor of {shown} ({advice})"
