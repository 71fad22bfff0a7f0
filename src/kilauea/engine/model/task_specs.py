"""Requests of pods, as values that identical pods share: resources, selectors, tolerations, ports, spread, claims."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kilauea.api import wellknown
from kilauea.api.core import (
    Affinity,
    Container,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
    Volume,
)
from kilauea.api.device_config import CardNames
from kilauea.api.quantity import resource_amounts
from kilauea.api.selectors import (
    NodeTerm,
    Requirement,
    Selector,
    TolerationKey,
    node_term_of,
    node_terms_of,
    selector_of,
    toleration_of,
)
from kilauea.engine.model.cards import CardWish, card_names
from kilauea.engine.model.claims.extended import ContainerAsk, container_asks
from kilauea.engine.model.devices import DeviceSource, DeviceWish, device_source, device_wish
from kilauea.engine.model.in_tree import Disk, disks_of, inline_of
from kilauea.engine.model.numa import NumaWish, numa_wish
from kilauea.engine.model.resources import CPU, MEMORY, MOST_PODS, PODS, is_empty, within

UNSTATED_CPU = 100
"""Milli-cores of a container without a request, in node scores."""
MOST_WEIGHT = 100
"""Larger weights of preferences are reduced to this."""
UNSTATED_MEMORY = 200 * 1024 * 1024
"""Bytes of a container without a request, in node scores."""


class PodTerm(NamedTuple):
    """The pods that an affinity term selects, and the node label whose values are the topology domains."""

    namespaces: tuple[str, ...]
    namespace_selector: Selector | None
    selector: Selector | None
    topology_key: str


class WeightedTerm(NamedTuple):
    """A preferred pod affinity term; the weight of an anti-affinity term is negative."""

    weight: int
    term: PodTerm


class WeightedNodeTerm(NamedTuple):
    """A preferred node affinity term."""

    weight: int
    term: NodeTerm


class Spread(NamedTuple):
    """A topology spread constraint."""

    max_skew: int
    topology_key: str
    hard: bool
    selector: Selector | None
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


class ClaimUse(NamedTuple):
    """A volume claim that a pod mounts."""

    key: str
    """`namespace/name`."""
    own: bool
    """True for the claim of a generic ephemeral volume of this pod."""


class HostPort(NamedTuple):
    """A port on the node itself."""

    protocol: str
    ip: str
    port: int


class TaskSpec:
    """The requests of a pod. Equal ones are the same object (see `SpecTable`), so identity is equality."""

    __slots__ = (
        "__weakref__",
        "affinity",
        "anti_affinity",
        "best_effort",
        "cards",
        "claims",
        "device_source",
        "devices",
        "disks",
        "extended",
        "inline",
        "node_selector",
        "node_terms",
        "numa",
        "offline",
        "ports",
        "preferred_nodes",
        "preferred_pods",
        "requests",
        "revocable",
        "scored_cpu",
        "scored_memory",
        "spread",
        "strategy",
        "tolerations",
    )

    requests: dict[str, int]
    """Requests with init containers, overhead and one pod slot; never modified."""
    scored_cpu: int
    """Milli-cores for scoring; a container without a request counts `UNSTATED_CPU`."""
    scored_memory: int
    """Bytes for scoring; a container without a request counts `UNSTATED_MEMORY`."""
    best_effort: bool
    """True if it requests only a pod slot."""
    node_selector: tuple[tuple[str, str], ...]
    node_terms: tuple[NodeTerm, ...] | None
    preferred_nodes: tuple[WeightedNodeTerm, ...]
    tolerations: tuple[TolerationKey, ...]
    ports: tuple[HostPort, ...]
    affinity: tuple[PodTerm, ...]
    anti_affinity: tuple[PodTerm, ...]
    preferred_pods: tuple[WeightedTerm, ...]
    spread: tuple[Spread, ...]
    claims: tuple[ClaimUse, ...]
    """Volume claims, in the order of the volumes, without repeats."""
    inline: tuple[tuple[str, str], ...]
    """CSI driver and handle of the volumes that the pod names without a claim."""
    disks: tuple[Disk, ...]
    """Disks that the pod names without a claim, and that pods on a node cannot share."""
    cards: CardWish | None
    """The accelerator cards that the pod names; None if it does not name one."""
    device_source: DeviceSource | None
    """The parts of the pod that determine `devices`; None without extended resources."""
    devices: DeviceWish | None
    """The parts of cards that the pod requests; None without any."""
    extended: tuple[ContainerAsk, ...]
    """Extended resources by container, which devices of a class may serve."""
    numa: NumaWish | None
    """The whole processors that the pod requests; None without any."""
    offline: bool
    """True if it yields to online pods on its node (its QoS level is BE or negative)."""
    revocable: bool
    """True if it may run on nodes that are lent for a time of the day."""

    strategy: tuple[str, str] | None
    """Type and weights of node scoring, from the pod's annotations."""

    @property
    def selects_pods(self) -> bool:
        """True if placement depends on the labels of other pods."""
        return bool(self.affinity or self.anti_affinity or self.preferred_pods or self.spread)

    @property
    def carries_terms(self) -> bool:
        """True if the pod, once placed, attracts or repels others by its terms."""
        return bool(self.anti_affinity or self.preferred_pods)


