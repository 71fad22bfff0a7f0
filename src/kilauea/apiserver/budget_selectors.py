"""The selectors of disruption budgets, cached: each eviction compares its pod with all budgets of a namespace."""

from __future__ import annotations

import msgspec

from kilauea.api.meta import LabelSelector
from kilauea.api.selectors import Selector, selector_of
from kilauea.apiserver.storage import Stored

MOST_SELECTORS = 8192
"""Cached selectors after which the cache is cleared."""
LONGEST = 4096
"""Bytes of a budget whose selector is cached."""


class _Spec(msgspec.Struct):
    selector: LabelSelector | None = None


class _Budget(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_read = msgspec.json.Decoder(_Budget).decode


class BudgetSelectors:
    """A cache of the selectors of budgets of one store, by key and revision."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Selector | None]] = {}

    def of(self, stored: Stored) -> Selector | None:
        """Return the selector of a budget; None if it selects no pods."""
        known = self._known.get(stored.key)
        if known is not None and known[0] == stored.revision:
            return known[1]
        selector = selector_of(_read(stored.value).spec.selector)
        if stored.length <= LONGEST:
            if len(self._known) >= MOST_SELECTORS:
                self._known.clear()
            self._known[stored.key] = stored.revision, selector
        return selector
