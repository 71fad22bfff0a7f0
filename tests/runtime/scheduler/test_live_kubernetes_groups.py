"""The live scheduler places pods of Kubernetes' own PodGroups, and writes the condition of these."""

from __future__ import annotations

from typing import Any

from kilauea.api.kinds import KUBERNETES_POD_GROUPS, WORKLOADS
from kilauea.runtime.inputs.resources import PODS, QUEUES
from support.live_world import Live, live_world


def gang(live: Live, name: str, minimum: int, **metadata: Any) -> None:
    policy = {"gang": {"minCount": minimum}}
    live.create(KUBERNETES_POD_GROUPS, name, metadata=metadata, spec={"schedulingPolicy": policy})


def member(live: Live, group: str, number: int, cpu: str = "1", **metadata: Any) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "volcano", "schedulingGroup": {"podGroupName": group}, "containers": [container]}
    live.create(PODS, f"{group}-{number}", metadata=metadata, spec=spec)


def members(live: Live, group: str, count: int, cpu: str = "1", **metadata: Any) -> None:
    for number in range(count):
        member(live, group, number, cpu, **metadata)


def placed(live: Live, group: str, count: int) -> list[bool]:
    return [bool(live.node_of(f"{group}-{number}")) for number in range(count)]


def condition(live: Live, group: str) -> dict[str, Any]:
    return live.condition(KUBERNETES_POD_GROUPS, group, "PodGroupScheduled")


def test_the_condition_of_a_gang_that_started_is_true_and_stays_so_when_a_later_pod_waits() -> None:
    with live_world() as live:
        live.node("n1", cpu="4")
        template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 3}}}
        live.create(WORKLOADS, "train", spec={"podGroupTemplates": [template]})
        gang(live, "train", 3)
        members(live, "train", 3)
        live.start()
        live.wait(5)
        assert placed(live, "train", 3) == [True] * 3
        found = condition(live, "train")
        assert (found["status"], found["reason"], found.get("message")) == ("True", "Scheduled", "")
        member(live, "train", 3, cpu="2")
        live.wait(10)
        assert placed(live, "train", 4) == [True, True, True, False]
        assert condition(live, "train") == found


def test_a_gang_that_does_not_fit_waits_whole_and_says_why_until_it_starts() -> None:
    with live_world() as live:
        live.node("n1", cpu="2")
        gang(live, "train", 3)
        members(live, "train", 2)
        live.start()
        live.wait(10)
        assert condition(live, "train") == {}, "it has too few pods to be tried"
        member(live, "train", 2)
        live.wait(10)
        assert placed(live, "train", 3) == [False] * 3
        found = condition(live, "train")
        assert (found["status"], found["reason"]) == ("False", "Unschedulable")
        assert "queue default would exceed its deserved cpu" in found["message"]
        assert "Unschedulable" in live.reasons("PodGroup", "train")
        live.node("n2", cpu="2")
        live.wait(10)
        assert placed(live, "train", 3) == [True] * 3
        assert condition(live, "train")["status"] == "True"


def test_a_restarted_scheduler_writes_the_condition_that_its_predecessor_did_not() -> None:
    with live_world() as live:
        live.node("n1", cpu="2")
        gang(live, "train", 2)
        members(live, "train", 2)
        live.start()
        live.wait(0.05)
        live.stop()
        live.restart()
        live.start()
        live.wait(5)
        assert placed(live, "train", 2) == [True] * 2
        assert condition(live, "train")["status"] == "True"


def test_the_queue_is_that_of_the_group_or_of_its_pods() -> None:
    with live_world() as live:
        live.node("n1", cpu="8")
        for name in ("small", "tiny"):
            live.queue(name, capability={"cpu": "1"})
        queue = "scheduling.volcano.sh/queue-name"
        gang(live, "named", 2, labels={queue: "small"})
        members(live, "named", 2)
        gang(live, "podded", 2)
        members(live, "podded", 2, annotations={queue: "tiny"})
        gang(live, "free", 2)
        members(live, "free", 2)
        live.start()
        live.wait(10)
        assert placed(live, "named", 2) == [False] * 2
        assert placed(live, "podded", 2) == [False] * 2
        assert placed(live, "free", 2) == [True] * 2
        assert "queue small" in condition(live, "named")["message"]
        assert "queue tiny" in condition(live, "podded")["message"]
        live.delete(QUEUES, "small")
