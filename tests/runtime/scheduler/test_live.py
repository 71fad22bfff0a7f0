"""The live scheduler on a real API server in memory: what it does with pods and says of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilauea.api.ports import ApiError, Key
from kilauea.engine.cycle import cycle, default_conf
from kilauea.engine.explain.formatting import in_words
from kilauea.engine.explain.group import explain
from kilauea.runtime.inputs.resources import GROUPS_OF_PODS, PODS, QUEUES, RESOURCES
from support.live_world import NODES, Live, live_world

CLASSES = RESOURCES["PriorityClass"]
PREEMPTING = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


@pytest.fixture
def live() -> Iterator[Live]:
    """A cluster with one node of four cores."""
    with live_world() as made:
        made.node("n1")
        yield made


@pytest.fixture
def preempting(tmp_path: Path) -> Iterator[Live]:
    """One node, full with a gang that can lose a pod, and a scheduler that preempts."""
    path = tmp_path / "conf.yaml"
    path.write_text(PREEMPTING)
    with live_world(str(path)) as made:
        made.node("n1", cpu="2")
        for name, value in (("low", 1), ("high", 100)):
            made.create(CLASSES, name, value=value)
        made.group("batch", 1, pods=0, priorityClassName="low")
        for number in range(2):
            made.pod(f"batch-{number}", group="batch", priorityClassName="low")
        made.start()
        made.wait(2)
        for number in range(2):
            made.phase(f"batch-{number}", "Running")
        made.wait(2)
        yield made


def test_a_pod_on_a_quiet_cluster_waits_no_second(live: Live) -> None:
    live.start()
    live.wait(5)
    live.pod("web")
    live.wait(0.05)
    assert live.node_of("web") == "n1"


def test_a_pod_of_the_default_scheduler_is_placed_without_a_group_and_in_no_queue(live: Live) -> None:
    live.start()
    live.pod("web")
    live.wait(2)
    assert live.node_of("web") == "n1"
    assert live.world.run(live.calm.list(GROUPS_OF_PODS)).items == []
    assert "cpu" not in live.get(QUEUES, "default").get("status", {}).get("allocated", {})


def test_events_of_a_pod_are_of_the_scheduler_that_it_names(live: Live) -> None:
    live.start()
    names = {"web": "default-scheduler", "large": "default-scheduler", "batch-0": "volcano"}
    live.pod("web")
    live.pod("large", cpu="9")
    live.group("batch", 1)
    live.wait(5)
    assert live.node_of("web") == live.node_of("batch-0") == "n1"
    assert live.reasons("Pod", "large") == ["FailedScheduling"]
    assert {name: live.reporters["Pod", name] for name in names} == {name: {each} for name, each in names.items()}
    assert live.reporters["PodGroup", "batch"] == {"volcano"}


FOREIGN = """
actions: "allocate, backfill, gangreclaim, gangpreempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: capacity
    enableHierarchy: false
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: nodeorder
  - name: network-topology-aware
