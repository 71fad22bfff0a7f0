"""Small clusters that once waited beside free room, evicted again and again, or never got what they were promised.

Each is played until it rests. All laws hold on the way, and the right pods run at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from kilauea.api.meta import Object, OwnerReference
from kilauea.api.scheduling import NetworkTopology, PodGroup
from kilauea.api.times import SECOND, format_time
from kilauea.api.topology import HyperNode
from over_time.books import Books, is_placed, is_terminating
from over_time.configurations import CONFIGURATIONS
from over_time.history import START, History, complete, play
from over_time.laws import broken
from support.builders import GPU, Data, Objects, conf, flat, group, node, plugin, pod, priority_class, queue
from support.card_objects import A, B, C, annotated, card_group, card_node, card_pod, card_queue, labelled
from support.volume_objects import claim, csi_node, mounts, storage_class, volume

CLASSES = [priority_class("low", 10), priority_class("mid", 100), priority_class("high", 1000)]
FIVE, FLAT, TREE = (CONFIGURATIONS[name] for name in ("five", "flat", "tree"))
BOTH = pytest.mark.parametrize("chosen", [FLAT, TREE], ids=["flat", "tree"])
SWAPPED = conf(
    "enqueue, allocate, preempt, reclaim, backfill",
    ["priority", "gang", "conformance"],
    ["predicates", "capacity", "nodeorder"],
)


def job(
    name: str,
    of: str,
    *places: str | None,
    minimum: int = 1,
    priority: str | None = None,
    phase: str | None = None,
    resources: Data | None = None,
    created: int = 0,
    **more: Any,
) -> list[Object]:
    """A group and a pod for each place, `None` for one that waits; a controller brings evicted pods back."""
    phase = phase or ("Running" if any(places) else "Pending")
    made = group(name, of, minimum, phase, priority=priority, resources=resources, created=created)
    if priority:
        more["priorityClassName"] = priority
    pods = [
        pod(f"{name}-{i}", name, node=at, created=created, uid=f"{name}-{i}", **more) for i, at in enumerate(places)
    ]
    return [made, *map(controlled, pods)]


def controlled(obj: Object, kind: str = "Job") -> Object:
    obj.metadata.owner_references = [OwnerReference(kind, "owner", "owner-uid", "batch.volcano.sh/v1alpha1", True)]
    return obj


def lived(chosen: Data, *objects: Objects) -> History:
    """The history of a cluster that breaks no law."""
    history = play(chosen, complete([queue("root", reclaimable=False), queue("default"), *CLASSES, *flat(objects)]))
    assert broken(history) == []
    assert history.at_rest
    return history


def running(history: History) -> Counter[str]:
    """Pods that run at the end, by job."""
    pods = Books(history.moments[-1].objects).pods.values()
    return Counter(p.name.rsplit("-", 1)[0] for p in pods if is_placed(p) and not is_terminating(p))


def evictions(history: History) -> list[str]:
    """Names of all pods that were evicted, in order."""
    return [e.pod.removeprefix("ns/") for moment in history.moments for e in moment.plan.evictions]


def waiting(count: int) -> Iterable[None]:
    return [None] * count


# --- room that is free


@BOTH
def test_a_job_that_its_queue_deserves_starts_on_an_empty_node_though_a_queue_of_higher_priority_wants_half(
    chosen: Data,
) -> None:
    first: list[Objects] = [queue("x", priority=10), job("jx", "x", None, cpu=2, resources={"cpu": "2"})]
    second: list[Objects] = [
        queue("y", deserved={"cpu": "4"}),
        job("jy", "y", None, cpu=4, resources={"cpu": "4"}, created=1),
    ]
    history = lived(chosen, node("n1", 4), first, second)
    assert running(history) == {"jy": 1}
    assert len(evictions(history)) <= 1


@BOTH
def test_cards_that_two_queues_want_do_not_stay_idle(chosen: Data) -> None:
    history = lived(
        chosen,
        node("n1", 32, "64Gi", gpu=2),
        [queue("x"), queue("y", deserved={"cpu": "4", GPU: 2})],
        job("hold", "y", "n1", cpu=8),
        job("jx", "x", None, gpu=2, resources={"cpu": "1", GPU: 2}, created=1),
        job("jy", "y", None, gpu=2, resources={"cpu": "1", GPU: 2}, created=2),
    )
    assert running(history)["jx"] + running(history)["jy"] == 1


def test_the_last_cpu_goes_to_the_job_of_high_priority_and_not_to_a_starving_one_of_low_priority() -> None:
    history = lived(
        CONFIGURATIONS["five-overcommit"],
        node("a", 2),
        job("hi", "default", "a", None, priority="high", memory=None),
        job("lo", "default", None, priority="low", memory=None, phase="Inqueue", created=1),
    )
    assert running(history) == {"hi": 2}
    assert evictions(history) == []


def test_a_job_below_its_share_gets_the_last_cpu_though_a_queue_of_higher_priority_wants_it() -> None:
    history = lived(
        SWAPPED,
        node("a", 4),
        [queue("qa", priority=10, deserved={"cpu": "2"}), queue("qb", priority=1, deserved={"cpu": "2"})],
        job("a", "qa", "a", "a", "a", *waiting(3), memory=None),
        job("b", "qb", None, memory=None, phase="Inqueue", created=1),
    )
    assert running(history) == {"a": 3, "b": 1}
    assert len(evictions(history)) <= 1


def test_gangs_of_lower_priority_do_not_keep_the_pods_of_an_elastic_job_from_free_nodes() -> None:
    history = lived(
        FIVE,
        [node("n0", 2), node("n1", 2), node("n2", 4)],
        queue("q0", priority=1),
        job("j0", "q0", "n2", *waiting(3), cpu=2, memory=None, priority="high", resources={"cpu": "2"}),
        job("j1", "q0", *waiting(4), memory=None, priority="mid", minimum=3, resources={"cpu": "3"}, phase="Inqueue"),
        job("j2", "q0", *waiting(4), cpu=2, memory=None, priority="low", resources={"cpu": "2"}, phase="Inqueue"),
        job(
            "j3",
            "q0",
            *waiting(3),
            cpu=2,
            memory=None,
            priority="mid",
            minimum=3,
            resources={"cpu": "6"},
            phase="Inqueue",
        ),
    )
    assert running(history) == {"j0": 4}


def test_services_and_training_of_equal_priority_do_not_both_wait_for_free_cards() -> None:
    objects = [
        card_node("n1", A, cpu=64, memory="512Gi"),
        card_queue("services", {A: 8}, cpu=4, memory="4Gi", reclaimable=False),
        card_queue("training", {A: 8}, cpu=4, memory="4Gi", created=1),
    ]
    for name, of, kind, place in (
        ("svc", "services", "ReplicaSet", "n1"),
        ("more", "services", "ReplicaSet", None),
        ("train", "training", "Job", None),
    ):
        made = card_group(name, {A: 4}, queue=of, minimum=1, phase="Running" if place else "Inqueue", cpu="100m")
        asked: dict[str, Any] = {"cpu": "100m", "memory": "100Mi"}
        objects += [made, controlled(card_pod(f"{name}-0", name, A, 4, node=place, uid=name, **asked), kind)]
    history = lived(CONFIGURATIONS["cards"], objects)
    assert running(history)["svc"] == 1
    assert running(history)["more"] + running(history)["train"] == 1


# --- promises


@BOTH
def test_a_pod_gets_the_node_that_it_was_promised_and_no_more_is_evicted_while_the_victim_terminates(
    chosen: Data,
) -> None:
    victims = job("v", "v", "n1", "n2", "n3", None, cpu=2, memory=None)
    victims[1].metadata.deletion_timestamp = "2026-01-01T12:00:02Z"
    preemptor = job(
        "c", "c", None, cpu=2, memory=None, resources={"cpu": "2"}, phase="Inqueue", created=2, nominated="n1"
    )
    history = lived(
        chosen,
        [node(name, 2, "64Gi") for name in ("n1", "n2", "n3")],
        queue("v", deserved={"cpu": "4", "memory": "64Gi"}),
        queue("c", deserved={"cpu": "2", "memory": "1Gi"}),
        victims,
        job("m", "c", "n3", cpu=None, memory="5Gi", created=1),
        preemptor,
    )
    assert evictions(history) == []
    assert {b.pod: b.node for m in history.moments for b in m.plan.binds} == {"ns/c-0": "n1"}


@pytest.mark.parametrize("grace", [0, 1, 5])
@BOTH
def test_one_pod_that_needs_two_cpus_costs_one_pod_of_two_cpus(chosen: Data, grace: int) -> None:
    places = [f"n{i}" for i in range(4) for _ in range(2)]
    history = lived(
        chosen,
        [node(f"n{i}", 4, "64Gi") for i in range(4)],
        queue("qv", deserved={"cpu": "4", "memory": "200Gi"}),
        queue("qc", deserved={"cpu": "12", "memory": "1Gi"}),
        job("m", "qc", "n0", cpu=None, memory="30Gi"),
        job("v", "qv", *places, *waiting(4), cpu=2, memory=None, terminationGracePeriodSeconds=grace),
        job("c", "qc", None, cpu=2, memory=None, created=1),
    )
    assert len(evictions(history)) == 1
    assert running(history) == {"m": 1, "v": 7, "c": 1}


@pytest.mark.parametrize("grace", [0, 3])
def test_a_preempting_pod_is_not_overtaken_by_a_lesser_job_of_another_queue(grace: int) -> None:
    history = lived(
        CONFIGURATIONS["preempt"],
        node("n0", 4),
        [queue("q0"), queue("q1")],
        job("held", "q1", *["n0"] * 4, memory=None, terminationGracePeriodSeconds=grace),
        job("late", "q0", None, memory=None, created=2),
        job("urgent", "q1", None, memory=None, priority="low", created=3),
    )
    assert running(history) == {"held": 3, "urgent": 1}
    assert len(evictions(history)) == 1


@pytest.mark.parametrize("grace", [0, 3])
def test_a_preempting_gang_is_not_overtaken_by_a_lesser_job_of_another_queue(grace: int) -> None:
    history = lived(
        CONFIGURATIONS["gangs"],
        node("n0", 4),
        [queue("q0"), queue("q1")],
        job("held", "q1", *["n0"] * 4, memory=None, terminationGracePeriodSeconds=grace),
        job("late", "q0", None, memory=None, created=2),
        job("urgent", "q1", None, memory=None, priority="low", created=3),
    )
    assert running(history) == {"held": 3, "urgent": 1}
    assert len(evictions(history)) == 1


def test_a_gang_that_pods_are_evicted_for_does_not_lose_its_start_to_another_job_in_the_same_cycle() -> None:
    history = lived(
        TREE,
        node("n0", 8),
        [queue("lent"), queue("own", deserved={"cpu": "3"})],
        job("spare", "lent", *["n0"] * 3, memory=None, created=1),
        job("large", "lent", "n0", cpu=3, memory=None, created=2),
        job("single", "own", None, cpu=3, memory=None, created=3),
        job("gang", "own", *waiting(3), minimum=2, memory=None, created=4),
    )
    assert running(history)["gang"] == 3
    assert {e.by for e in history.moments[0].plan.evictions} == {"ns/gang"}


def test_a_gang_waits_for_all_the_nodes_that_it_needs_before_it_takes_the_one_that_is_free() -> None:
    going = job("going", "q", "n1", "n1", cpu=2, memory=None, terminationGracePeriodSeconds=5)
    for made in going[1:]:
        made.metadata.deletion_timestamp = "2026-01-01T12:00:05Z"
    gang = [group("gang", "q", 2, "Inqueue", priority="high", created=2)]
    for number, lost in enumerate(("n1", "n0")):
        gang.append(pod(f"gang-{number}", "gang", 3, None, nominated=lost, priorityClassName="high", created=2))
    history = lived(
        CONFIGURATIONS["gangs-tree"],
        [node("n0", 4, unschedulable=True), node("n1", 4), node("n2", 4)],
        [queue("q"), going, job("small", "q", *["n2"] * 4, memory=None, priority="low", created=1), gang],
    )
    assert len(evictions(history)) == 3
    assert {b.pod: b.node for m in history.moments for b in m.plan.binds if "gang" in b.pod} == {
        "ns/gang-0": "n1",
        "ns/gang-1": "n2",
    }


# --- promises of queues


def card_halves() -> list[Object]:
    share = {GPU: 4, "cpu": "32", "memory": "64Gi"}
    return [queue("a", deserved=share), queue("b", deserved=share, created=1)]


CARDS_OF_FOUR = {"cpu": "4", "memory": "4Gi", GPU: 4}


@BOTH
def test_a_gang_larger_than_what_its_queue_borrowed_gives_way_whole_to_a_gang_within_its_share(chosen: Data) -> None:
    history = lived(
        chosen,
        [node(name, 32, "64Gi", gpu=4) for name in ("n1", "n2")],
        card_halves(),
        job("big", "a", *["n1"] * 4, *["n2"] * 4, minimum=8, gpu=1),
        job("want", "b", *waiting(4), minimum=4, gpu=1, resources=CARDS_OF_FOUR, created=1),
    )
    assert running(history) == {"want": 4}


@BOTH
def test_a_pod_larger_than_what_its_queue_borrowed_gives_way_to_a_gang_within_its_share(chosen: Data) -> None:
    history = lived(
        chosen,
        node("n1", 32, "64Gi", gpu=8),
        card_halves(),
        job("big", "a", "n1", gpu=8),
        job("want", "b", *waiting(4), minimum=4, gpu=1, resources=CARDS_OF_FOUR, created=1),
    )
    assert running(history) == {"want": 4}


@BOTH
def test_a_guarantee_is_worth_the_gang_that_borrowed_it(chosen: Data) -> None:
    history = lived(
        chosen,
        node("n1", 20, "500Gi"),
        [queue("a", deserved={"cpu": "8"}), queue("b", deserved={"cpu": "8"}, created=1)],
        queue("c", deserved={"cpu": "4"}, guarantee={"cpu": "4"}, created=2),
        job("ja", "a", *["n1"] * 12, minimum=12, memory=None),
        job("jb", "b", *["n1"] * 8, memory=None),
        job("jc", "c", *waiting(4), minimum=4, memory=None, resources={"cpu": "4"}, created=1),
    )
    assert running(history) == {"jb": 8, "jc": 4}


@pytest.mark.parametrize("chosen", [FLAT, TREE, CONFIGURATIONS["tree-first-starving"]])
def test_an_elastic_job_gets_back_all_that_its_queue_deserves_and_not_only_its_minimum(chosen: Data) -> None:
    history = lived(
        chosen,
        [node("n0", 4), node("n1", 4)],
        [queue("a", deserved={"cpu": "4"}), queue("b", deserved={"cpu": "4"}, created=1)],
        job("long", "a", *["n0"] * 4, *["n1"] * 4, memory=None),
        job("elastic", "b", *waiting(6), memory=None, created=1),
    )
    assert running(history) == {"long": 4, "elastic": 4}
    assert len(evictions(history)) == 4


def test_a_queue_gets_back_its_cpu_from_one_that_has_too_many_cards_of_those_it_asks_for() -> None:
    history = lived(
        FLAT,
        node("a", 2, gpu=4),
        [queue("over", deserved={"cpu": "2", GPU: 1}), queue("under", deserved={"cpu": "1", GPU: 1}, created=1)],
        job("v", "over", "a", "a", cpu=1, gpu=1, memory=None),
        job("c", "under", None, cpu=1, gpu=1, memory=None, created=1),
    )
    assert running(history) == {"v": 1, "c": 1}
    assert len(evictions(history)) == 1


def test_queues_of_equal_weight_have_equal_parts_though_the_job_below_its_part_has_its_minimum() -> None:
    history = lived(
        CONFIGURATIONS["five-proportion"],
        node("a", 4),
        [queue("q1"), queue("q2", created=1)],
        job("v", "q1", "a", "a", "a", memory=None),
        job("c", "q2", "a", None, memory=None, created=1),
    )
    assert running(history) == {"v": 2, "c": 2}


def test_the_second_replica_of_a_service_gets_its_cards_back_from_training() -> None:
    objects = [
        card_node("n1", A, cpu=64, memory="512Gi"),
        card_queue("inference", {A: 8}, cpu=4, memory="4Gi", priority=80000, reclaimable=False),
        card_queue("training", {A: 8}, cpu=4, memory="4Gi", priority=20000, created=1),
    ]
    asked: dict[str, Any] = {"cpu": "100m", "memory": "100Mi"}
    for name in ("one", "two"):
        objects.append(card_group(name, {A: 4}, queue="training", minimum=1, phase="Running", priority="low"))
        made = card_pod(f"{name}-0", name, A, 4, node="n1", uid=name, priorityClassName="low", **asked)
        objects.append(annotated(controlled(made), preemptable="true"))
    objects.append(card_group("chat", queue="inference", minimum=1, phase="Inqueue", priority="high", created=1))
    for index in range(2):
        made = card_pod(f"chat-{index}", "chat", A, 4, uid=f"chat{index}", priorityClassName="high", **asked)
        objects.append(annotated(controlled(made, "ReplicaSet"), preemptable="false"))
    history = lived(CONFIGURATIONS["cards"], objects)
    assert running(history) == {"chat": 2}


def test_jobs_that_name_a_card_by_its_model_start_on_no_other_model() -> None:
    """H200s whole and in slices on one node, H100s free on another, under the same name of the resource."""
    split, of_slice = f"{C}/mig-1g.18gb-mixed", "nvidia.com/mig-1g.18gb"
    asked: dict[str, Any] = {"cpu": "100m", "memory": "100Mi"}
    objects = [
        node("h1", 64, "512Gi", labels=labelled(C, count=4), resources={GPU: 4, of_slice: 4}),
        card_node("n2", B, gpu=8),
        card_queue("q-h", {C: 4, split: 2}, cpu=4, memory="4Gi"),
        card_group("service", {split: 2}, "inference", queue="q-h", minimum=1, phase="Pending"),
        card_group("job", {C: 2}, "training", queue="q-h", minimum=2, phase="Pending", created=1),
        card_group("late", {C: 3}, "training", queue="q-h", minimum=3, phase="Pending", created=2),
    ]
    for name, count, card, resource in (("service", 2, split, of_slice), ("job", 2, C, GPU), ("late", 3, C, GPU)):
        made = [
            card_pod(f"{name}-{i}", name, card, 1, resource=resource, uid=f"{name}{i}", **asked) for i in range(count)
        ]
        objects += [controlled(each) for each in made]
    history = lived(CONFIGURATIONS["cards"], objects)
    assert running(history) == {"service": 2, "job": 2}
    placed = [p for p in Books(history.moments[-1].objects).pods.values() if is_placed(p)]
    assert {p.spec.node_name for p in placed} == {"h1"}


# --- queues that are promised nothing

UNPROMISED = pytest.mark.parametrize("name", ["hierarchical-drf", "no-queue-plugin"])


@UNPROMISED
def test_a_queue_with_a_job_that_holds_nothing_takes_no_cpu_from_one_that_holds_less(name: str) -> None:
    """In the order of hierarchical drf it comes first as long as cpus are used up, and last while one is free."""
    history = lived(
        CONFIGURATIONS[name],
        [node("n0", 4), node("n1", 4), node("n2", 8)],
        [queue("q0", created=0), queue("q1", created=1)],
        job("less", "q1", "n0", "n0", "n0", "n0", "n1", "n1"),
        job("more", "q0", "n1", "n2", "n2", "n2", "n2", cpu=2, priority="low", created=2),
        job("nothing", "q0", None, cpu=3, priority="low", phase="Inqueue", created=5),
        job("late", "q0", *waiting(3), minimum=2, priority="high", created=100),
    )
    assert running(history) == {"less": 6, "more": 4, "late": 2}
    assert len(evictions(history)) == 1


@UNPROMISED
def test_queues_that_hold_as_many_cpus_do_not_take_the_same_memory_in_turn(name: str) -> None:
    history = lived(
        CONFIGURATIONS[name],
        node("n", 8, "8Gi"),
        [queue("q0"), queue("q1"), queue("full", reclaimable=False)],
        [job(f"cpus-{of}", of, *["n"] * 4, memory=None) for of in ("q0", "q1")],
        job("rest", "full", "n", cpu=None, memory="6Gi"),
        job("a", "q0", "n", "n", minimum=0, cpu=None, created=1),
        job("b", "q1", *waiting(2), minimum=0, cpu=None, phase="Inqueue", created=2),
    )
    assert (running(history)["a"], running(history)["b"]) == (1, 1)
    assert len(evictions(history)) == 1


# --- who is spared


def test_a_job_of_high_priority_does_not_lose_its_only_spare_pod_to_one_of_middle_priority() -> None:
    history = lived(
        CONFIGURATIONS["five-overcommit"],
        node("a", 3),
        job("hi", "default", "a", "a", memory=None, priority="high"),
        job("lo", "default", "a", memory=None, priority="low"),
        job("mid", "default", None, cpu=2, memory=None, priority="mid", phase="Inqueue", created=1),
    )
    assert evictions(history) == []
    assert running(history) == {"hi": 2, "lo": 1}


@pytest.mark.parametrize("name", ["gangs", "gangs-tree", "flat", "tree", "five", "full-tree"])
def test_pods_of_another_scheduler_are_never_evicted(name: str) -> None:
    others = [
        pod(f"other-{i}", "", cpu=3, memory=None, node=f"n{i}", schedulerName="default-scheduler") for i in range(2)
    ]
    history = lived(
        CONFIGURATIONS[name],
        [node("n0", 4), node("n1", 4)],
        [queue("a"), queue("b", deserved={"cpu": "6"}, guarantee={"cpu": "6"}, priority=10)],
        others,
        job("want", "b", *waiting(2), minimum=2, cpu=2, memory=None, priority="high", phase="Inqueue", created=1),
    )
    assert evictions(history) == []
    assert running(history)["other"] == 2


def test_a_gang_with_a_preempting_action_in_one_tier_keeps_its_minimum() -> None:
    chosen = conf("allocate, preempt", ["priority", plugin("gang"), "conformance"], ["predicates", "nodeorder"])
    history = lived(
        chosen,
        node("a", 2),
        job("pair", "default", "a", "a", minimum=2, memory=None, priority="low"),
        job("one", "default", None, memory=None, priority="high", created=1),
    )
    assert running(history) in ({"pair": 2}, {"one": 1})


def test_a_gang_keeps_promised_room_while_the_hours_of_the_node_of_another_of_its_pods_are_over() -> None:
    lent = {"volcano.sh/revocable-zone": "night"}
    history = lived(
        CONFIGURATIONS["tdm"],
        [
            node(name, 8, labels=lent if name in ("n1", "n3", "n5") else None)
            for name in ("n0", "n1", "n2", "n3", "n4", "n5")
        ],
        queue("q0"),
        job("j0", "q0", "n0", cpu=1, memory=None),
        job("j1", "q0", "n0", cpu=1, memory=None, created=1),
        job("j2", "q0", "n0", "n1", "n1", minimum=3, priority="low", cpu=4, memory=None, created=2),
        job("j3", "q0", None, cpu=2, memory=None, created=3),
        job("j4", "q0", *waiting(3), cpu=3, memory=None, created=4, terminationGracePeriodSeconds=1),
    )
    assert running(history)["j2"] == 3


def test_a_gang_leaves_the_nodes_of_a_zone_pod_by_pod_after_its_hours() -> None:
    """The pod that is back first starts beside pods that leave in the same cycle."""
    zone = {"volcano.sh/revocable-zone": "night"}
    history = lived(
        CONFIGURATIONS["tdm"],
        [node("n0", 2), node("n1", 2), node("r0", 2, labels=zone), node("r1", 2, labels=zone)],
        job("gang", "default", "n0", "r0", "r1", minimum=3, memory=None),
    )
    assert evictions(history)
    assert running(history) == {"gang": 3}
    assert {p.spec.node_name for p in Books(history.moments[-1].objects).pods.values()} == {"n0", "n1"}


# --- promises of pods that look at their neighbours, and of gangs that stay together


def hyper(name: str, *nodes: str) -> Object:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": each}}} for each in nodes]
    return msgspec.convert(
        {"kind": "HyperNode", "metadata": {"name": name}, "spec": {"tier": 1, "members": members}}, HyperNode
    )


def test_a_gang_of_one_domain_starts_when_the_room_that_one_of_its_pods_waits_for_is_free() -> None:
    gang = job("g", "default", None, None, minimum=2, cpu=2, memory=None)
    made = gang[0]
    assert isinstance(made, PodGroup)
    made.spec = msgspec.structs.replace(
        made.spec, network_topology=NetworkTopology(mode="hard", highest_tier_allowed=1)
    )
    going = pod("old", "", cpu=2, memory=None, node="a", deleting=True, uid="old")
    going.metadata.deletion_timestamp = format_time(START + 2 * SECOND)
    history = lived(CONFIGURATIONS["gangs"], node("a", 2), node("b", 2), hyper("s", "a", "b"), gang, going)
    assert running(history) == {"g": 2}


def test_pods_that_were_promised_one_node_start_there_though_their_spread_depends_on_the_order() -> None:
    labels = {"app": "g"}
    of_g = {"labelSelector": {"matchLabels": labels}, "topologyKey": "zone"}
    spread = [{**of_g, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [of_g]}}
    each: Data = {"labels": labels, "cpu": 1, "memory": None, "priorityClassName": "high"}
    history = lived(
        FIVE,
        [node("a", 2, labels={"zone": "1"}), node("b", 2, labels={"zone": "2"}, unschedulable=True)],
        job("old", "default", "a", "b", cpu=2, memory=None, priority="low", terminationGracePeriodSeconds=2),
        group("g", "default", 2, "Inqueue", priority="high"),
        controlled(pod("g-0", "g", uid="g-0", topologySpreadConstraints=spread, **each)),
        controlled(pod("g-1", "g", uid="g-1", affinity=near, **each)),
    )
    assert running(history)["g"] == 2
    assert evictions(history) == ["old-0"]


PORT = [{"containerPort": 80, "hostPort": 80}]
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "one"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


DISK = {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}]}


@pytest.mark.parametrize(
    ("room", "more"),
    [
        ({"pods": 1}, {}),
        ({}, {"ports": PORT}),
        ({}, {"labels": {"app": "one"}, "affinity": APART}),
        ({}, DISK),
    ],
    ids=["number of pods", "host port", "anti-affinity", "disk"],
)
def test_a_promise_is_kept_while_its_victim_still_has_what_is_no_amount(room: Data, more: Data) -> None:
    old = job("old", "default", "a", "b", memory=None, priority="low", terminationGracePeriodSeconds=3, **more)
    old[1].metadata.owner_references = None
    nodes, new = (
        [node("a", 8, **room), node("b", 8, unschedulable=True)],
        job("new", "default", None, memory=None, priority="high", **more),
    )
    # The laws count amounts alone, and cpu is free all the time.
    history = play(FIVE, complete([queue("default"), *CLASSES, *nodes, *old, *new]))
    assert [len(moment.plan.nominations) for moment in history.moments[:4]] == [1, 1, 1, 1]
    assert running(history) == {"new": 1, "old": 1}
    assert evictions(history) == ["old-0"]


def test_a_promise_is_kept_while_its_victim_still_has_a_volume_of_a_driver_with_a_limit() -> None:
    """The node takes one volume, which two pods share; the one that ends at once would find room there again."""
    sizes = [claim("mine", of="made"), claim("theirs", of="made")]
    made = [storage_class("made", "csi.example.com"), csi_node("a", **{"csi.example.com": 1}), *sizes]
    old = job("old", "default", "a", "a", minimum=0, memory=None, priority="low", volumes=mounts("theirs"))
    for each, grace in zip(old[1:], (3, 0), strict=True):
        each.spec.termination_grace_period_seconds = grace  # type: ignore[attr-defined]
    new = job("new", "default", None, memory=None, priority="high", volumes=mounts("mine"))
    history = play(FIVE, complete([queue("default"), *CLASSES, node("a", 8), *made, *old, *new]))
    assert [[n.pod for n in moment.plan.nominations] for moment in history.moments[:4]] == [["ns/new-0"]] * 4
    assert sorted(evictions(history)) == ["old-0", "old-1"]
    assert running(history) == {"new": 1}


def test_a_claim_for_one_pod_at_a_time_is_promised_while_the_pod_that_has_it_terminates() -> None:
    one = [claim("c", bound="v", modes=("ReadWriteOncePod",)), volume("v", modes=("ReadWriteOncePod",), keep="c")]
    going = pod("old", "", memory=None, node="a", deleting=True, uid="old", volumes=mounts("c"))
    going.metadata.deletion_timestamp = format_time(START + 2 * SECOND)
    new = job("new", "default", None, memory=None, volumes=mounts("c"))
    history = play(FIVE, complete([queue("default"), *CLASSES, node("a", 8), storage_class(), *one, going, *new]))
    assert [number for number, moment in enumerate(history.moments) if moment.plan.binds] == [3]
    assert [[n.pod for n in moment.plan.nominations] for moment in history.moments[:3]] == [["ns/new-0"]] * 3


@pytest.mark.parametrize(
    "more",
    [{"ports": PORT}, {"labels": {"app": "one"}, "affinity": APART}, DISK],
    ids=["port", "apart", "disk"],
)
def test_no_pod_starts_beside_one_that_terminates_and_keeps_it_away(more: Data) -> None:
    going = pod("old", "", memory=None, node="a", deleting=True, uid="old", **more)
    going.metadata.deletion_timestamp = format_time(START + 2 * SECOND)
    history = lived(FIVE, node("a", 8), going, job("new", "default", None, memory=None, **more))
    starts = [number for number, moment in enumerate(history.moments) if moment.plan.binds]
    assert starts == [3]
    assert [n.pod for n in history.moments[0].plan.nominations] == ["ns/new-0"]


def test_pods_beyond_the_minimum_of_a_gang_get_room_in_its_domain_alone() -> None:
    new = job("new", "qa", None, None, cpu=2, memory=None)
    made = new[0]
    assert isinstance(made, PodGroup)
    made.spec = msgspec.structs.replace(
        made.spec, network_topology=NetworkTopology(mode="hard", highest_tier_allowed=1)
    )
    history = lived(
        CONFIGURATIONS["gangs"],
        [queue("qa", deserved={"cpu": "4"}), queue("qb")],
        # The other node of each domain is cordoned, so either domain has room for one pod of the two.
        [node("a", 2), node("b", 2), node("c", 2, unschedulable=True), node("d", 2, unschedulable=True)],
        [hyper("s0", "a", "c"), hyper("s1", "b", "d")],
        job("old", "qb", "a", "b", cpu=2, memory=None, terminationGracePeriodSeconds=2),
        new,
    )
    assert running(history) == {"new": 1, "old": 1}
    assert len(evictions(history)) == 1
