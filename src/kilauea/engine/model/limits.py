"""Limits that other parts of Kubernetes enforce: quotas of namespaces, and disruption budgets for pods.

Both are read when their object arrives, so that one that cannot be read is a problem of its own and of no cycle.
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
    """Limits and usage of a namespace, in sum. Names are those of quotas, such as `requests.cpu`."""

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
    """The pods that are protected; None and the empty one select none."""
    allowed: int
    """Pods that may go, as the status says."""
    desired: int
    """Healthy pods that must stay."""
    disrupted: frozenset[str]
    """Names of pods whose disruption is counted already."""


def quota_of(obj: core.ResourceQuota) -> Quota:
    """The quota of an object, as its status has it; one without a status is taken to be unused.

    Raises:
        QuantityError: an amount cannot be read.
    """
    hard, used = (obj.status.hard, obj.status.used) if obj.status else (None, None)
    if hard is None and obj.spec is not None:
        hard = obj.spec.hard
    return Quota(obj.key, obj.namespace, _amounts("hard", hard), _amounts("used", used))


def _amounts(field: str, resources: ResourceMap | None) -> dict[str, int]:
    """All amounts of a list, also of names that scheduling does not count."""
    out = {}
    for name, quantity in (resources or {}).items():
        try:
            out[name] = amount(name, quantity)
        except QuantityError as error:
            raise QuantityError(f"{field}[{name}]: {error}") from None
    return out


def budget_of(obj: scheduling.PodDisruptionBudget) -> Budget:
    """The budget of an object. Without a status nothing may be disrupted; an invalid selector selects no pods."""
    status = obj.status or scheduling.PodDisruptionBudgetStatus()
    selector = selector_of(obj.spec.selector) if obj.spec else None
    allowed, disrupted = status.disruptions_allowed or 0, frozenset(status.disrupted_pods or ())
    return Budget(obj.key, obj.namespace, selector, allowed, status.desired_healthy or 0, disrupted)
