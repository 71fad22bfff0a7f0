"""What a pod requests of its node: the sum for its containers, init containers and overhead included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kilauea.api.ports import Obj
from kilauea.api.quantity import QuantityError, resource_amounts


def requests_of(pod: Obj, granted: Mapping[str, Obj] | None = None) -> Mapping[str, int]:
    """Return what a pod requests, in the units of `resource_amounts`.

    Args:
        pod: the pod.
        granted: resources of containers by name, for those that have other ones than the specification asks for.
    """
    spec, own = pod["spec"], granted or {}
    total = _sum(_requests(each, own) for each in spec["containers"])
    beside: dict[str, int] = {}
    first: dict[str, int] = {}
    for each in spec.get("initContainers") or ():
        if each.get("restartPolicy") == "Always":
            beside = _sum((beside, _requests(each, own)))
            first = _most(first, beside)
        else:
            first = _most(first, _sum((beside, _requests(each, own))))
    return _sum((_most(_sum((total, beside)), first), _amounts(spec.get("overhead"))))


def _requests(container: Obj, granted: Mapping[str, Obj]) -> Mapping[str, int]:
    resources = granted.get(container["name"], container.get("resources")) or {}
    return _amounts(resources.get("requests"))


def _amounts(given: Mapping[str, str] | None) -> Mapping[str, int]:
    try:
        return resource_amounts(dict(given or {}))
    except QuantityError:
        return {}


def _sum(parts: Iterator[Mapping[str, int]] | Sequence[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            found[name] = found.get(name, 0) + value
    return found


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
