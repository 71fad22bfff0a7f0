"""For each plugin: the configuration to measure it in, the nodes that it needs, and the pods that use it.

A case changes the cluster of `scenarios.mixed` twice. `equip` makes the nodes and queues that the plugin is about; with
them nothing uses it yet. `use` makes every pod, or every group, use it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import scenarios
from scenarios import Json

Change = Callable[[Json], Iterable[Json]]
"""Turns an object into itself, changed, and objects that come with it."""

TIERS: tuple[tuple[str, Json], ...] = (
    ("priority", {}),
    ("gang", {}),
    ("conformance", {}),
    ("overcommit", {}),
    ("drf", {}),
    ("predicates", {}),
    ("proportion", {}),
    ("nodeorder", {}),
    ("binpack", {}),
)
"""Plugins of the headline configuration, and their arguments."""
PODS_AT_ONCE = 4
CARDS = 8
DRIVER = "gpu.example.com"
AT = "2026-01-01T02:00:00Z"


def same(made: Json) -> Iterator[Json]:
    """No change."""
    yield made


@dataclass(frozen=True)
class Case:
    """One plugin.

    Attributes:
        plugin: its name.
        use: makes every pod use it; None if it has nothing to do until something is evicted, or a server would be
            asked. A plugin that all pods use in any case has `same`.
        arguments: of the plugin.
        without: arguments that switch it off; the plugin is left out if there are none.
        beside: plugins that are there in all cycles, with arguments.
        instead: a plugin that is there in none of the cycles, because only one of both may be.
        about: added to the name in the table.
    """

    plugin: str
    use: Change | None = None
    equip: Change = same
    arguments: Json = field(default_factory=dict)
    without: Json = field(default_factory=dict)
    beside: tuple[tuple[str, Json], ...] = ()
    instead: str = ""
    actions: str = "allocate"
    about: str = ""

    @property
    def name(self) -> str:
        """Name in the table."""
        return f"{self.plugin} ({self.about})" if self.about else self.plugin

    def conf(self, *, on: bool) -> str:
        """The configuration, with or without the plugin. JSON is YAML."""
        others = [(name, given) for name, given in (*TIERS, *self.beside) if name not in (self.plugin, self.instead)]
        if on or self.without:
            others.append((self.plugin, self.arguments if on else self.without))
        second = [{"name": name, "arguments": given} for name, given in others if name not in FIRST]
        first = [{"name": name, "arguments": given} for name, given in others if name in FIRST]
        tiers = [{"plugins": tier} for tier in (first, second) if tier]
        return json.dumps({"actions": self.actions, "tiers": tiers})

    def objects(self, nodes: int, gangs: int, size: int, *, used: bool) -> Iterator[Json]:
        """The cluster, with pods that use the plugin or do not."""
        for made in scenarios.mixed(nodes, gangs, size):
            for equipped in self.equip(made):
                yield from self.use(equipped) if used and self.use is not None else (equipped,)


FIRST = frozenset({"priority", "gang", "conformance", "sla", "pdb", "cdp", "tdm"})
"""Plugins of the first tier."""


# --- parts of changes


def at(kind: str, change: Callable[[Json], list[Json] | None]) -> Change:
    """A change of the objects of one kind; what is returned comes with the object."""

    def changed(made: Json) -> Iterator[Json]:
        more = change(made) if made["kind"] == kind else None
        yield made
        yield from more if isinstance(more, list) else ()

    return changed


def every(*changes: Change) -> Change:
    """Several changes, one after another."""

    def changed(made: Json) -> Iterator[Json]:
        objects = [made]
        for change in changes:
            objects = [out for each in objects for out in change(each)]
        yield from objects

    return changed


def marks(kind: str, **annotations: str) -> Change:
    """Annotations `volcano.sh/NAME`, dashes written as underscores."""
    named = {f"volcano.sh/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return at(kind, lambda made: made["metadata"].setdefault("annotations", {}).update(named))


def offer(**resources: int) -> Callable[[Json], object]:
    """Resources `volcano.sh/NAME` of nodes."""
    named = {f"volcano.sh/{key.replace('_', '-')}": str(count) for key, count in resources.items()}
    return lambda made: [made["status"][part].update(named) for part in ("capacity", "allocatable")]


def ask(made: Json, **resources: Any) -> None:
    """Requests and limits of a pod, beside what it asks for."""
    asked = made["spec"]["containers"][0]["resources"]
    asked["requests"] |= resources
    asked["limits"] = dict(asked["requests"])


def number_of(made: Json) -> int:
    """The number in the name of a node or a group."""
    return int(made["metadata"]["name"].lstrip("ngqi"))


def rank_of(pod: Json) -> int:
    """The number of a pod in its gang."""
    return int(pod["metadata"]["name"].rpartition("-")[2])


# --- changes for single plugins


def card_node(made: Json) -> None:
    """A node with cards that pods share."""
    name = made["metadata"]["name"]
    cards = "".join(f"{name}-{i},10,32768,NVIDIA-A100,true,hami-core:" for i in range(CARDS))
    made["metadata"].setdefault("annotations", {})["volcano.sh/node-vgpu-register"] = cards
    offer(vgpu_number=CARDS * 10, vgpu_memory=CARDS * 32768, vgpu_cores=CARDS * 100)(made)


def card_pod(made: Json) -> None:
    """A pod with a part of a card, of one of four sizes."""
    size = 1 + rank_of(made) % PODS_AT_ONCE
    asked = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(size * 8192)}
    ask(made, **asked, **{"volcano.sh/vgpu-cores": str(size * 25)})


def chip_node(made: Json) -> None:
    """A node with chips that are split as pods come."""
    made["metadata"].setdefault("labels", {})["servertype"] = "Ascend310P-8"
    for part in ("capacity", "allocatable"):
        made["status"][part]["huawei.com/npu-core"] = str(CARDS * 8)


def chip_pod(made: Json) -> None:
    """A pod with one, two, four or all cores of a chip."""
    ask(made, **{"huawei.com/npu-core": str(2 ** (rank_of(made) % 4))})


def topology(made: Json) -> list[Json]:
    """A node's two NUMA nodes with 16 cores each."""
    places = {str(i): {"numa": i // 16, "socket": i // 16, "core": i} for i in range(32)}
    spec = {
        "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "best-effort"},
        "numares": {"cpu": {"allocatable": "0-31", "capacity": 32}},
        "cpuDetail": places,
    }
    name = made["metadata"]["name"]
    kind = {"apiVersion": "nodeinfo.volcano.sh/v1alpha1", "kind": "Numatopology"}
    return [{**kind, "metadata": {"name": name}, "spec": spec}]


def load(made: Json) -> list[Json]:
    """The load of a node: one in ten is hot."""
    number = number_of(made)
    cpu, memory = (31 if number % 10 == 0 else number % 16), 16 + number % 64
    kind = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "timestamp": AT}
    return [{**kind, "metadata": made["metadata"], "usage": {"cpu": str(cpu), "memory": f"{memory}Gi"}}]


def latest(made: Json) -> list[Json]:
    """A namespace, made when the loads were measured: the newest object decides the time of the cycle."""
    if made["metadata"]["name"] != "q0":
        return []
    metadata = {"name": "ns", "creationTimestamp": AT}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}]


