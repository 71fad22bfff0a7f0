"""NUMA: the processors of nodes in Numatopologies, and the exclusive processors that pods request.

Sets of processors are masks, integers with a bit for each. The algorithms are those of the kubelet's static CPU manager
and its topology manager, with processors as the only resource.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kilauea.api import wellknown
from kilauea.api.agents import Numatopology, NumatopologySpec
from kilauea.api.core import Pod
from kilauea.api.numa import MOST_CPUS, parse_cpuset
from kilauea.api.quantity import QuantityError, parse_milli, resource_amounts
from kilauea.engine.model.resources import CPU
from kilauea.engine.model.service_classes import GUARANTEED, qos_of

BEST_EFFORT, RESTRICTED, SINGLE = "best-effort", "restricted", "single-numa-node"
STATIC = "static"
MOST_NUMA_NODES = 8
"""The maximum that the kubelet supports."""


class NumaWish(NamedTuple):
    """The whole processors that a pod wants."""

    policy: str
    """The policy that it names; empty for none."""
    containers: tuple[tuple[str, int], ...]
    """Name and number of processors of each container, 0 for shared ones; unnamed unless there is a policy."""


def numa_wish(pod: Pod) -> NumaWish | None:
    """The wish of a pod; None unless its QoS class is Guaranteed and it names a policy or requests whole processors."""
    policy = pod.annotations.get(wellknown.NUMA_POLICY, "")
    policy = "" if policy == "none" else policy
    containers = pod.spec.containers or ()
    if not all(c.resources is not None and c.resources.limits for c in containers) or qos_of(pod.spec) != GUARANTEED:
        return None
    wanted = []
    for container in containers:
        milli = resource_amounts(container.resources.limits).get(CPU, 0) if container.resources else 0
        wanted.append((container.name if policy else "", milli // 1000 if milli % 1000 == 0 else 0))
    return NumaWish(policy, tuple(wanted)) if policy or any(count for _, count in wanted) else None


class Place(NamedTuple):
    """The location of a processor in its machine."""

    cpu: int
    numa: int
    socket: int
    core: int


@dataclass(frozen=True)
class Hardware:
    """The processors of a machine, and the number reserved for the system. Equal machines are equal."""

    places: tuple[Place, ...]
    reserved_count: int

    @cached_property
    def all(self) -> int:
        """All processors."""
        return _mask(place.cpu for place in self.places)

    @cached_property
    def numa(self) -> dict[int, int]:
        """Processors by NUMA node."""
        nodes = sorted({place.numa for place in self.places})
        return {node: _mask(p.cpu for p in self.places if p.numa == node) for node in nodes}

    @cached_property
    def sockets(self) -> dict[int, int]:
        """Processors by socket."""
        sockets = sorted({place.socket for place in self.places})
        return {socket: _mask(p.cpu for p in self.places if p.socket == socket) for socket in sockets}

    @cached_property
    def cores(self) -> dict[tuple[int, int], int]:
        """Processors by socket and core."""
        out: dict[tuple[int, int], int] = {}
        for place in self.places:
            out[place.socket, place.core] = out.get((place.socket, place.core), 0) | 1 << place.cpu
        return dict(sorted(out.items()))

    @cached_property
    def reserved(self) -> int:
        """Processors reserved for the system."""
        return self.take(self.all, min(self.reserved_count, self.all.bit_count())) or 0

    @cached_property
    def unions(self) -> tuple[tuple[int, int], ...]:
        """Every set of NUMA nodes as (size, processors), small sets first, and equal ones by their lower nodes."""
        masks, out = list(self.numa.values()), []
        for subset in range(1, 1 << len(masks)):
            cpus = 0
            for number, mask in enumerate(masks):
                cpus |= mask if subset >> number & 1 else 0
            out.append((subset.bit_count(), subset, cpus))
        return tuple((size, cpus) for size, _, cpus in sorted(out))

    def take(self, free: int, count: int) -> int | None:
        """Take this many processors of a free set: whole sockets, then cores, then single ones; None if too few."""
        if free.bit_count() < count:
            return None
        taken = 0
        for whole in self._whole_parts(free):
            if whole.bit_count() <= count and not whole & taken:
                taken |= whole
                count -= whole.bit_count()
        left = free & ~taken
        while count:
            core = min((c for c, mask in self.cores.items() if mask & left), key=lambda c: self._rank(c, left, taken))
            for cpu in _bits(self.cores[core] & left):
                if count:
                    taken |= 1 << cpu
                    count -= 1
            left &= ~taken
        return taken

    def _whole_parts(self, free: int) -> Iterator[int]:
        """Entirely free sockets, then entirely free cores, those of the fullest socket first."""
        yield from (mask for mask in self.sockets.values() if mask & free == mask)
        whole = [(core, mask) for core, mask in self.cores.items() if mask & free == mask]
        per_socket: dict[int, int] = {}
        for (socket, _), _mask_of in whole:
            per_socket[socket] = per_socket.get(socket, 0) + 1
        whole.sort(key=lambda entry: (per_socket[entry[0][0]], entry[0]))
        yield from (mask for _, mask in whole)

    def _rank(self, core: tuple[int, int], left: int, taken: int) -> tuple[int, ...]:
        """Order in which single processors are taken: near those already taken, then from the fullest parts."""
        socket = self.sockets[core[0]]
        return -(socket & taken).bit_count(), (socket & left).bit_count(), (self.cores[core] & left).bit_count(), *core


class Assignment(NamedTuple):
    """The outcome for a pod on a node."""

    refused: int
    """Number of the first container that is not admitted, from 1; 0 if all are."""
    cpus: int
    """Processors that the pod gets."""
    lacking: bool
    """True if the policy admits the pod although it has too few processors."""


def assign(hardware: Hardware, policy: str, free: int, wish: NumaWish) -> Assignment:
    """The outcome for a pod on a node with these free processors, container by container."""
    given, lacking = 0, False
    for number, (_, count) in enumerate(wish.containers, 1):
        if not count:
            continue
        within, preferred, size = _best_union(hardware, free, count)
        if (policy in (RESTRICTED, SINGLE) and not preferred) or (policy == SINGLE and size != 1):
            return Assignment(number, 0, False)
        close = free & within
        first = hardware.take(close, min(count, close.bit_count())) or 0
        rest = hardware.take(free & ~first, count - first.bit_count())
        if rest is None:
            lacking = True
            continue
        given |= first | rest
        free &= ~(first | rest)
    return Assignment(0, given, lacking)


def _best_union(hardware: Hardware, free: int, count: int) -> tuple[int, bool, int]:
    """The NUMA nodes for this many processors: their processors, True if their number is minimal, and their number."""
    fewest = 0
    for size, cpus in hardware.unions:
        if not fewest and cpus.bit_count() >= count:
            fewest = size
        if (cpus & free).bit_count() >= count:
            return cpus, size == fewest, size
    return hardware.all, False, len(hardware.numa)


@dataclass(frozen=True)
class NumaFacts:
    """A Numatopology in the engine's terms."""

    cpu_policy: str
    policy: str
    hardware: Hardware | None
    """None if the object describes no processors."""
    free: int
    """Processors that no container uses exclusively, without the reserved ones."""
    holders: frozenset[str]
    """UIDs and names (`namespace/name`) of the pods whose processors the object contains."""


