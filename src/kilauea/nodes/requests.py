"""The requests of a pod to its node: the total for its containers, including init containers and overhead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from kilauea.api.ports import Obj
from kilauea.api.quantity import QuantityError, resource_amounts


def requests_of(pod: Obj, granted: Mapping[str, Obj] | None = None) -> Mapping[str, int]:
    """Return what a pod requests, in the units of `resource_amounts`.

    Args:
        pod: the pod.
        granted: granted resources of containers by name, if they differ from the specification.
    """
    spec, own = pod["spec"], granted or {}
    if len(spec["containers"]) == 1 and not spec.get("initContainers") and not spec.get("overhead"):  # most pods
        return _requests(spec["containers"][0], own)
    total = _sum(_requests(each, own) for each in spec["containers"])
    beside: dict[str, int] = {}
    first: dict[str, int] = {}
    for each in spec.get("initContainers") or ():
        if each.get("restartPolicy") == "Always":
            beside = _sum((beside, _requests(each, own)))
            first = _most(first, beside)
        else:
            first = _most(first, _sum((beside, _requests(each, own))))
    return _sum((_most(_sum((total, beside)), first), amounts_of(spec.get("overhead"))))


class Taken(Protocol):
    """The requests of the pods on a node."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Mapping[str, int]]: ...


def shortage(wanted: Mapping[str, int], node: Obj, taken: Taken) -> tuple[str, str] | None:
    """Return reason and message if a node does not have the resources for another pod; None if it does.

    Args:
        wanted: requests of the pod, from `requests_of`.
        node: the node.
        taken: requests of each pod on the node.
    """
    allocatable = amounts_of((node.get("status") or {}).get("allocatable"))
    if len(taken) + 1 > allocatable.get("pods", len(taken) + 1):
        return _out_of("pods", 1, len(taken), allocatable["pods"])
    for name, amount in sorted(wanted.items()):
        there, used = allocatable.get(name, 0), sum(each.get(name, 0) for each in taken)
        if amount and amount + used > there:
            return _out_of(name, amount, used, there)
    return None


def _out_of(name: str, wanted: int, taken: int, there: int) -> tuple[str, str]:
    amounts = f"requested: {wanted}, used: {taken}, capacity: {there}"
    return f"OutOf{name}", f"Node didn't have enough resource: {name}, {amounts}"


def _requests(container: Obj, granted: Mapping[str, Obj]) -> Mapping[str, int]:
    resources = granted.get(container["name"], container.get("resources")) or {}
    return amounts_of(resources.get("requests"))


def amounts_of(given: Mapping[str, str] | None) -> Mapping[str, int]:
    """Return the amounts of a resource list, in the units of `resource_amounts`, without invalid ones."""
    try:
        return resource_amounts(dict(given or {}))
    except QuantityError:
        return {name: value for each in (given or {}).items() for name, value in _readable(*each)}


def _readable(name: str, text: str) -> Iterable[tuple[str, int]]:
    with suppress(QuantityError):
        return resource_amounts({name: text}).items()
    return ()


def _sum(parts: Iterator[Mapping[str, int]] | Sequence[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            found[name] = found.get(name, 0) + value
    return found


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