def hypernode(made: Json) -> list[Json]:
    """A switch for twenty nodes, with every twentieth node."""
    number = number_of(made)
    if number % 20:
        return []
    names = [f"n{i:05d}" for i in range(number, number + 20)]
    members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]
    kind = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode"}
    return [{**kind, "metadata": {"name": f"s{number:05d}"}, "spec": {"tier": 1, "members": members}}]


def slices(made: Json) -> list[Json]:
    """The devices of a node."""
    name = made["metadata"]["name"]
    devices = [{"name": f"d{i}", "attributes": {"model": {"string": "a100"}}} for i in range(CARDS)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    out = [{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}]
    if number_of(made) == 0:
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
        out.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": "gpu"},
                "spec": {"selectors": selectors},
            }
        )
    return out


def claim(made: Json) -> list[Json]:
    """A claim of a pod's own, for one device."""
    name = made["metadata"]["name"]
    made["metadata"]["uid"] = f"uid-of-{name}"
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-of-{name}", "controller": True}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "ownerReferences": [owner]}
    spec = {"devices": {"requests": [request]}}
    return [{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}]


def role(made: Json) -> None:
    """One pod in ten is a parameter server, the others are workers."""
    made["metadata"]["annotations"]["volcano.sh/task-spec"] = "ps" if rank_of(made) % 10 == 0 else "worker"