class SpecTable:
    """Interns task specs; unused ones are freed."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[tuple[object, ...], TaskSpec] = weakref.WeakValueDictionary()
        self._card_names = CardNames()

    def name_cards(self, names: CardNames) -> bool:
        """Set the resource names of cards for all specs; return False if they are unchanged."""
        if names == self._card_names:
            return False
        self._card_names = names
        for spec in self._known.values():
            spec.devices = self._devices(spec)
        return True

    def _devices(self, spec: TaskSpec) -> DeviceWish | None:
        return device_wish(spec.device_source, self._card_names) if spec.device_source is not None else None

    def spec_of(self, pod: Pod) -> TaskSpec:
        """The spec of a pod.

        Raises:
            QuantityError: a request is not a quantity.
        """
        spec = pod.spec
        requests, scored_cpu, scored_memory = requests_of(spec)
        affinity = spec.affinity or _NO_AFFINITY
        asks: dict[str, object] = {
            "scored_cpu": scored_cpu,
            "scored_memory": scored_memory,
            "node_selector": tuple(sorted(spec.node_selector.items())) if spec.node_selector else (),
            "node_terms": _node_terms(affinity),
            "preferred_nodes": _preferred_nodes(affinity),
            "tolerations": tuple(toleration_of(t) for t in spec.tolerations) if spec.tolerations else (),
            "ports": _ports(spec),
            "affinity": _terms(pod, affinity.pod_affinity),
            "anti_affinity": _terms(pod, affinity.pod_anti_affinity),
            "preferred_pods": _weighted(pod, affinity.pod_affinity, 1) + _weighted(pod, affinity.pod_anti_affinity, -1),
            "spread": _spread(pod, spec.topology_spread_constraints) if spec.topology_spread_constraints else (),
            "claims": _claims(pod, spec.volumes) if spec.volumes else (),
            "inline": inline_of(spec.volumes) if spec.volumes else (),
            "disks": disks_of(spec.volumes) if spec.volumes else (),
            "cards": _card_wish(pod),
            "device_source": device_source(pod, requests),
            "extended": container_asks(pod) if any("/" in name for name in requests) else (),
            "offline": is_offline(pod.annotations),
            "revocable": _revocable(pod.annotations),
            "numa": numa_wish(pod),
            "strategy": _strategy(pod.annotations),
        }
        key = (tuple(requests.items()), *asks.values())
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _build(requests, asks)
            known.devices = self._devices(known)
        return known


_NO_AFFINITY = Affinity()


def is_offline(annotations: Mapping[str, str]) -> bool:
    """Return True if the annotations mark a pod as offline: level BE, or a negative number."""
    level = annotations.get(wellknown.QOS_LEVEL, "")
    return level == "BE" or (level[:1] == "-" and level[1:].isdecimal())


def _build(requests: dict[str, int], asks: Mapping[str, object]) -> TaskSpec:
    spec = TaskSpec()
    spec.requests = requests
    spec.best_effort = is_empty(requests)
    for field, value in asks.items():
        setattr(spec, field, value)
    return spec


def requests_of(spec: PodSpec) -> tuple[dict[str, int], int, int]:
    """Requests of a pod (spec 1.4.2), and cpu and memory for scoring."""
    containers = spec.containers or ()
    if len(containers) == 1 and not (spec.init_containers or spec.resources or spec.overhead):
        asked = _asked(containers[0])
        total = dict(asked)
        total[PODS] = total.get(PODS, 0) + 1
        return total, asked.get(CPU) or UNSTATED_CPU, asked.get(MEMORY) or UNSTATED_MEMORY
    plain = _sum_containers(containers, spec.init_containers or (), _asked)
    scored = _sum_containers(containers, spec.init_containers or (), _scored)
    pod_level = resource_amounts(spec.resources.requests) if spec.resources else {}
    overhead = resource_amounts(spec.overhead)
    for total in (plain, scored):
        total.update(pod_level)
        for name, amount in overhead.items():
            total[name] = total.get(name, 0) + amount
    plain[PODS] = plain.get(PODS, 0) + 1
    return plain, scored.get(CPU, 0), scored.get(MEMORY, 0)


def _asked(container: Container) -> Mapping[str, int]:
    return resource_amounts(container.resources.requests) if container.resources else {}


def _scored(container: Container) -> Mapping[str, int]:
    asked = _asked(container)
    return {**asked, CPU: asked.get(CPU) or UNSTATED_CPU, MEMORY: asked.get(MEMORY) or UNSTATED_MEMORY}


def _sum_containers(
    containers: Iterable[Container], init: Iterable[Container], ask: Callable[[Container], Mapping[str, int]]
) -> dict[str, int]:
    """The sum of the containers, or the largest step of the init containers if that is more."""
    total: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in containers:
        _plus(total, ask(container))
    for container in init:
        asked = ask(container)
        if container.restart_policy == "Always":
            _plus(total, asked)
            _plus(sidecars, asked)
            step = sidecars
        else:
            step = dict(sidecars)
            _plus(step, asked)
        for name, amount in step.items():
            most[name] = max(most.get(name, 0), amount)
    return {name: max(total.get(name, 0), most.get(name, 0)) for name in sorted({*total, *most})}


def _plus(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _node_terms(affinity: Affinity) -> tuple[NodeTerm, ...] | None:
    node = affinity.node_affinity
    return node_terms_of(node.required) if node and node.required else None


def _preferred_nodes(affinity: Affinity) -> tuple[WeightedNodeTerm, ...]:
    node = affinity.node_affinity
    if not node or not node.preferred:
        return ()
    out = []
    for preferred in node.preferred:
        if preferred.weight and preferred.preference:
            out.append(WeightedNodeTerm(within(preferred.weight, 0, MOST_WEIGHT), node_term_of(preferred.preference)))
    return tuple(out)


def _ports(spec: PodSpec) -> tuple[HostPort, ...]:
    sidecars = (c for c in spec.init_containers or () if c.restart_policy == "Always")
    ports = {
        HostPort(port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)
        for container in (*(spec.containers or ()), *sidecars)
        for port in container.ports or ()
        if port.host_port
    }
    return tuple(sorted(ports)) if ports else ()


def _claims(pod: Pod, volumes: Iterable[Volume]) -> tuple[ClaimUse, ...]:
    uses: dict[str, ClaimUse] = {}
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            key = f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
            uses.setdefault(key, ClaimUse(key, False))
        elif volume.ephemeral is not None:
            key = f"{pod.namespace}/{pod.name}-{volume.name}"
            uses[key] = ClaimUse(key, True)
    return tuple(uses.values())


def _terms(pod: Pod, affinity: PodAffinity | None) -> tuple[PodTerm, ...]:
    return tuple(pod_term(pod, t) for t in affinity.required) if affinity and affinity.required else ()


def _weighted(pod: Pod, affinity: PodAffinity | None, sign: int) -> tuple[WeightedTerm, ...]:
    if not affinity or not affinity.preferred:
        return ()
    weigh = ((within(w.weight, 0, MOST_WEIGHT), w.pod_affinity_term) for w in affinity.preferred)
    return tuple(WeightedTerm(sign * weight, pod_term(pod, term)) for weight, term in weigh)


def pod_term(pod: Pod, term: PodAffinityTerm) -> PodTerm:
    """The canonical form of an affinity term; `matchLabelKeys` and `mismatchLabelKeys` are merged into its selector."""
    own = term.namespaces is None and term.namespace_selector is None
    namespaces: tuple[str, ...] = (pod.namespace,) if own else tuple(sorted(set(term.namespaces or ())))
    selector = selector_of(term.label_selector)
    if selector is not None:
        extra = [Requirement(k, "In", (pod.labels[k],)) for k in term.match_label_keys or () if k in pod.labels]
        extra += [Requirement(k, "NotIn", (pod.labels[k],)) for k in term.mismatch_label_keys or () if k in pod.labels]
        selector = tuple(sorted((*selector, *extra)))
    return PodTerm(namespaces, selector_of(term.namespace_selector), selector, term.topology_key)


def _spread(pod: Pod, constraints: Iterable[TopologySpreadConstraint]) -> tuple[Spread, ...]:
    return tuple(
        Spread(
            within(c.max_skew, 1, MOST_PODS),
            c.topology_key,
            c.when_unsatisfiable != "ScheduleAnyway",
            _with_keys(pod, selector_of(c.label_selector), c.match_label_keys),
            c.min_domains or 1,
            c.node_affinity_policy != "Ignore",
            c.node_taints_policy == "Honor",
        )
        for c in constraints
    )


def _with_keys(pod: Pod, selector: Selector | None, keys: Iterable[str] | None) -> Selector | None:
    if selector is None or not keys:
        return selector
    return tuple(sorted((*selector, *(Requirement(k, "In", (pod.labels[k],)) for k in keys if k in pod.labels))))


def _card_wish(pod: Pod) -> CardWish | None:
    names = card_names(pod.annotations.get(wellknown.CARD_NAME))
    if not names:
        return None
    limits = _sum_containers(pod.spec.containers or (), pod.spec.init_containers or (), _limited)
    if pod.spec.resources:
        limits.update(resource_amounts(pod.spec.resources.limits))
    return CardWish(names, tuple((n, limits[n]) for n in sorted(limits) if n not in (CPU, MEMORY)))


def _limited(container: Container) -> Mapping[str, int]:
    return resource_amounts(container.resources.limits) if container.resources else {}


def _revocable(annotations: Mapping[str, str]) -> bool:
    """Return True if the pod may run on lent nodes: by its own annotation, else if it is annotated as preemptable."""
    zone = annotations.get(wellknown.REVOCABLE_ZONE)
    if zone is not None:
        return zone == "*"
    return bool(wellknown.parse_bool(annotations.get(wellknown.PREEMPTABLE)))


def _strategy(annotations: Mapping[str, str]) -> tuple[str, str] | None:
    kind = annotations.get(wellknown.SCORING_TYPE)
    return (kind, annotations.get(wellknown.SCORING_WEIGHT, "")) if kind else None
