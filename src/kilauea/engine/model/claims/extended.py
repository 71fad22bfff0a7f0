"""Extended resources that devices of a class serve, as in Kubernetes' DRAExtendedResource.

A container that requests `example.com/gpu: 2` requests two devices of the class with that `extendedResourceName`, on
nodes that do not offer the resource themselves. All such requests of a pod form one special claim.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kilauea.api import dynamic as wire
from kilauea.api.cel import CelError
from kilauea.api.core import Pod
from kilauea.api.quantity import resource_amounts
from kilauea.engine.model.claims.facts import Ask, Class, Demand, Device, Request
from kilauea.engine.model.claims.inventory import Inventory
from kilauea.engine.model.nodes import Offer

IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""Prefix of the resource that each class serves, followed by its name."""
UNIT = 1000
"""Amounts of extended resources are thousandths."""
LONGEST_BASE = 57
"""Characters of the name of a special claim before its suffix."""
UNLIMITED = 1 << 20
"""Number of shares of a device without a limit, more than the pods of any node."""
NO_AMOUNT = Ask("", "", (), False, 1, False, (), (), "")


class ContainerAsk(NamedTuple):
    """Extended resources that one container requests."""

    container: int
    """Index among the init containers and the containers after them."""
    short: bool
    """True if it ends before the containers after it start: an init container other than a sidecar."""
    amounts: tuple[tuple[str, int, int], ...]
    """Resource, its index among all requests of the container by name, and number of devices."""


class ServedRequest(NamedTuple):
    """A container, a resource that it requests, and the request of the special claim that serves it."""

    container: int
    resource: str
    request: str


class SpecialDemand(NamedTuple):
    """The content of a special claim, if devices serve all the resources that have a class."""

    demand: Demand
    served: tuple[ServedRequest, ...]
    resources: tuple[str, ...]
    """The resource of each request of the demand."""

    def on(self, by_class: Collection[str]) -> SpecialDemand:
        """Return the content on a node where devices serve only some of the resources."""
        kept = [at for at, resource in enumerate(self.resources) if resource in by_class]
        if len(kept) == len(self.resources):
            return self
        demand = Demand(tuple(self.demand.requests[at] for at in kept), ())
        served = tuple(each for each in self.served if each.resource in by_class)
        return SpecialDemand(demand, served, tuple(self.resources[at] for at in kept))

    def of_requests(self, names: Collection[str]) -> SpecialDemand:
        """Return the content of the claim with only some of the requests."""
        found = zip(self.demand.requests, self.resources, strict=True)
        return self.on({resource for request, resource in found if request.name in names})

    @property
    def spec(self) -> wire.ResourceClaimSpec:
        """The `spec` of the claim."""
        ways = ((request.name, request.ways[0]) for request in self.demand.requests)
        requests = [
            wire.DeviceRequest(
                name=name,
                exactly=wire.DeviceSubRequest(
                    device_class_name=way.class_name, allocation_mode=wire.EXACT_COUNT, count=way.number
                ),
            )
            for name, way in ways
        ]
        return wire.ResourceClaimSpec(wire.DeviceClaim(requests))


