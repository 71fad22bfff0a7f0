"""The conditions of a selector by name, so that the time of a match depends only on the number of an object's labels.

A client may send twenty thousand conditions, and open thousands of watches with them, each of which sees every event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from kilauea.api.selectors import Requirement, int64

_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that must all hold.

    Attributes:
        wanted: required values by name, of which one must match; None for any value.
        refused: excluded values by name; None for any value.
        between: numeric bounds of the value, by name.
    """

    wanted: Mapping[str, frozenset[str] | None]
    refused: Mapping[str, frozenset[str] | None]
    between: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def match(self, labels: Mapping[str, str]) -> bool:
        """Return True if labels meet all conditions."""
        wanted, refused = self.wanted, self.refused
        if len(wanted) > len(labels):
            return False
        for name, values in wanted.items():
            value = labels.get(name)
            if value is None or (values is not None and value not in values):
                return False
        for name in refused if len(refused) < len(labels) else labels:
            if name in refused and name in labels:
                values = refused[name]
                if values is None or labels[name] in values:
                    return False
        for name, (low, high) in self.between.items():
            number = int64(labels.get(name, ""))
            if number is None or not low < number < high:
                return False
        return True


def conditions_of(requirements: Iterable[Requirement]) -> Conditions:
    """Combine requirements into conditions; an invalid one makes them match nothing."""
    wanted: dict[str, frozenset[str] | None] = {}
    refused: dict[str, list[str] | None] = {}
    between: dict[str, tuple[float, float]] = {}
    for each in requirements:
        name, values = each.key, each.values
        if each.operator == "Exists":
            wanted.setdefault(name, None)
        elif each.operator == "DoesNotExist":
            refused[name] = None
        elif each.operator == "NotIn" and values:
            known = refused.setdefault(name, [])
            if known is not None:
                known.extend(values)
        elif each.operator in ("Gt", "Lt") and (bound := int64(values[0])) is not None:
            low, high = between.get(name, (-inf, inf))
            between[name] = (max(low, bound), high) if each.operator == "Gt" else (low, min(high, bound))
        else:
            allowed = frozenset(values) if each.operator == "In" else _NOTHING
            so_far = wanted.get(name)
            wanted[name] = allowed if so_far is None else so_far & allowed
    return Conditions(
        wanted,
        {name: None if found is None else frozenset(found) for name, found in refused.items()},
        between,
    )
