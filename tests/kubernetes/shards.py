"""Two of our schedulers share out the nodes of the real API server: shards, a node that changes hands, one that dies.

    python tests/kubernetes/shards.py       # what `make test-kubernetes` runs

Six nodes of four cpus, NodeShards by the sharding controller, schedulers `east` and `west` in mode `hard`, all with the
roles of the chart. The load of each must stay within its shard. `east` is then granted one node more while its pods
wait, which `west` must give up first; at last `west` is killed, and `east` gets the nodes that its NodeShard held.
No node may ever hold more than it has. The exit code is 1 if something is not as it must be.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

from beside import CORES, Beside
from live_cluster import SCHEDULING, Broken, Cluster, tell, until
from real_server import Server

NODES = 6
EAST, WEST = "east", "west"
SHARDS = "/apis/shard.volcano.sh/v1alpha1/nodeshards"
SPACE = "volcano-system"
CONFIG = "volcano-sharding-configmap"


def sharing(**limits: int) -> dict[str, str]:
    """The data of the sharding ConfigMap: schedulers in the order in which they choose, each with so many nodes."""
    lines = [
        f"- {{name: {name}, policies: [{{name: node-limit, arguments: {{maxNodes: {most}}}}}]}}"
        for name, most in limits.items()
    ]
    return {"sharding.yaml": "\n".join(["schedulerConfigs:", *lines, "shardSyncPeriod: 1s", ""])}


class Shards(Beside):
    """The story, and what it checks.

    Args:
        cluster: where it is played.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def share(self, **limits: int) -> None:
        """Write how the nodes are shared out; the ConfigMap may be there already."""
        path = f"/api/v1/namespaces/{SPACE}/configmaps"
        body = {"metadata": {"name": CONFIG}, "data": sharing(**limits)}
        self._cluster.send("POST", path, body)
        self._cluster.send("PATCH", f"{path}/{CONFIG}", {"data": body["data"]}, "application/merge-patch+json")

    def shards(self) -> dict[str, dict[str, Any]]:
        """The NodeShards by name."""
        return {each["metadata"]["name"]: each for each in self._cluster.send("GET", SHARDS)["items"]}

    def in_use(self) -> dict[str, int]:
        """The number of nodes that each scheduler works on."""
        return {name: len(each.get("status", {}).get("nodesInUse") or ()) for name, each in self.shards().items()}

    def nodes_of(self, name: str) -> set[str]:
        """The nodes of the pods of a wave, so far."""
        found = {each["spec"].get("nodeName", "") for each in self._cluster.pods(name)}
        return found - {""}

    def keeps_to_its_shard(self, scheduler: str, *waves: str) -> None:
        """All placed pods of a scheduler are on nodes that it has in use.

        Raises:
            Broken: one is elsewhere.
        """
        own = set(self.shards()[scheduler]["status"]["nodesInUse"])
        for wave in waves:
            if elsewhere := self.nodes_of(wave) - own:
                raise Broken(f"{wave} of {scheduler} has pods on {sorted(elsewhere)}, and its nodes are {sorted(own)}")

    def collect(self, wave: str) -> None:
        """Delete the pod groups of a deleted wave, as the garbage collector does, which does not run here.

        A pod group without pods is admitted, as that of a vcjob is before its pods exist, and would keep its share.
        """
        path = f"/apis/{SCHEDULING}/namespaces/{self._cluster.namespace}/podgroups"
        for each in self._cluster.send("GET", path)["items"]:
            if each["metadata"]["ownerReferences"][0]["name"].startswith(f"{wave}-"):
                self._cluster.send("DELETE", f"{path}/{each['metadata']['name']}")

    def play(self) -> str:
        """Load both schedulers, move a node, and let one die; returns what was seen.

        Raises:
            Broken: something is not as it must be.
        """
        version = self._cluster.version()
        until("NodeShards to be served", lambda: self._cluster.client.send("GET", SHARDS, None, {}).code == 200)
        until("both schedulers to use three nodes", lambda: self.in_use() == {EAST: 3, WEST: 3})
        self.wave("a", EAST, 14, 1)
        self.wave("b", WEST, 6, 1)
        self.runs("a", 12)
        self.runs("b", 6)
        time.sleep(2)
        self.runs("a", 12)
        self.keeps_to_its_shard(EAST, "a")
        self.keeps_to_its_shard(WEST, "b")
        self.share(**{EAST: 4, WEST: 2})
        until("a node to change hands", lambda: self.in_use() == {EAST: 4, WEST: 2})
        self.runs("a", 14)
        self.keeps_to_its_shard(EAST, "a")
        self.wave("c", WEST, 2, 1)
        self.runs("c", 2)
        self.keeps_to_its_shard(WEST, "c")
        self.end(WEST)
        self.wave("d", EAST, 2, 2)
        self.share(**{EAST: NODES})
        until("the nodes of the scheduler that died", lambda: self.in_use() == {EAST: NODES})
        self.delete("b")
        self.collect("b")
        self.runs("d", 2)
        self.keeps_to_its_shard(EAST, "a", "d")
        states = self.no_node_was_overcommitted(version)
        return f"each kept to its shard, a node changed hands, no node overcommitted in {states} states of pods"

    def start(self, name: str) -> None:
        """Start a scheduler of this name."""
        flags = ("--scheduler-name", name, "--leader-elect=false", "--enable-metrics=false")
        sharding = ("--scheduler-sharding-mode=hard", "--scheduler-sharding-name", name)
        self._processes[name] = self._cluster.run(
            "scheduler", *flags, *sharding, "--scheduler-conf", str(self._cluster.conf)
        )

    def end(self, name: str) -> None:
        """Kill a scheduler."""
        self._processes[name].kill()
        self._processes[name].wait()


def story(cluster: Cluster, _: Server, __: ExitStack) -> str:
    """Two schedulers with a shard each, and what becomes of them."""
    shards = Shards(cluster)
    cluster.prepare()
    shards.share(**{EAST: 3, WEST: 3})
    names = ("--scheduler-name", EAST, "--scheduler-name", WEST)
    cluster.run("controllers", "--leader-elect=false", "--controllers=*", *names)
    cluster.run("nodes", "--count", str(NODES), "--node-cpu", str(CORES))
    cluster.untaint(NODES)
    shards.start(EAST)
    shards.start(WEST)
    return shards.play()


if __name__ == "__main__":
    sys.exit(tell("two schedulers with shards", story))
