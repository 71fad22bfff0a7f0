"""Our scheduler beside Kubernetes' own at the real API server: mixed load, and groups of Kubernetes for both.

    python tests/kubernetes/beside.py       # what `make test-kubernetes` runs

Four nodes of four cpus. kube-scheduler places pods of `default-scheduler`, ours those of `volcano`; both place gangs of
PodGroups of scheduling.k8s.io. Urgent pods of ours, whose room only pods of the other scheduler hold, evict none of
them. Each event about a placed pod must come from its own scheduler, and no node may ever hold more than it has. The
exit code is 1 if something is not as it must be.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from live_cluster import Broken, Cluster, goes, tell, until
from real_server import Server, kube_scheduler

NODES, CORES = 4, 4
OURS, THEIRS = "volcano", "default-scheduler"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups"


def pod(name: str, scheduler: str, cores: int, group: str = "", priority: str = "low") -> dict[str, Any]:
    """A pod that runs until it is deleted."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cores)}}}
    spec: dict[str, Any] = {"schedulerName": scheduler, "priorityClassName": priority, "containers": [container]}
    spec |= {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    label = name.rpartition("-")[0]
    return {"metadata": {"name": name, "labels": {"group": label, "scheduler": scheduler}}, "spec": spec}


class Beside:
    """The story, and what it checks."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def wave(self, name: str, scheduler: str, count: int, cores: int, minimum: int = 0, priority: str = "low") -> None:
        """Pods of one scheduler; with a minimum they are a gang."""
        groups = GROUPS.format(self._cluster.namespace)
        if minimum:
            policy = {"gang": {"minCount": minimum}}
            self._cluster.send("POST", groups, {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}})
        for number in range(count):
            body = pod(f"{name}-{number}", scheduler, cores, name if minimum else "", priority)
            self._cluster.send("POST", f"/api/v1/namespaces/{self._cluster.namespace}/pods", body)

    def runs(self, name: str, count: int) -> None:
        """Wait until a wave runs."""
        until(f"{count} pods of {name} to run", lambda: len(self._cluster.running(name)) == count)

    def state(self, name: str) -> tuple[str, str]:
        """Status and reason of the condition of a group; empty without one."""
        group = self._cluster.send("GET", f"{GROUPS.format(self._cluster.namespace)}/{name}")
        found = [each for each in group["status"].get("conditions") or () if each["type"] == "PodGroupScheduled"]
        return (found[0]["status"], found[0]["reason"]) if found else ("", "")

    def has_state(self, name: str, status: str, reason: str) -> None:
        """Wait for the condition of a group."""
        until(f"{name} to be {reason}", lambda: self.state(name) == (status, reason))

    def refused(self, name: str) -> bool:
        """True if all pods of a wave say that they cannot be placed."""
        said = [(each["status"].get("conditions") or [{}])[0].get("status") for each in self._cluster.pods(name)]
        return bool(said) and set(said) == {"False"}

    def play(self) -> str:
        """Load both schedulers; returns what was seen.

        Raises:
            Broken: something is not as it must be.
        """
        version = self._cluster.version()
        self.wave("web", THEIRS, 6, 1)
        self.runs("web", 6)
        self.wave("train", OURS, 4, 2, minimum=4)
        self.runs("train", 4)
        self.has_state("train", "True", "Scheduled")
        self.wave("theirs", THEIRS, 2, 1, minimum=2)
        self.runs("theirs", 2)
        self.has_state("theirs", "True", "Scheduled")
        self.wave("urgent", OURS, 4, 4, minimum=4, priority="high")
        until("the urgent pods to be refused", lambda: self.refused("urgent"))
        self.has_state("urgent", "False", "Unschedulable")
        time.sleep(3)
        self.nothing_went(version)
        for name in ("web", "theirs", "train"):
            self.delete(name)
        self.runs("urgent", 4)
        self.has_state("urgent", "True", "Scheduled")
        self.own_schedulers()
        states = self.no_node_was_overcommitted(version)
        return f"no pod of the other evicted, no node overcommitted in {states} states of pods"

    def delete(self, name: str) -> None:
        """Delete the pods of a wave."""
        for each in self._cluster.pods(name):
            path = f"/api/v1/namespaces/{self._cluster.namespace}/pods/{each['metadata']['name']}"
            self._cluster.send("DELETE", path)

    def nothing_went(self, version: str) -> None:
        """No pod was told to go since a version."""
        gone = {each["metadata"]["name"] for each in self._cluster.history(version) if goes(each)}
        if gone:
            raise Broken(f"no pod had to go, and these went: {sorted(gone)}")

    def own_schedulers(self) -> None:
        """Each pod was placed by its own scheduler, as the events say."""
        events = self._cluster.send("GET", f"/api/v1/namespaces/{self._cluster.namespace}/events")["items"]
        for each in events:
            about, by = (
                each["involvedObject"],
                each.get("reportingComponent") or each.get("source", {}).get("component"),
            )
            if each["reason"] == "Scheduled" and about["kind"] == "Pod":
                own = THEIRS if about["name"].startswith(("web", "theirs")) else OURS
                if by != own:
                    raise Broken(f"{about['name']} is a pod of {own}, and was placed by {by}")

    def no_node_was_overcommitted(self, version: str) -> int:
        """At no time did the pods of a node ask for more than it has; returns the number of states looked at."""
        placed: dict[str, tuple[str, int]] = {}
        history = self._cluster.history(version)
        for each in history:
            name, node = each["metadata"]["name"], each["spec"].get("nodeName", "")
            if goes(each):
                placed.pop(name, None)
            elif node:
                placed[name] = (node, int(each["spec"]["containers"][0]["resources"]["requests"]["cpu"]))
                held = _held(placed.values(), node)
                if held > CORES:
                    raise Broken(f"{node} has {CORES} cpus, and {held} were given away: {placed}")
        return len(history)


def _held(placed: Iterable[tuple[str, int]], node: str) -> int:
    return sum(cores for where, cores in placed if where == node)


def story(cluster: Cluster, server: Server, ends: ExitStack) -> str:
    """Both schedulers at work."""
    ends.enter_context(kube_scheduler(server))
    cluster.prepare()
    cluster.run("controllers", "--leader-elect=false")
    cluster.run("nodes", "--count", str(NODES), "--node-cpu", str(CORES))
    cluster.untaint(NODES)
    conf = ("--scheduler-conf", str(cluster.conf))
    cluster.run("scheduler", "--leader-elect=false", "--enable-metrics=false", *conf)
    return Beside(cluster).play()


if __name__ == "__main__":
    sys.exit(tell("beside kube-scheduler", story))
