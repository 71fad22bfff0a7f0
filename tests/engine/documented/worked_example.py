"""The worked example of the text on capacity: seven queues on 100 cores and 400Gi, and jobs in them.

4Gi of memory go with each core, as in the example, and the cluster is one node, so that only queues decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kilauea.api.decode import decode
from kilauea.api.meta import Object
from support.builders import GI, Data, conf, group, node, plugin, pod, queue


class Row(NamedTuple):
    """A queue of the example: each amount is of cores, with 4Gi of memory to each."""

    parent: str
    deserved: int
    capability: int | tuple[int, int]
    guarantee: int


EXAMPLE = {
    "team-a": Row("root", 60, (70, 300), 20),
    "team-b": Row("root", 40, 50, 20),
    "training": Row("team-a", 40, 50, 10),
    "inference": Row("team-a", 20, 30, 10),
    "batch": Row("team-b", 30, 40, 15),
    "interactive": Row("team-b", 10, 20, 5),
}
"""Section 7.1; the capability of `team-a` is 70 cores and 300Gi. The root has the cluster's 100 and 400Gi."""

CLUSTER = node("n", 100, "400Gi", 1000)


def tree_conf(actions: str, **arguments: Any) -> Data:
    """A configuration with the tree; gang does not vote on reclaim, so that the queues decide."""
    tree = plugin("capacity", arguments, enableHierarchy=True)
    return conf(actions, [plugin("gang", enableReclaimable=False), tree, "predicates"])


def flat_conf(actions: str) -> Data:
    """The same with queues side by side."""
    return conf(actions, [plugin("gang", enableReclaimable=False), "capacity", "predicates"])


def amounts(cores: int | tuple[int, int]) -> dict[str, str]:
    """So many cores with 4Gi each; or cores, and memory in Gi."""
    cpu, memory = cores if isinstance(cores, tuple) else (cores, 4 * cores)
    return {"cpu": str(cpu), "memory": f"{memory}Gi"}


def seven_queues(rows: Mapping[str, Row] = EXAMPLE) -> list[Object]:
    """The root, and the queues of the example in the order in which the text has them."""
    made = [queue("root", deserved=amounts(100), created=0)]
    for age, (name, row) in enumerate(rows.items(), 1):
        limits: dict[str, Any] = {"capability": amounts(row.capability), "guarantee": amounts(row.guarantee)}
        made.append(queue(name, parent=row.parent, deserved=amounts(row.deserved), created=age, **limits))
    return made


def holds(name: str, of_queue: str, *cores: int, minimum: int = 1, least: int | None = None) -> list[Object]:
    """A job that runs, with a pod for each number of cores; `least` cores are its minResources."""
    resources = None if least is None else amounts(least)
    pods = [_pod(f"{name}-{i}", name, cpu, node="n") for i, cpu in enumerate(cores)]
    return [group(name, of_queue, minimum, "Running", resources=resources), *pods]


def wants(
    name: str, of_queue: str, *cores: int, least: int | None = None, phase: str = "Inqueue", created: int = 9
) -> list[Object]:
    """A gang that waits, with a pod for each number of cores."""
    resources = None if least is None else amounts(least)
    pods = [_pod(f"{name}-{i}", name, cpu) for i, cpu in enumerate(cores)]
    return [group(name, of_queue, len(cores), phase, resources=resources, created=created), *pods]


def _pod(name: str, of_group: str, cores: int, **more: Any) -> Object:
    return pod(name, of_group, requests=amounts(cores), **more)


def before() -> list[Object]:
    """What runs in section 7.2: training 30, team-a 45, root 75 cores; so inference 15 and team-b 30."""
    running = {"training": (10, 10, 10), "inference": (10, 5), "batch": (10, 10), "interactive": (10,)}
    jobs = [holds(f"{name}-job", name, *cores) for name, cores in running.items()]
    return [CLUSTER, *seven_queues(), *(obj for job in jobs for obj in job)]


def cores_of(figure: Mapping[str, float] | None) -> float:
    """Cores among amounts."""
    return (figure or {}).get("cpu", 0) / 1000


def gi_of(figure: Mapping[str, float] | None) -> float:
    """Memory among amounts, in Gi."""
    return (figure or {}).get("memory", 0) / GI


def manifests(text: str) -> list[Object]:
    """Objects from YAML as a user writes it; all of it has to be understood."""
    decoded = decode(text.encode(), "manifests")
    assert (decoded.errors, decoded.skipped) == ([], {})
    return list(decoded.objects)