def waits(made: Json) -> None:
    """A group that is not admitted yet, and says what it needs."""
    made["status"]["phase"] = "Pending"
    made["spec"]["minResources"] = {"cpu": str(3 * made["spec"]["minMember"]), "pods": str(made["spec"]["minMember"])}


def quota(made: Json) -> list[Json]:
    """A quota of the namespace, once."""
    if made["metadata"]["name"] != "q0":
        return []
    hard = {"pods": "1000000", "cpu": "1000000"}
    metadata = {"name": "all", "namespace": "ns"}
    return [{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}]


def budget(made: Json) -> list[Json]:
    """A budget for a group's pods."""
    name = made["metadata"]["name"]
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    return [{**kind, "metadata": {"name": name, "namespace": "ns"}, "spec": spec}]


def labelled(kind: str, **labels: str) -> Change:
    """Labels `volcano.sh/NAME`, dashes written as underscores."""
    named = {f"volcano.sh/{key.replace('_', '-')}": text for key, text in labels.items()}
    return at(kind, lambda made: made["metadata"].setdefault("labels", {}).update(named))


def accelerated(made: Json) -> None:
    """A node with whole cards."""
    for part in ("capacity", "allocatable"):
        made["status"][part]["nvidia.com/gpu"] = str(CARDS)
    made["metadata"]["labels"] |= {
        "nvidia.com/gpu.product": "NVIDIA-A100",
        "nvidia.com/gpu.count": str(CARDS),
        "nvidia.com/gpu.memory": "81920",
    }


def whole_card(made: Json) -> None:
    """A pod that asks for a card of a model."""
    ask(made, **{"nvidia.com/gpu": "1"})
    made["metadata"]["annotations"]["volcano.sh/card.name"] = "NVIDIA-A100"


def prioritised(made: Json) -> None:
    """One of ten priorities."""
    made["spec"]["priority"] = rank_of(made) % 10