"""


@pytest.mark.parametrize("names", [("volcano",), ("volcano", "default-scheduler")])
def test_a_pod_that_others_have_put_on_its_node_is_never_evicted(tmp_path: Path, names: tuple[str, ...]) -> None:
    (tmp_path / "gang.conf").write_text(FOREIGN)
    with live_world(str(tmp_path / "gang.conf"), names=names) as live:
        for number in range(4):
            live.node(f"n{number}")
            live.pod(f"placeholder-{number}", cpu="3", nodeName=f"n{number}")
            live.phase(f"placeholder-{number}", "Running")
        live.queue("q1", deserved={"cpu": "2"})
        live.queue("q2", deserved={"cpu": "2"}, reclaimable=False)
        live.start()
        live.group("victim", 2, pods=4, queue="q2")
        live.wait(3)
        for number in range(4):
            live.phase(f"victim-{number}", "Running")
        live.group("rec", 2, queue="q1")
        live.wait(10)
        assert all("deletionTimestamp" not in live.get(PODS, f"placeholder-{n}")["metadata"] for n in range(4))
        assert live.wire.count("DELETE", "") == 0
        assert live.node_of("rec-0") == ""


def test_a_pod_of_another_scheduler_is_left_alone(live: Live) -> None:
    live.start()
    live.pod("other", scheduler="another")
    live.wait(2)
    assert live.node_of("other") == ""


def test_a_gang_runs_whole_and_its_group_says_so(live: Live) -> None:
    live.start()
    live.group("train", 3)
    live.wait(2)
    assert {live.node_of(f"train-{n}") for n in range(3)} == {"n1"}
    for number in range(3):
        live.phase(f"train-{number}", "Running")
    live.wait(2)
    status = live.get(GROUPS_OF_PODS, "train")["status"]
    assert (status["phase"], status["running"]) == ("Running", 3)
    assert live.condition(GROUPS_OF_PODS, "train", "Scheduled")["status"] == "True"
    assert live.reasons("PodGroup", "train") == ["Scheduled"]
    assert live.reasons("Pod", "train-0") == ["Scheduled"]


@pytest.mark.parametrize(("first", "last"), [(0.3, 1.2), (1.2, 2.5)])
def test_a_gang_whose_pods_start_within_seconds_costs_two_writes_of_its_group(
    live: Live, first: float, last: float
) -> None:
    live.start()
    live.wait(3)
    before = live.wire.count("PATCH", "/podgroups/train")
    live.group("train", 4, pods=0)
    live.wait(0.5)
    for number in range(4):
        live.pod(f"train-{number}", group="train")
    live.wait(first)
    live.phase("train-0", "Running")
    live.wait(last - first)
    for number in range(1, 4):
        live.phase(f"train-{number}", "Running")
    live.wait(10)
    assert live.get(GROUPS_OF_PODS, "train")["status"]["running"] == 4
    assert live.wire.count("PATCH", "/podgroups/train") - before == 2  # admitted, and running with all its pods


def test_a_gang_whose_pods_take_long_to_start_says_that_it_is_placed_meanwhile(live: Live) -> None:
    live.start()
    live.group("train", 2)
    live.wait(5)
    status = live.get(GROUPS_OF_PODS, "train")["status"]
    assert (status["phase"], status.get("running", 0)) == ("Running", 0)


def test_statuses_of_groups_are_written_while_the_binds_of_others_never_stop(live: Live) -> None:
    live.node("large", cpu="400")
    names = [f"train-{number:02}" for number in range(16)]
    live.start()
    for name in names:
        live.group(name, 1)
    live.wait(5)

    async def slow(method: str, target: str) -> None:
        await asyncio.sleep(30 if target.endswith("/binding") else 3 if "/podgroups/" in target else 0)

    live.wire.before = slow
    for number in range(70):
        live.pod(f"rush-{number}")
    live.wait(1)
    for name in names:
        live.phase(f"{name}-0", "Running")
    live.wait(15)
    assert [live.get(GROUPS_OF_PODS, name)["status"].get("running") for name in names] == [1] * len(names)
    assert live.wire.count("POST", "/binding") < len(names) + 70  # the rush goes on


def test_a_group_without_pods_is_admitted_at_once_because_its_pods_wait_for_that(live: Live) -> None:
    live.start()
    live.wait(3)
    live.group("job", 2, pods=0, minResources={"cpu": "2"})
    live.wait(0.05)
    assert live.get(GROUPS_OF_PODS, "job")["status"]["phase"] == "Inqueue"


def test_a_gang_that_has_ended_is_completed(live: Live) -> None:
    live.start()
    live.group("train", 2)
    live.wait(2)
    live.phase("train-0", "Succeeded")
    live.phase("train-1", "Failed")
    live.wait(2)
    status = live.get(GROUPS_OF_PODS, "train")["status"]
    assert (status["phase"], status["succeeded"], status["failed"]) == ("Completed", 1, 1)


def test_a_gang_without_room_stays_whole_outside_and_says_what_it_lacks(live: Live) -> None:
    live.start()
    live.group("train", 5)
    live.wait(3)
    assert [live.node_of(f"train-{n}") for n in range(5)] == [""] * 5
    condition = live.condition(GROUPS_OF_PODS, "train", "Unschedulable")
    assert condition["reason"] == "NotEnoughResources"
    assert "1/5 tasks in gang unschedulable: pod group is not ready" in condition["message"]
    assert live.condition(PODS, "train-4", "PodScheduled")["reason"] == "Unschedulable"
    assert "queue default would exceed its deserved cpu" in live.condition(PODS, "train-4", "PodScheduled")["message"]
    assert live.reasons("PodGroup", "train") == ["Unschedulable"]
    assert live.reasons("Pod", "train-4") == ["FailedScheduling"]


def test_a_group_says_what_its_explanation_says(live: Live) -> None:
    """Condition and event of the group have the words and numbers of `kilauea plan --explain`."""
    live.node("n2", metadata={"labels": {"disk": "ssd"}})
    live.start()
    live.group("train", 3, pods=0)
    specs: tuple[dict[str, Any], ...] = ({}, {}, {"nodeSelector": {"disk": "sdd"}})
    for number, more in enumerate(specs):
        live.pod(f"train-{number}", group="train", cpu="2", **more)
    live.group("large", 1, cpu="6")
    live.wait(4)
    feed = live.scheduler.feed
    plan = cycle(feed.state, default_conf(), live.world.clock.now())
    for name, part in (
        ("train", "no node has disk=sdd; did you mean 'ssd'?"),
        ("large", "the largest node has 4 cpu (requested 6, available 4)"),
    ):
        words = in_words(explain(plan, feed.state, f"default/{name}").blockers[0])
        assert part in words
        told = live.condition(GROUPS_OF_PODS, name, "Unschedulable")["message"]
        assert words in told
        assert "tasks in gang unschedulable: pod group is not ready" in told
        assert [m for kind, about, _, m in live.events if (kind, about) == ("PodGroup", name)] == [told]


def test_a_group_without_pods_says_why_it_is_not_admitted_until_it_is(live: Live) -> None:
    live.queue("small", capability={"cpu": "1"})
    live.start()
    live.group("job", 2, pods=0, queue="small", minResources={"cpu": "2"})
    live.wait(4)
    condition = live.condition(GROUPS_OF_PODS, "job", "Unschedulable")
    assert condition["reason"] == "QueueQuotaInsufficient"
    assert condition["message"].endswith("(requested 2, available 1)")
    assert live.reasons("PodGroup", "job") == ["QueueQuotaInsufficient"]
    live.patch(QUEUES, "small", {"spec": {"capability": {"cpu": "2"}}})
    live.wait(4)
    assert live.get(GROUPS_OF_PODS, "job")["status"]["phase"] == "Inqueue"
    assert live.condition(GROUPS_OF_PODS, "job", "Unschedulable")["status"] == "False"


def test_a_gang_that_gets_its_room_is_not_unschedulable_any_more(live: Live) -> None:
    live.start()
    live.group("train", 5)
    live.wait(3)
    live.node("n2")
    live.wait(2)
    assert all(live.node_of(f"train-{n}") for n in range(5))
    assert live.condition(GROUPS_OF_PODS, "train", "Unschedulable")["status"] == "False"
    assert live.condition(GROUPS_OF_PODS, "train", "Scheduled")["status"] == "True"


@pytest.mark.parametrize(
    ("size", "pods", "reason"), [(3, 2, "NotEnoughTasks"), (5, 5, "Unschedulable")], ids=["too few pods", "no room"]
)
def test_only_what_more_nodes_would_mend_is_called_unschedulable(live: Live, size: int, pods: int, reason: str) -> None:
    live.start()
    live.group("train", size, pods=pods)
    live.wait(3)
    assert live.condition(PODS, "train-0", "PodScheduled")["reason"] == reason


def test_a_gang_whose_pods_are_being_made_is_left_in_peace(live: Live) -> None:
    live.start()
    live.group("train", 60, pods=0)
    for number in range(15):
        live.pod(f"train-{number}", "train")
        live.wait(1)
    assert not any(live.reasons("Pod", f"train-{number}") for number in range(15))
    live.wait(3)
    assert live.condition(PODS, "train-0", "PodScheduled")["reason"] == "NotEnoughTasks"


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]},
        {"resourceClaims": [{"name": "card", "resourceClaimName": "missing"}]},
    ],
    ids=["volume claim", "resource claim"],
)
def test_a_pod_whose_claim_is_missing_is_unschedulable_as_kubernetes_has_it(live: Live, spec: dict[str, Any]) -> None:
    live.start()
    live.group("train", 1, pods=0)
    live.pod("train-0", "train", **spec)
    live.wait(3)
    condition = live.condition(PODS, "train-0", "PodScheduled")
    assert (condition["reason"], "missing" in condition["message"]) == ("Unschedulable", True)


def test_a_closed_queue_is_no_reason_to_add_nodes(live: Live) -> None:
    live.queue("shut")
    live.patch(QUEUES, "shut", {"status": {"state": "Closed"}}, "status")
    live.start()
    live.group("late", 1, queue="shut")
    live.wait(3)
    assert live.condition(PODS, "late-0", "PodScheduled")["reason"] == "QueueClosed"


def test_what_a_queue_holds_counts_for_its_parents_too(live: Live) -> None:
    live.queue("lab", parent="root")
    live.queue("team", parent="lab")
    live.start()
    live.group("train", 2, queue="team")
    live.wait(2)
    held = {name: live.get(QUEUES, name)["status"]["allocated"] for name in ("team", "lab", "root")}
    assert {name: (each["cpu"], each["pods"]) for name, each in held.items()} == dict.fromkeys(held, ("2", "2"))
    for number in range(2):
        live.delete(PODS, f"train-{number}")
    live.wait(2)
    assert not live.get(QUEUES, "team")["status"].get("allocated")


def test_nothing_is_decided_before_everything_has_been_read(live: Live) -> None:
    async def no_queues(method: str, target: str) -> None:
        if "/queues" in target and method == "GET":
            raise ApiError(503, "ServiceUnavailable", "not now")

    live.pod("web")
    live.wire.before = no_queues
    live.start()
    live.wait(10)
    assert live.scheduler.not_ready() == "not listed yet: Queue"
    assert live.node_of("web") == ""
    live.wire.before = None
    live.wait(30)
    assert live.scheduler.not_ready() == ""
    assert live.node_of("web") == "n1"


def test_a_quiet_cluster_is_written_to_by_no_one(live: Live) -> None:
    live.start()
    live.group("train", 2)
    live.group("large", 9)
    live.wait(5)
    before = len(live.wire.sent)
    live.wait(20)
    assert [each for each in live.wire.sent[before:] if each[0] != "GET"] == []


def test_a_restart_writes_nothing_that_is_there_already(live: Live) -> None:
    live.start()
    live.group("train", 2)
    live.group("large", 9)
    live.wait(5)
    live.stop()
    live.restart()
    before = len(live.wire.sent)
    live.start()
    live.wait(5)
    assert [each for each in live.wire.sent[before:] if each[0] == "PATCH"] == []


def test_a_victim_is_told_why_and_the_preemptor_is_promised_its_room(preempting: Live) -> None:
    live = preempting
    live.group("urgent", 1, pods=0, priorityClassName="high")
    live.pod("urgent-0", group="urgent", priorityClassName="high")
    live.wait(0.5)
    gone = [n for n in range(2) if not live.is_there(PODS, f"batch-{n}")]
    leaving = [n for n in range(2) if n not in gone and "deletionTimestamp" in live.get(PODS, f"batch-{n}")["metadata"]]
    assert len(gone) + len(leaving) == 1, "one victim is enough"
    victim = (gone + leaving)[0]
    assert live.reasons("Pod", f"batch-{victim}")[-1] == "Evict"
    (taken,) = [each for each in live.events if each[2] == "Preempted"]
    node = live.get(PODS, "urgent-0")["status"].get("nominatedNodeName") or live.node_of("urgent-0")
    assert taken[1::2] == (f"batch-{victim}", f"Preempted by pod group default/urgent of queue default on node {node}")
    assert "Evict" in live.reasons("PodGroup", "batch")
    if leaving:
        assert live.get(PODS, "urgent-0")["status"]["nominatedNodeName"] == "n1"
        assert live.condition(PODS, f"batch-{victim}", "DisruptionTarget")["reason"] == "PreemptionByScheduler"
        live.delete(PODS, f"batch-{victim}")
    live.wait(3)
    assert live.node_of("urgent-0") == "n1"
    assert live.figure("volcano_eviction_transactions_total", action="preempt") == 1


def test_a_configuration_that_cannot_be_used_leaves_the_last_good_one(preempting: Live) -> None:
    live = preempting
    assert live.conf is not None
    Path(live.conf).write_text("actions: enqueue, alocate\n")
    live.wait(2)
    assert live.figure("kilauea_scheduler_configuration_valid") == 0
    refused = [message for _, _, reason, message in live.events if reason == "ConfigurationRefused"]
    assert len(refused) == 1
    assert "alocate" in refused[0]
    live.node("n2")
    live.group("more", 1)
    live.wait(2)
    assert live.node_of("more-0") == "n2", "the last good configuration still places"
    live.wait(3)  # until its group says so
    Path(live.conf).write_text(PREEMPTING + "# changed\n")
    live.wait(2)
    assert live.figure("kilauea_scheduler_configuration_valid") == 1
    assert live.events[-1][2] == "ConfigurationLoaded"


def test_a_configuration_that_does_not_do_what_it_seems_to_do_says_so_in_an_event(preempting: Live) -> None:
    live = preempting
    assert live.conf is not None
    Path(live.conf).write_text(PREEMPTING.replace("proportion}", "capacity}, {name: capacity-card}"))
    live.wait(2)
    (doubts,) = [message for _, _, reason, message in live.events if reason == "ConfigurationWarning"]
    assert "capacity and capacity-card both decide what queues get" in doubts
    assert live.figure("kilauea_scheduler_configuration_valid") == 1


@pytest.mark.parametrize("was_there", [False, True])
def test_an_object_that_cannot_be_used_is_named_and_the_others_go_on(live: Live, was_there: bool) -> None:
    policy = {"name": "p", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Almost"}]}}
    if was_there:
        live.group("odd", 1, subGroupPolicy=[policy])
        live.start()
    else:
        live.start()
        live.group("odd", 1, subGroupPolicy=[policy])
    live.pod("web")
    live.wait(2)
    assert live.node_of("web") == "n1"
    assert live.reasons("PodGroup", "odd") == ["InvalidObject"]


def test_a_heartbeat_of_a_node_is_no_reason_to_decide(live: Live) -> None:
    live.start()
    live.wait(2.5)
    before = live.scheduler.scheduler.cycles
    for _ in range(5):
        live.patch(NODES, "n1", {"status": {"nodeInfo": {"bootID": str(before)}}}, "status")
        live.wait(0.01)
    assert live.scheduler.scheduler.cycles == before


def test_an_admission_that_leads_nowhere_is_given_back_to_those_who_wait_for_it(live: Live) -> None:
    live.start()
    minimum = {"cpu": "3"}
    live.group("lost", 1, pods=0, minResources=minimum)
    live.pod("lost-0", group="lost", cpu="3", nodeSelector={"no": "such"})
    live.wait(2)
    live.group("next", 1, pods=0, minResources=minimum)
    live.pod("next-0", group="next", cpu="3")
    live.wait(40)
    assert live.node_of("next-0") == ""
    assert live.get(GROUPS_OF_PODS, "lost")["status"]["phase"] == "Inqueue"
    live.wait(40)
    assert live.node_of("next-0") == "n1"
    assert live.get(GROUPS_OF_PODS, "lost")["status"]["phase"] == "Pending"
    assert "AdmissionGivenBack" in live.reasons("PodGroup", "lost")


def test_an_admission_that_no_one_waits_for_is_kept(live: Live) -> None:
    live.start()
    live.group("lost", 1, pods=0, minResources={"cpu": "3"})
    live.pod("lost-0", group="lost", cpu="3", nodeSelector={"no": "such"})
    live.wait(200)
    assert live.get(GROUPS_OF_PODS, "lost")["status"]["phase"] == "Inqueue"
    live.node("n2", metadata={"labels": {"no": "such"}})
    live.wait(0.1)
    assert live.node_of("lost-0") == "n2"


def test_while_nothing_waits_and_nothing_changes_nothing_is_decided(live: Live) -> None:
    live.start()
    live.group("train", 2)
    live.wait(5)
    before = live.scheduler.scheduler.cycles
    live.wait(30)
    assert live.scheduler.scheduler.cycles == before
    live.pod("web")
    live.wait(0.05)
    assert live.node_of("web") == "n1"


def test_what_waits_is_decided_about_every_period(live: Live) -> None:
    live.start()
    live.group("large", 9)
    live.wait(5)
    before = live.scheduler.scheduler.cycles
    live.wait(10)
    assert 9 <= live.scheduler.scheduler.cycles - before <= 11


def test_every_part_of_a_cycle_is_measured(preempting: Live) -> None:
    preempting.group("urgent", 1, priorityClassName="high")
    preempting.wait(3)
    for name, labels in (
        ("open_session_duration_milliseconds_count", {}),
        ("action_scheduling_latency_milliseconds_count", {"action": "preempt"}),
        ("plugin_scheduling_latency_milliseconds_count", {"plugin": "gang", "OnSession": "OnSessionOpen"}),
        ("plugin_scheduling_latency_milliseconds_count", {"plugin": "gang", "OnSession": "OnSessionClose"}),
        ("scheduling_stage_duration_milliseconds_count", {"stage": "Predicate"}),
        ("scheduling_stage_duration_milliseconds_count", {"stage": "Scoring"}),
        ("scheduling_stage_duration_milliseconds_count", {"stage": "Bind"}),
        ("task_scheduling_latency_milliseconds_count", {"stage": "PreBound"}),
        ("total_preemption_attempts", {}),
    ):
        assert (preempting.figure(f"volcano_{name}", **labels) or 0) > 0, name


def test_shares_of_jobs_are_those_of_drf_and_go_with_them(live: Live) -> None:
    live.start()
    live.group("half", 2)
    live.wait(2)
    assert live.figure("volcano_job_share", job_ns="default", job_id="half") == 0.5
    for number in range(2):
        live.delete(PODS, f"half-{number}")
    live.delete(GROUPS_OF_PODS, "half")
    live.wait(2)
    assert live.figure("volcano_job_share", job_ns="default", job_id="half") is None


def test_series_do_not_grow_with_jobs_and_queues_that_are_gone(live: Live) -> None:
    """Jobs that ran and jobs that waited in vain, each in a queue of its own: nothing of them remains."""
    live.start()
    sizes = []
    for number in range(4):
        queue, run, vain = f"queue{number}", f"run{number}", f"vain{number}"
        live.queue(queue)
        live.group(run, 1, queue=queue)
        live.group(vain, 1, cpu="64", queue=queue, minResources={"cpu": "1"})
        live.wait(3)
        assert live.figure("volcano_job_retry_counts", job_id=vain)
        for name in (run, vain):
            live.delete(PODS, f"{name}-0")
            live.delete(GROUPS_OF_PODS, name)
        live.delete(QUEUES, queue)
        live.wait(3)
        sizes.append(sum(len(family.samples) for family in live.metrics.registry.collect()))
    assert len(set(sizes)) == 1


@pytest.mark.parametrize("size", [1, 3])
def test_a_group_stays_running_while_a_member_terminates_and_its_replacement_waits(live: Live, size: int) -> None:
    live.start()
    live.group("g", size, cpu="1")
    live.wait(3)
    for number in range(size):
        live.phase(f"g-{number}", "Running")
    live.wait(3)
    assert live.get(GROUPS_OF_PODS, "g")["status"]["phase"] == "Running"
    live.world.run(live.calm.delete(PODS, Key("default", "g-0"), grace=30))
    live.pod("g-late", group="g", cpu="4")
    for _ in range(8):
        live.wait(1)
        assert live.get(GROUPS_OF_PODS, "g")["status"]["phase"] == "Running"
    assert live.node_of("g-late") == ""


def test_a_wish_that_nothing_serves_is_a_condition_of_the_group_while_it_has_it(live: Live) -> None:
    live.start()
    live.group("g", 1)
    live.patch(GROUPS_OF_PODS, "g", {"metadata": {"annotations": {"volcano.sh/cooldown-time": "1h"}}})
    live.wait(40)
    told = live.condition(GROUPS_OF_PODS, "g", "WishIgnored")
    assert (told["status"], told["reason"]) == ("True", "PluginNotConfigured")
    assert told["message"].startswith("annotation volcano.sh/cooldown-time is ignored")
    live.phase("g-0", "Running")
    live.wait(40)
    assert live.condition(GROUPS_OF_PODS, "g", "WishIgnored")["status"] == "True"


NUMA = """
actions: "allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: numa-aware}]
"""


def test_a_pod_is_bound_with_the_numa_nodes_that_it_was_given_and_the_next_gets_others(tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_text(NUMA)
    with live_world(str(path)) as live:
        live.node("n1", cpu="8")
        places = {str(i): {"numa": i // 4, "socket": i // 4, "core": i} for i in range(8)}
        live.create(
            RESOURCES["Numatopology"],
            "n1",
            spec={
                "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"},
                "numares": {"cpu": {"allocatable": "0-7", "capacity": 8}},
                "cpuDetail": places,
            },
        )
        live.start()
        whole = {"cpu": "3", "memory": "1Gi"}
        containers = [{"name": "main", "image": "busybox", "resources": {"requests": whole, "limits": whole}}]
        given = []
        for name in ("a", "b", "c"):
            live.group(name, 1, pods=0)
            live.pod(f"{name}-0", group=name, containers=containers)
            live.wait(3)
            given.append(live.get(PODS, f"{name}-0")["metadata"]["annotations"].get("volcano.sh/topology-decision"))
        assert given == ['{"numa":{"0":{"cpu":"3"}}}', '{"numa":{"1":{"cpu":"3"}}}', None]
        assert live.node_of("c-0") == ""
