"""The account of one quota: its limits, the usage, and the additional usage of writes in progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kilauea.apiserver.admission.amounts import ZERO, Amount, Amounts, add, parse_all, texts
from kilauea.apiserver.admission.quota.scopes import Requirement, is_about, requirements_of
from kilauea.apiserver.admission.quota.usage import Kind, missing_amounts, names_for, usage_of

Object = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """An object that is written: the old one, None if it is created, and the new one, None if it is deleted.

    Attributes:
        differences: the usage that the write adds, by the names and conditions of the quotas asked so far. Quotas of
            a namespace are often alike, and each is asked four times.
    """

    kind: Kind
    old: Object | None
    new: Object | None
    differences: dict[tuple[frozenset[str], tuple[Requirement, ...]], dict[str, Amount]] = field(default_factory=dict)

    @cached_property
    def before(self) -> dict[str, Amount]:
        """Return the usage of the object before the write."""
        return {} if self.old is None else usage_of(self.kind, self.old)

    @cached_property
    def now(self) -> dict[str, Amount]:
        """Return the usage of the object after the write."""
        return {} if self.new is None else usage_of(self.kind, self.new)

    @cached_property
    def missing(self) -> dict[str, str]:
        """Return the containers of a new pod that lack amounts required by quotas, by name of the amount."""
        return {} if self.new is None else missing_amounts(self.new)


class Account:
    """One quota.

    Attributes:
        name: the name of the quota.
        hard: the limits.
        used: the usage of durable objects, for the names under which some kind counts.
        held: the additional usage of writes in progress.
        counted_at: the revision at which `used` was counted; later writes are added.
        counted: False while counting.
        shown: the stored status.
        is_stale: True if the stored status may be out of date.
    """

    def __init__(self, name: str, spec: Object, counted_at: int, shown: Mapping[str, Any]) -> None:
        self.name = name
        self.spec = spec
        self.hard = parse_all(spec.get("hard"))
        self.used: dict[str, Amount] = {}
        self.held: dict[str, Amount] = {}
        self.counted_at = counted_at
        self.counted = False
        self.shown = shown
        self.is_stale = True
        self._requirements = requirements_of(spec)
        self._names: dict[Kind, frozenset[str]] = {}

    def names(self, kind: Kind) -> frozenset[str]:
        """Return the names of the quota under which objects of a kind count."""
        found = self._names.get(kind)
        if found is None:
            found = self._names[kind] = names_for(kind, self.hard)
        return found

    def concerns(self, kind: Kind, obj: Object) -> bool:
        """Return True if an object counts in this quota."""
        return bool(self.names(kind)) and is_about(self._requirements, kind, obj)

    def share(self, kind: Kind, obj: Object | None, usage: Amounts) -> dict[str, Amount]:
        """Return the part of an object's usage that counts in this quota."""
        if obj is None or not self.concerns(kind, obj):
            return {}
        names = self.names(kind)
        return {name: amount for name, amount in usage.items() if name in names}

    def difference(self, change: Change) -> dict[str, Amount]:
        """Return the usage that a write adds, negative if it frees some; without zeros."""
        kind = change.kind
        names = self.names(kind)
        if not names:
            return {}
        key = (names, self._requirements)
        known = change.differences.get(key)
        if known is None:
            now, before = self.share(kind, change.new, change.now), self.share(kind, change.old, change.before)
            found = {name: now.get(name, ZERO).minus(before.get(name, ZERO)) for name in {**now, **before}}
            known = change.differences[key] = _nonzero(found)
        return known

    def taken(self, name: str) -> Amount:
        """Return the usage under a name, including writes in progress."""
        return self.used.get(name, ZERO).plus(self.held.get(name, ZERO))

    def exceeded_by(self, wanted: Amounts) -> list[str]:
        """Return the names under which the additional usage exceeds the quota."""
        return sorted(
            name
            for name, amount in wanted.items()
            if amount.nanos > 0 and self.taken(name).plus(amount).nanos > self.hard[name].nanos
        )

    def hold(self, change: Change) -> None:
        """Reserve the additional usage of a write in progress."""
        self.held = add(self.held, _gains(self.difference(change)))

    def release(self, change: Change) -> None:
        """Release the reservation of a write that succeeded or failed."""
        gains = _gains(self.difference(change))
        self.held = _nonzero({**self.held, **{name: self.held[name].minus(gains[name]) for name in gains}})

    def book(self, change: Change, revision: int) -> bool:
        """Count a durable write, unless it was already counted; return True if the usage changed."""
        difference = self.difference(change) if revision > self.counted_at else {}
        if difference:
            self.used = add(self.used, difference)
            self.is_stale = True
        return bool(difference)

    def status(self) -> dict[str, Any]:
        """Return the status with limits and usage."""
        return {"hard": texts(self.hard), "used": texts(self.used)}


def _gains(difference: Amounts) -> dict[str, Amount]:
    return {name: amount for name, amount in difference.items() if amount.nanos > 0}


def _nonzero(amounts: Amounts) -> dict[str, Amount]:
    return {name: amount for name, amount in amounts.items() if amount.nanos}
