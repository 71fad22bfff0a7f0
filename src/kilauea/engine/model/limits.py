"""Limits that other parts of Kubernetes enforce: quotas of namespaces, and disruption budgets for pods.

Both are parsed when their object arrives, so an invalid one does not affect cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kilauea.api import core, scheduling
from kilauea.api.meta import ResourceMap
from kilauea.api.quantity import QuantityError, amount
from kilauea.api.selectors import Selector, selector_of


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits and usage of a namespace, in total. Names are those of quotas, such as `requests.cpu`."""

    key: str
    namespace: str
    hard: Mapping[str, int]
    used: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Budget:
    """The number of pods of a set that may be disrupted now."""

    key: str
    namespace: str
    selector: Selector | None
    """The protected pods; None and the empty selector match none."""
    allowed: int
    """Number of disruptions that the status allows."""
    desired: int
    """Minimum number of healthy pods."""
    disrupted: frozenset[str]
    """Names of pods whose disruption is already counted."""


def quota_of(obj: core.ResourceQuota) -> Quota:
    """Read a quota from its object's status; one without a status counts as unused.

    Raises:
        QuantityError: an amount cannot be read.
    """
    hard, used = (obj.status.hard, obj.status.used) if obj.status else (None, None)
    if hard is None and obj.spec is not None:
        hard = obj.spec.hard
    return Quota(obj.key, obj.namespace, _amounts("hard", hard), _amounts("used", used))


def _amounts(field: str, resources: ResourceMap | None) -> dict[str, int]:
    """All amounts of a list, including names that scheduling does not count."""
    out = {}
    for name, quantity in (resources or {}).items():
        try:
            out[name] = amount(name, quantity)
        except QuantityError as error:
            raise QuantityError(f"{field}[{name}]: {error}") from None
    return out


def budget_of(obj: scheduling.PodDisruptionBudget) -> Budget:
    """Read a disruption budget. Without a status it allows no disruptions; an invalid selector matches no pods."""
    status = obj.status or scheduling.PodDisruptionBudgetStatus()
    selector = selector_of(obj.spec.selector) if obj.spec else None
    allowed, disrupted = status.disruptions_allowed or 0, frozenset(status.disrupted_pods or ())
    return Budget(obj.key, obj.namespace, selector, allowed, status.desired_healthy or 0, disrupted)