def selective(made: Json) -> None:
    """A pod for half of the zones that tolerates a taint."""
    zones = [f"z{i}" for i in range(rank_of(made) % 2, scenarios.ZONES, 2)]
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": zones}]}]
    wish = {"nodeSelectorTerms": terms}
    made["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wish}}
    made["spec"]["tolerations"] = [{"key": "batch", "operator": "Exists"}]


def affine(made: Json) -> None:
    """A queue with its group of nodes."""
    number = number_of(made)
    groups = {"requiredDuringSchedulingIgnoredDuringExecution": [f"g{number}", f"g{(number + 1) % 4}"]}
    made["spec"]["affinity"] = {"nodeGroupAffinity": groups}


def grouped(made: Json) -> None:
    """A node in one of four groups."""
    made["metadata"]["labels"]["volcano.sh/nodegroup-name"] = f"g{number_of(made) % 4}"


def limited(made: Json) -> None:
    """A queue with a limit in each group of nodes."""
    limits = {f"g{i}": {"cpu": "100000"} for i in range(4)}
    made["metadata"].setdefault("annotations", {})["volcano.sh/nodegroup-resource-limits"] = json.dumps(limits)


def entitled(made: Json) -> None:
    """A queue with a guarantee, a deserved amount and a capability."""
    made["spec"] |= {
        "deserved": {"cpu": "8000"},
        "capability": {"cpu": "16000"},
        "guarantee": {"resource": {"cpu": 10}},
    }


def with_cards(made: Json) -> None:
    """A queue with a quota of cards."""
    made["spec"]["capability"] = {"cpu": "100000", "memory": "1000Ti"}
    quotas = {"volcano.sh/card.quota": json.dumps({"NVIDIA-A100": 100_000})}
    made["metadata"].setdefault("annotations", {}).update(quotas)


def close_together(made: Json) -> None:
    """A gang under one switch."""
    made["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}


VGPU: tuple[str, Json] = ("deviceshare", {"deviceshare.VGPUEnable": True})
LOADS = every(at("Node", load), at("Queue", latest))
UTILISATION = {"thresholds": {"cpu": 20, "memory": 30}, "targetThresholds": {"cpu": 50, "memory": 80}}
RESCHEDULING = {"strategies": [{"name": "lowNodeUtilization", "params": UTILISATION}]}
FIT = {
    "resources": {"nvidia.com/gpu": {"type": "MostAllocated", "weight": 2}},
    "sra": {"enable": True, "resources": "nvidia.com/gpu", "weight": 10},
    "proportional": {"enable": True, "resources": "nvidia.com/gpu"},
}
ADMITTED = "enqueue, allocate"

CASES = (
    Case("priority", at("Pod", prioritised)),
    Case("gang", same),
    Case("conformance"),
    Case("overcommit", same, at("PodGroup", waits), actions=ADMITTED),
    Case("drf", same),
    Case("predicates", at("Pod", selective), about="node affinity"),
    Case(
        "predicates",
        at("Pod", claim),
        at("Node", slices),
        without={"predicate.DynamicResourceAllocationEnable": False},
        about="resource claims",
    ),
    Case("proportion", same),
    Case("nodeorder", same),
    Case("binpack", same),
    Case("capacity", at("Queue", entitled), instead="proportion"),
    Case(
        "capacity-card",
        at("Pod", whole_card),
        every(at("Node", accelerated), at("Queue", with_cards)),
        instead="proportion",
    ),
    Case(
        "network-topology-aware",
        at("PodGroup", close_together),
        at("Node", hypernode),
        arguments={"hypernode.binpack.normal-pod.enable": False},
        about="gangs",
    ),
    Case("network-topology-aware", same, at("Node", hypernode), about="ordinary pods"),
    Case("sla", marks("PodGroup", sla_waiting_time="1h")),
    Case("pdb", at("PodGroup", budget)),
    Case("resourcequota", at("Queue", quota), at("PodGroup", waits), actions=ADMITTED),
    Case("cdp", labelled("Pod", cooldown_time="600s")),
    Case(
        "tdm",
        every(marks("Pod", preemptable="true"), labelled("Node", revocable_zone="night")),
        arguments={"tdm.revocable-zone.night": "00:00-23:59"},
    ),
    Case("nodegroup", every(at("Queue", affine), at("Node", grouped)), arguments={"strict": False}),
    Case(
        "nodegroup",
        every(at("Queue", affine), at("Queue", limited), at("Node", grouped)),
        arguments={"strict": False},
        about="limits",
    ),
    Case("resource-strategy-fit", same, about="defaults"),
    Case(
        "resource-strategy-fit",
        every(at("Node", accelerated), at("Pod", whole_card)),
        arguments=FIT,
        about="cards",
    ),
    Case(
        "task-topology",
        every(marks("PodGroup", task_topology_affinity="ps,worker"), at("Pod", role)),
        about="affinity",
    ),
    Case(
        "task-topology",
        every(marks("PodGroup", task_topology_anti_affinity="ps,worker;worker"), at("Pod", role)),
        about="anti-affinity",
    ),
    Case(
        "extender",
        arguments={
            "extender.urlPrefix": "http://localhost:1",
            "extender.predicateVerb": "predicate",
            "extender.prioritizeVerb": "prioritize",
            "extender.allocateFuncVerb": "allocate",
            "extender.managedResources": ["example.com/licence"],
        },
    ),
    Case("deviceshare", at("Pod", card_pod), at("Node", card_node), arguments=VGPU[1]),
    Case(
        "deviceshare",
        at("Pod", card_pod),
        at("Node", card_node),
        arguments={**VGPU[1], "deviceshare.SchedulePolicy": "binpack", "deviceshare.ScheduleWeight": 10},
        about="binpack",
    ),
    Case(
        "deviceshare",
        at("Pod", chip_pod),
        at("Node", chip_node),
        arguments={"deviceshare.AscendMindClusterVNPUEnable": True},
        about="split chips",
    ),
    Case("fragmentation", at("Pod", card_pod), at("Node", card_node), beside=(VGPU,), about="parts of cards"),
    Case(
        "fragmentation",
        same,
        every(at("Pod", card_pod), at("Node", card_node)),
        beside=(VGPU,),
        about="parts of cards that deviceshare gives out in any case",
    ),
    Case("fragmentation", at("Pod", whole_card), at("Node", accelerated), about="whole cards"),
    Case("usage", LOADS),
    Case("rescheduling", LOADS, arguments=RESCHEDULING, actions="allocate, shuffle"),
    Case(
        "numa-aware",
        every(at("Pod", ask), marks("Pod", numa_topology_policy="best-effort")),
        at("Node", topology),
    ),
)
