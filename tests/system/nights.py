"""The story of `examples/inference-and-training` under virtual time: its manifests, its nights, and what must hold.

    with nights("scheduler.conf") as story:
        story.apply(*SERVICES, *GANGS)
        story.scale("chat", 1)

Controllers, scheduler and nodes are those of the product. Seven minutes of the cluster pass at each step, so
that whatever waits, backs off or tries again has its time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from kilauea.api.kinds import (
    COMMANDS,
    DEPLOYMENTS,
    EVENTS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    VC_JOBS,
)
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from system.cluster import System, cluster
from system.laws import ENDED, Laws
from system.policies import Policy

Obj = dict[str, Any]
Change = Callable[[Obj], None]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "inference-and-training"
KINDS = {each.kind: each for each in (DEPLOYMENTS, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, VC_JOBS)}
SERVICES, GANGS = ("search", "chat"), ("language", "vision")
SERVICE_TYPE = "volcano.sh/service.type"
TYPES = {"Deployment": "inference", "Job": "training"}
STEP = 420.0
"""Seconds of the cluster in which it comes to rest after a change: admissions are given back within 360."""


def card_count(pod: Obj) -> int:
    """The cards that a pod asks for: whole ones or slices."""
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    return sum(int(amount) for name, amount in limits.items() if name.startswith("nvidia.com/"))


class CardLaws(Laws):
    """What must hold on nodes with eight cards, whose queues have quotas and lend no shares."""

    room, unit = 8, "cards"

    def size(self, pod: Obj) -> int:
        """The cards of a pod."""
        return card_count(pod)

    def floor(self, state: ClusterState, plan: Plan) -> None:
        """Under capacity-card the types of work decide, not the shares."""


def unchanged(obj: Obj) -> None:
    """The manifests as they are."""


class Nights:
    """The cluster of the story, and what its users do and see."""

    def __init__(self, system: System) -> None:
        self.system = system
        self._uids = 0

    # --- what users do

    def apply(self, *names: str, change: Change = unchanged) -> None:
        """Create the objects of files of the example, each changed before."""
        for name in names:
            for obj in yaml.safe_load_all((EXAMPLE / f"{name}.yaml").read_text()):
                change(obj)
                self.create(obj)

    def create(self, obj: Obj) -> None:
        """Create an object."""
        fields = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
        refused = self.system.users.create(KINDS[obj["kind"]], obj["metadata"]["name"], **fields)
        assert not refused, refused

    def scale(self, name: str, replicas: int) -> None:
        """Scale a service."""
        self.system.users.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}})

    def resume(self, name: str) -> None:
        """Resume a job that is aborted, as `vcctl job resume` does."""
        (job,) = [each for each in self.system.users.all(VC_JOBS) if each["metadata"]["name"] == name]
        target = {"apiVersion": VC_JOBS.api_version, "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
        self._uids += 1
        self.system.users.create(COMMANDS, f"resume-{self._uids}", target=target, action="ResumeJob")

    def rest(self) -> None:
        """Let time pass."""
        self.system.wait(STEP)

    # --- what they see

    def cards(self) -> dict[str, int]:
        """The cards that run, by workload."""
        held: Counter[str] = Counter()
        for pod in self.system.users.all(PODS):
            if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp"):
                held[workload(pod)] += card_count(pod)
        return dict(held)

    def waiting(self) -> Counter[str]:
        """Pods without a node, by workload."""
        pods = self.system.users.all(PODS)
        return Counter(
            workload(pod) for pod in pods if not pod["spec"].get("nodeName") and pod["status"]["phase"] not in ENDED
        )

    def job(self, name: str) -> tuple[str, int]:
        """Phase and restarts of a job."""
        status = self.state(name)
        return str(status["state"]["phase"]), int(status.get("retryCount", 0))

    def state(self, name: str) -> Obj:
        """The status of a job."""
        (job,) = [each for each in self.system.users.all(VC_JOBS) if each["metadata"]["name"] == name]
        status: Obj = job["status"]
        return status

    def why(self, name: str) -> str:
        """The reason why the pods of a workload wait, as its pod group says it; empty if it does not."""
        for group in self.system.users.all(POD_GROUPS):
            if name in group["metadata"]["ownerReferences"][0]["name"]:
                for each in group.get("status", {}).get("conditions", ()):
                    if (each["type"], each["status"]) == ("Unschedulable", "True"):
                        return str(each["message"])
        return ""

    def said(self, reason: str, name: str = "") -> list[str]:
        """Messages of the events with a reason, about objects whose name begins so."""
        events = [each for each in self.system.users.all(EVENTS) if each["reason"] == reason]
        return [each["message"] for each in events if each["involvedObject"]["name"].startswith(name)]

    def evictions(self) -> list[str]:
        """The pods that were evicted since this was asked, in order."""
        decided, self.system.laws.decisions = self.system.laws.decisions, []
        return [text.split()[1].partition("/")[2] for _, text in decided if not text.startswith("bind ")]


def workload(pod: Obj) -> str:
    """The Deployment or the job that a pod is of."""
    labels = pod["metadata"].get("labels", {})
    return str(labels.get("app") or labels.get("volcano.sh/job-name"))


def annotated(obj: Obj) -> None:
    """Let a workload say whether it serves or trains."""
    obj["metadata"].setdefault("annotations", {})[SERVICE_TYPE] = TYPES[obj["kind"]]


@contextmanager
def nights(conf: str = "scheduler.conf", change: Change = unchanged) -> Iterator[Nights]:
    """The cluster of the story for the length of a block, at the end of which no law may be broken.

    Args:
        conf: configuration of the example.
        change: is done to the nodes, queues and classes before they are created.
    """
    policy = Policy(
        queues="cards",
        evictions="reclaim",
        budgets=False,
        shares=False,
        jobs=True,
        admission=True,
        standby=False,
        text=(EXAMPLE / conf).read_text(),
    )
    with cluster(1, policy, CardLaws(policy), nodes=0) as system:
        story = Nights(system)
        story.apply("cluster", change=change)
        system.start()
        yield story
        assert not system.laws.broken, "\n".join(system.laws.broken)
        assert not system.log_errors.texts, "\n".join(system.log_errors.texts)
        assert not system.ended()
