"""Pods of a job that an API server would refuse to create because of quotas or priority classes.

A plan with such pods would start a job that never gets its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kilauea.api.core import Pod, ResourceQuota
from kilauea.api.meta import Object
from kilauea.api.quantity import format_amount, resource_amounts
from kilauea.api.scheduling import PriorityClass
from kilauea.api.wellknown import SYSTEM_CLASSES
from kilauea.controllers.pod_usage import Amounts, pod_usage
from kilauea.engine.explain.group import Change
from kilauea.simulator.scenario import NotCreated

PODS_NOT_CREATED = "PodsNotCreated"
"""Code of a job whose pods cannot be created."""

JUDGED = ("exceeded quota", "failed quota", "no PriorityClass with name")
"""Texts of refusals that `Creation` predicts: a status may still have them after the user has removed the cause."""

ENDED = ("Succeeded", "Failed")


class _Quota:
    """A quota and its usage, in the engine's units."""

    def __init__(self, obj: ResourceQuota) -> None:
        spec, status = obj.spec, obj.status
        self.key, self.name = obj.key, obj.name
        self.hard = dict(resource_amounts((status.hard if status else None) or (spec.hard if spec else None)))
        self.used = dict(resource_amounts(status.used)) if status and status.used else None

    def count(self, usage: Mapping[str, float]) -> None:
        """Count a pod that the server has not counted, or that was just created."""
        self.used = self.used or {}
        for name in self.hard:
            self.used[name] = self.used.get(name, 0) + int(usage.get(name, 0))

    def beyond(self, usage: Mapping[str, float]) -> list[str]:
        """The resources of which a pod would exceed the quota."""
        used = self.used or {}
        return sorted(n for n, most in self.hard.items() if n in usage and used.get(n, 0) + usage[n] > most)

    def unsaid(self, usage: Mapping[str, float]) -> list[str]:
        """The resources that the quota limits and a pod does not request."""
        counted = ("cpu", "memory", "requests.", "limits.")
        return sorted(n for n in self.hard if n.startswith(counted) and n not in usage)


class Creation:
    """Admits or refuses new pods as the API server would, and counts the admitted ones.

    Args:
        objects: the existing objects. Quotas with scopes are ignored.
    """

    def __init__(self, objects: Iterable[Object]) -> None:
        objects = list(objects)
        self._classes = {*SYSTEM_CLASSES, *(obj.name for obj in objects if isinstance(obj, PriorityClass))}
        self._quotas: dict[str, list[_Quota]] = {}
        for quota in sorted((o for o in objects if isinstance(o, ResourceQuota)), key=lambda o: o.key):
            self._quotas.setdefault(quota.namespace, []).append(_Quota(quota))
        fresh = {name: [q for q in quotas if q.used is None] for name, quotas in self._quotas.items()}
        for obj in objects if any(fresh.values()) else ():
            if isinstance(obj, Pod) and not (obj.status and obj.status.phase in ENDED):
                for uncounted in fresh.get(obj.namespace, ()):
                    uncounted.count(pod_usage(msgspec.to_builtins(obj.spec)))

    def refusals(self, pods: Iterable[Mapping[str, Any]]) -> tuple[list[int], NotCreated | None]:
        """Indexes of the refused pods, and the reason for the first of them."""
        refused: list[int] = []
        first: tuple[str, Change | None] | None = None
        short: Amounts = {}
        for place, pod in enumerate(pods):
            why = self._refusal(pod, short)
            if why is not None:
                refused.append(place)
                first = first or why
        if first is None:
            return [], None
        message, change = first
        if change is not None and change.what == "namespaceQuota":
            change = Change(change.what, change.object, change.resource, short[f"{change.object} {change.resource}"])
        return refused, NotCreated(len(refused), message, change)

    def _refusal(self, pod: Mapping[str, Any], short: Amounts) -> tuple[str, Change | None] | None:
        metadata, spec = pod["metadata"], pod.get("spec") or {}
        begin = f'pods "{metadata["name"]}" is forbidden'
        named = spec.get("priorityClassName")
        if named and named not in self._classes:
            return f"{begin}: no PriorityClass with name {named} was found", Change("priorityClass", named, "", 1)
        usage, quotas = pod_usage(spec), self._quotas.get(metadata.get("namespace") or "default", [])
        for quota in quotas:
            if unsaid := quota.unsaid(usage):
                return f"{begin}: failed quota: {quota.name}: must specify {','.join(unsaid)}", None
        for quota in quotas:
            if beyond := quota.beyond(usage):
                for name in beyond:
                    missing = short.get(f"{quota.key} {name}", int((quota.used or {}).get(name, 0) - quota.hard[name]))
                    short[f"{quota.key} {name}"] = missing + usage[name]
                sums = (("requested", usage), ("used", quota.used or {}), ("limited", quota.hard))
                texts = [f"{word}: {_listed(amounts, beyond)}" for word, amounts in sums]
                message = f"{begin}: exceeded quota: {quota.name}, {', '.join(texts)}"
                return message, Change("namespaceQuota", quota.key, beyond[0], 0)
        for quota in quotas:
            quota.count(usage)
        return None


def _listed(amounts: Mapping[str, float], names: Iterable[str]) -> str:
    """`name=quantity` pairs in the server's format."""
    return ",".join(f"{name}={format_amount(name, amounts.get(name, 0))}" for name in names)
