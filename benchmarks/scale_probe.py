"""One scheduler process with a cluster of pods that run: what a list costs, and its cycles, printed as JSON.

    python benchmarks/scale_probe.py NODES PODS MORE [SHARDS] [--stored]

Objects come as pages of lists, as from an API server, and go through the client and the live scheduler's feed into the
state. With SHARDS, the scheduler works on that part of the nodes. Times are CPU time, without that of making the pages.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import resource
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import scenarios

from kilauea.client.rest import Client
from kilauea.client.transport import Answer
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.cycle import cycle
from kilauea.engine.model.shards import HARD, NONE, Sharding
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.runtime.inputs.conf_file import read_conf
from kilauea.runtime.inputs.reading import reduced
from kilauea.runtime.inputs.resources import RESOURCES
from kilauea.runtime.scheduler.assumed import Assumed
from kilauea.runtime.scheduler.feed import Feed
from kilauea.runtime.tasks import collect_seldom

GANG = 10
NOW = 1_767_229_200_000_000
CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
LOST = ("not-ready", "unreachable")
FIELDS = ("conditions", "containerStatuses", "hostIP", "phase", "podIP", "podIPs", "startTime", "lastProbe")
"""Some of the fields that components manage."""
CHANGES = 50
"""Pods that change between two cycles: half of them end, half are new."""
TURNS = 20
"""Cycles with changes before them."""

encode = msgspec.json.Encoder().encode


class Pages:
    """A transport that answers lists with pages of objects, which are made when they are asked for.

    Attributes:
        spent: CPU time of making them.
        sizes: bytes of all objects, by kind.
        counts: their number.
    """

    def __init__(self, objects: Mapping[str, Iterator[scenarios.Json]]) -> None:
        self._objects = objects
        self.spent = 0.0
        self.sizes = dict.fromkeys(objects, 0)
        self.counts = dict.fromkeys(objects, 0)

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The next page of a kind."""
        started = time.process_time()
        parts = urlsplit(target)
        kind = next(each for each in self._objects if RESOURCES[each].plural == parts.path.rpartition("/")[2])
        limit = int(parse_qs(parts.query)["limit"][0])
        items = [encode(obj) for obj in itertools.islice(self._objects[kind], limit)]
        self.sizes[kind] += sum(map(len, items))
        self.counts[kind] += len(items)
        more = b"more" if len(items) == limit else b""
        text = b'{"metadata":{"resourceVersion":"1","continue":"%b"},"items":[%b]}' % (more, b",".join(items))
        self.spent += time.process_time() - started
        return Answer(200, {}, text)

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Nothing is watched."""
        yield b""

    async def close(self) -> None:
        """Nothing is open."""


def of_kind(kind: str, nodes: int, pods: int, *, stored: bool) -> Iterator[scenarios.Json]:
    """The objects of a kind."""
    found = (obj for obj in scenarios.running(nodes, pods, GANG) if obj["kind"] == kind)
    return (as_stored(number, obj) for number, obj in enumerate(found)) if stored and kind == "Pod" else found


def as_stored(number: int, pod: scenarios.Json) -> scenarios.Json:
    """A running pod with what the components of a cluster add to it: some 4 kB, of which scheduling reads a quarter."""
    uid, time_ = f"{number:08d}-0000-4000-8000-000000000000", "2026-01-01T00:00:00Z"
    name = pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": uid, "controller": True}
    fields: dict[str, dict[str, object]] = {
        f"f:{field}{part}": {".": {}, "f:name": {}} for field in FIELDS for part in ("", "Time", "Message")
    }
    managed = [
        {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time_, "fieldsV1": {"f:status": fields}}
        for manager in ("controllers", "kubelet")
    ]
    marks = {"volcano.sh/job-name": name, "volcano.sh/task-index": f"{number % GANG}", "volcano.sh/task-spec": "work"}
    metadata = {"uid": uid, "resourceVersion": f"{number + 1000}", "ownerReferences": [owner], "managedFields": managed}
    pod["metadata"] |= metadata | {"labels": marks, "annotations": pod["metadata"]["annotations"] | marks}
    token = f"kube-api-access-{number:05x}"
    lost = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"} for key in LOST]
    pod["spec"] |= {"volumes": [{"name": token, "projected": {"sources": [{"downwardAPI": {}}]}}], "tolerations": lost}
    conditions = [{"type": each, "status": "True", "lastTransitionTime": time_} for each in CONDITIONS]
    image = [{"name": "main", "imageID": f"work@sha256:{uid * 2}", "containerID": f"containerd://{uid * 2}"}]
    pod["status"] |= {"conditions": conditions, "startTime": time_, "containerStatuses": image}
    return pod


def shard(nodes: int, shards: int) -> scenarios.Json:
    """The NodeShard of the first of so many schedulers."""
    names = [f"n{number:05d}" for number in range(0, nodes, shards)]
    return {
        "apiVersion": "shard.volcano.sh/v1alpha1",
        "kind": "NodeShard",
        "metadata": {"name": "volcano"},
        "spec": {"nodesDesired": names},
        "status": {"nodesInUse": names},
    }


def waiting(first: int, pods: int) -> Iterator[scenarios.Json]:
    """Gangs that wait, each pod with one of six sizes."""
    for number in range(first, first + pods // GANG):
        name = f"more{number:06d}"
        yield scenarios.group(name, number, f"q{number % 4}", GANG)
        for k in range(GANG):
            yield scenarios.pod(f"{name}-{k}", name, scenarios.CPUS[(number + k) % len(scenarios.CPUS)])


def resident() -> int:
    """Resident memory in bytes."""
    pages = Path("/proc/self/statm")
    if not pages.exists():
        return peak()
    return int(pages.read_text().split()[1]) * resource.getpagesize()


def peak() -> int:
    """Peak resident memory in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Probe:
    """A feed, and cycles over its state."""

    def __init__(self, nodes: int, pods: int, shards: int, stored: bool, conf: SchedulerConf) -> None:
        self.conf = conf
        sharding = Sharding(HARD if shards else NONE)
        self.feed = Feed(ClusterState(sharding=sharding), Assumed())
        kinds = ("Node", "PodGroup", "Queue", "Pod")
        objects = {kind: of_kind(kind, nodes, pods, stored=stored) for kind in kinds}
        if shards:
            objects["NodeShard"] = iter([shard(nodes, shards)])
        pages = Pages(objects)
        started = time.process_time()
        asyncio.run(self.read(Client(pages), sorted(objects)))
        self.load = time.process_time() - started - pages.spent
        self.size = pages.sizes["Pod"] / pages.counts["Pod"]
        """Mean size of a pod in the list."""
        collect_seldom()

    async def read(self, client: Client, kinds: Iterable[str]) -> None:
        """List all kinds."""
        for kind in kinds:
            found = await client.list(RESOURCES[kind], reduce=reduced if kind == "Pod" else None)
            self.feed.relisted(kind, found.items)

    def run(self) -> tuple[float, Plan]:
        """Run a cycle; return its seconds and its plan."""
        started = time.process_time()
        plan = cycle(self.feed.state, self.conf, NOW)
        return time.process_time() - started, plan

    def put(self, objects: Iterable[scenarios.Json]) -> None:
        """Pass objects to the feed, as from watches."""
        for obj in objects:
            self.feed.put(obj["kind"], encode(obj))

    def churn(self) -> list[float]:
        """Seconds from some changes to the plan: half of the changed pods have ended, the others are new and wait."""
        running = iter(list(self.feed.pods))
        seconds = []
        for turn in range(TURNS):
            gone = [key for key, _ in zip(running, range(CHANGES // 2), strict=False)]
            started = time.process_time()
            for key in gone:
                self.feed.gone("Pod", key)
            self.put(waiting(100_000 + turn * CHANGES, CHANGES // 2))
            _, plan = self.run()
            seconds.append(time.process_time() - started)
            for pod in {bind.pod for bind in plan.binds}:
                self.feed.gone("Pod", pod)
        return seconds


def main() -> None:
    """Print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("nodes", "pods", "more"):
        parser.add_argument(name, type=int)
    parser.add_argument("shards", type=int, nargs="?", default=0)
    parser.add_argument("--stored", action="store_true", help="pods with all that a cluster adds to them")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.conf"
        file.write_text(scenarios.FULL_CONF)
        probe = Probe(given.nodes, given.pods, given.shards, given.stored, read_conf(str(file)))
    first, _ = probe.run()
    held = resident()
    idle = min(probe.run()[0] for _ in range(3))
    churn = probe.churn()
    probe.put(waiting(0, given.more))
    placed = [probe.run() for _ in range(2)]
    found = {
        "load": probe.load,
        "first": first,
        "idle": idle,
        "churn": max(churn),
        "place": min(seconds for seconds, _ in placed),
        "bound": len(placed[0][1].binds),
        "size": probe.size,
        "kept": sum(len(pod) for pod in probe.feed.pods.values() if isinstance(pod, bytes)) / len(probe.feed.pods),
        "resident": held,
        "peak": peak(),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