def numa_facts(obj: Numatopology) -> NumaFacts:
    """Read a Numatopology.

    Raises:
        ValueError: a field cannot be read; names it.
    """
    spec = obj.spec or NumatopologySpec()
    policies = spec.policies or {}
    hardware = _hardware(spec)
    cpu = (spec.numa_resources or {}).get(CPU)
    try:
        free = parse_cpuset((cpu.allocatable if cpu else None) or "")
    except ValueError as error:
        raise ValueError(f"spec.numares[cpu].allocatable: {error}") from None
    free &= hardware.all & ~hardware.reserved if hardware else 0
    pods = [pod for pod in spec.pod_allocations or () if _has_cpus(pod.container_allocations)]
    holders = frozenset(name for pod in pods for name in (pod.uid, f"{pod.namespace}/{pod.name}") if name)
    return NumaFacts(
        policies.get("CPUManagerPolicy", ""), policies.get("TopologyManagerPolicy", ""), hardware, free, holders
    )


def _has_cpus(containers: object) -> bool:
    return any((c.allocations or {}).get(CPU) for c in containers or ())  # type: ignore[attr-defined]


def _hardware(spec: NumatopologySpec) -> Hardware | None:
    if not spec.cpu_detail:
        return None
    places = []
    for cpu, place in spec.cpu_detail.items():
        where = (place.numa or 0, place.socket or 0, place.core or 0)
        if not (cpu.isascii() and cpu.isdigit() and len(cpu) < 6 and int(cpu) < MOST_CPUS) or min(where) < 0:
            raise ValueError(f"spec.cpuDetail[{cpu[:32]}]: invalid: use ids below {MOST_CPUS} and places of 0 or more")
        places.append(Place(int(cpu), *where))
    if len({place.numa for place in places}) > MOST_NUMA_NODES:
        raise ValueError(f"spec.cpuDetail: more than {MOST_NUMA_NODES} NUMA nodes, which no kubelet supports")
    try:
        reserved = parse_milli((spec.res_reserved or {}).get(CPU) or "0")
    except QuantityError as error:
        raise ValueError(f"spec.resReserved[cpu]: {error}") from None
    return Hardware(tuple(sorted(places)), max(-(-reserved // 1000), 0))


def _mask(cpus: Iterator[int]) -> int:
    mask = 0
    for cpu in cpus:
        mask |= 1 << cpu
    return mask


def _bits(mask: int) -> Iterator[int]:
    """The processors of a mask, in order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