def container_asks(pod: Pod) -> tuple[ContainerAsk, ...]:
    """Return the extended resources that the containers of a pod request."""
    init = pod.spec.init_containers or ()
    out = []
    for number, container in enumerate((*init, *(pod.spec.containers or ()))):
        requests = container.resources.requests if container.resources else None
        if not requests or not any("/" in name for name in requests):
            continue
        asked = resource_amounts(requests)
        amounts = [
            (name, place, asked.get(name, 0) // UNIT)
            for place, name in enumerate(sorted(requests))
            if is_extended(name)
        ]
        amounts = [each for each in amounts if each[2] > 0]
        if amounts:
            short = number < len(init) and container.restart_policy != "Always"
            out.append(ContainerAsk(number, short, tuple(amounts)))
    return tuple(out)


def is_extended(name: str) -> bool:
    """Return True if a class of devices may serve a resource."""
    if name.startswith(IMPLICIT):
        return True
    domain, found, _ = name.partition("/")
    native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(found) and not native and not name.startswith("requests.")


def served_by(classes: Iterable[Class]) -> dict[str, str]:
    """The class that serves each extended resource: of several, the newest, then the first by name."""
    out: dict[str, str] = {}
    by_name = sorted(classes, key=lambda each: each.name, reverse=True)
    for of in sorted(by_name, key=lambda each: each.created):
        out[IMPLICIT + of.name] = of.name
        if of.extended:
            out[of.extended] = of.name
    return out


@lru_cache(maxsize=1024)
def special_demand(asks: tuple[ContainerAsk, ...], classes: tuple[tuple[str, str], ...]) -> SpecialDemand:
    """The content of the special claim of a pod.

    Args:
        asks: the requests of its containers.
        classes: resources and the classes that serve them, by resource.
    """
    requests: list[tuple[Request, str]] = []
    served: list[ServedRequest] = []
    for resource, of in classes:
        numbers, of_resource = _requests(asks, resource)
        served += of_resource
        for name, number in numbers.items():
            way = NO_AMOUNT._replace(name=name, class_name=of, number=number)
            requests.append((Request(name, (way,)), resource))
    requests.sort(key=lambda each: each[0].name)
    demand = Demand(tuple(request for request, _ in requests), ())
    return SpecialDemand(demand, tuple(served), tuple(resource for _, resource in requests))


def _requests(asks: Iterable[ContainerAsk], resource: str) -> tuple[dict[str, int], list[ServedRequest]]:
    """Requests for one resource, with their numbers of devices, and the containers that they serve.

    An init container uses the devices of the containers that start after it, and others only for the excess; of several
    init containers, the one that requests the most decides, as they run in sequence.
    """
    wanted = [
        (ask, f"container-{ask.container}-request-{place}", number)
        for ask in asks
        for name, place, number in ask.amounts
        if name == resource
    ]
    lasting = [(ask.container, name, number) for ask, name, number in wanted if not ask.short]
    served = [ServedRequest(container, resource, name) for container, name, _ in lasting]
    brief: list[tuple[int, str]] = []
    extra: dict[str, int] = {}
    for ask, name, number in wanted:
        missing = number if ask.short else 0
        for container, other, devices in lasting:
            if missing > 0 and container > ask.container:
                brief.append((ask.container, other))
                missing -= devices
        if missing > 0:
            brief.append((ask.container, name))
            extra[name] = missing
    largest = max(extra, key=lambda name: extra[name], default="")
    served += [ServedRequest(at, resource, largest if name in extra else name) for at, name in brief]
    numbers = {name: number for _, name, number in lasting}
    return ({largest: extra[largest]} if largest else {}) | numbers, served


def special_name(pod: str, uid: str, number: int = 0) -> str:
    """Return a name for the special claim of a pod; it depends on the pod's UID, so it is never created twice.

    Args:
        pod: name of the pod.
        uid: its UID.
        number: counts up from 0 while a claim that is not the pod's has the name.
    """
    base = f"{pod}{wire.OF_EXTENDED_RESOURCES}"[:LONGEST_BASE].rstrip("-.")
    text = f"{uid}/{number}" if number else uid
    return f"{base}-{hashlib.sha256(text.encode()).hexdigest()[:5]}"


# --- amounts that nodes offer


def offers(inventory: Inventory, classes: Mapping[str, Class], served: Iterable[tuple[str, str]]) -> dict[str, Offer]:
    """The amount of each resource that devices serve; a device that claims share counts for each share."""
    shares = np.array([_shares(device) for device in inventory.devices], dtype=np.int64)
    out: dict[str, Offer] = {}
    for resource, of in served:
        try:
            mask = inventory.matching(NO_AMOUNT, classes[of], "")
        except CelError:
            mask = np.zeros(len(inventory), dtype=bool)
        amounts = UNIT * shares * mask
        several = [(reach, int(amounts[rows].sum())) for reach, rows in inventory.shared]
        out[resource] = Offer(inventory.sums(amounts), [each for each in several if each[1]])
    return out


def _shares(device: Device) -> int:
    """The number of claims that can share a device, with the amount for claims that do not request one."""
    if device.shared is None:
        return 1
    amounts = ((each.value, each.taken(None) or 0) for each in device.shared.values())
    return min((value // amount for value, amount in amounts if amount > 0), default=UNLIMITED)
