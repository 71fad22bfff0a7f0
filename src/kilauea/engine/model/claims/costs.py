"""The cost of evaluating device selectors that the claims of each namespace may cause in a cycle."""

from __future__ import annotations

from collections import Counter

from kilauea.api.cel import CelError

COST_OF_CYCLE = 500_000
"""The limit for a namespace in a cycle of a live scheduler, about 0.2 s."""


class SelectorsPending(CelError):
    """Selectors have not been evaluated for all devices yet."""


class SelectorCosts:
    """The cost that each namespace has caused in this cycle. Results are kept, so the next cycle continues.

    Args:
        most: the limit for a namespace; None for no limit.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self._spent: Counter[str] = Counter()

    def renew(self) -> None:
        """Begin a cycle."""
        self._spent.clear()

    def check(self, namespace: str | None) -> None:
        """Raise SelectorsPending if no more may be evaluated in this cycle.

        Args:
            namespace: the namespace of the claim; empty for classes, without a limit; None to evaluate nothing.
        """
        if self.most is None or namespace == "":
            return
        if namespace is None or self._spent[namespace] >= self.most:
            raise SelectorsPending(
                "the device selectors of this namespace cost much: evaluating them for all devices takes several "
                "cycles; use fewer all, exists, map and filter"
            )

    def charge(self, namespace: str | None, cost: int) -> None:
        """Add the cost of an evaluation."""
        if namespace is not None:
            self._spent[namespace] += cost
