"""Usage of a pod in a quota: the resource list for the minimum of a pod group.

As Kubernetes counts for a ResourceQuota: the pod itself, its requests and its limits, each under the names in quotas;
extended resources also under their own names, which the scheduler uses. Sidecars count in addition to the containers,
init containers by the largest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kilauea.api.quantity import QuantityError, amount, format_amount

Amounts = dict[str, int]
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})


def pod_usage(spec: Mapping[str, Any]) -> Amounts:
    """Amounts by the names in quotas, each in the unit of its resource; invalid ones are left out."""
    usage: Amounts = {"pods": 1, "count/pods": 1}
    for name, wanted in _of_pod(spec, "requests").items():
        usage[f"requests.{name}"] = wanted
        usage[name] = wanted
    for name, limit in _of_pod(spec, "limits").items():
        if name in _STANDARD:
            usage[f"limits.{name}"] = limit
    return usage


def times(amounts: Amounts, count: int) -> dict[str, str]:
    """The amounts multiplied by a count, as text, in the order of their names."""
    return {name: format_amount(name, amounts[name] * count) for name in sorted(amounts)}


def _of_pod(spec: Mapping[str, Any], side: str) -> Amounts:
    """Requests or limits of a pod with its overhead."""
    total = _sum(_of_container(each, side) for each in spec.get("containers") or ())
    started: Amounts = {}
    beginning: Amounts = {}
    for container in spec.get("initContainers") or ():
        needs = _of_container(container, side)
        if container.get("restartPolicy") == "Always":
            total = _sum((total, needs))
            started = needs = _sum((started, needs))
        else:
            needs = _sum((started, needs))
        beginning = {name: max(beginning.get(name, 0), needs.get(name, 0)) for name in {**beginning, **needs}}
    for name, first in beginning.items():
        total[name] = max(total.get(name, 0), first)
    whole = _read((spec.get("resources") or {}).get(side))
    total.update({name: value for name, value in whole.items() if name in ("cpu", "memory")})
    overhead = _read(spec.get("overhead"))
    return _sum((total, {name: value for name, value in overhead.items() if side == "requests" or name in total}))


def _of_container(container: Mapping[str, Any], side: str) -> Amounts:
    return _read((container.get("resources") or {}).get(side))


def _sum(lists: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for amounts in lists:
        for name, value in amounts.items():
            total[name] = total.get(name, 0) + value
    return total


def _read(resources: Mapping[str, Any] | None) -> Amounts:
    amounts: Amounts = {}
    for name, quantity in (resources or {}).items():
        try:
            amounts[name] = amount(name, quantity)
        except QuantityError:
            continue  # the API server rejects such pods
    return amounts
