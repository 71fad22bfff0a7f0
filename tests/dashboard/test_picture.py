"""The picture of a cluster: sums that follow every event, jobs with their states, and evictions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.ports import Key
from kilauea.dashboard.picture import Picture
from support.dashboard_objects import event, gone, group, job, node, pod, queue, tell, text

PODS = st.builds(
    lambda number, group, on, cpu, phase: pod(f"p{number}", group, on=on, cpu=cpu, phase=phase),
    st.integers(0, 5),
    st.sampled_from(["", "g", "h"]),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["1", "500m"]),
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
)
JOBS = st.builds(
    lambda number, queue, phase: job(f"j{number}", queue, phase),
    st.integers(0, 3),
    st.sampled_from(["x", "y"]),
    st.sampled_from(["Pending", "Running", "Completed", "Failed"]),
)
GROUPS = st.builds(
    lambda number, queue, phase, job: group(f"g{number}", queue, phase, job=job),
    st.integers(0, 3),
    st.sampled_from(["x", "y"]),
    st.sampled_from(["Pending", "Inqueue", "Running", "Completed"]),
    st.sampled_from(["", "j0", "j1"]),
)
STEPS = st.lists(
    st.tuples(st.booleans(), st.one_of(st.tuples(st.just("pods"), PODS), st.tuples(st.just("jobs"), JOBS))), max_size=40
)


def sums(picture: Picture) -> Any:
    """Everything that is kept up to date event by event."""
    nodes = {name: (use.used, sorted(use.pods)) for name, use in picture.on_node.items()}
    members = {key: sorted(pods) for key, pods in picture.members.items()}
    phases = {phase: count for phase, count in picture.phases.items() if count}
    return nodes, members, phases, picture.entries, picture.order, sorted(picture.waiting), dict(picture.counts)


@given(STEPS)
def test_sums_after_any_events_are_those_of_a_list_of_what_is_left(steps: list[tuple[bool, tuple[str, Any]]]) -> None:
    picture, left = Picture(), dict[tuple[str, str], Any]()
    for added, (kind, obj) in steps:
        table = picture.pods if kind == "pods" else picture.jobs
        at = kind, obj["metadata"]["name"]
        if added:
            tell(table, obj)
            left[at] = obj
        else:
            gone(table, obj)
            left.pop(at, None)
    fresh = Picture()
    for kind, table in (("pods", fresh.pods), ("jobs", fresh.jobs)):
        table.on_relist([text(obj) for (of, _), obj in sorted(left.items()) if of == kind], "1")
    assert sums(picture) == sums(fresh)


@given(st.lists(st.one_of(st.tuples(st.just("groups"), GROUPS), st.tuples(st.just("jobs"), JOBS)), max_size=25))
def test_a_pod_group_and_its_job_are_one_line_in_whatever_order_they_come(steps: list[tuple[str, Any]]) -> None:
    picture, last = Picture(), dict[tuple[str, str], Any]()
    for kind, obj in steps:
        tell(picture.groups if kind == "groups" else picture.jobs, obj)
        last[kind, obj["metadata"]["name"]] = obj
    jobs = {name for kind, name in last if kind == "jobs"}
    without = {
        name for (kind, name), obj in last.items() if kind == "groups" and not obj["metadata"]["ownerReferences"]
    }
    expected = {("Job", name) for name in jobs} | {("PodGroup", name) for name in without}
    assert {(kind, key.name) for kind, key in picture.entries} >= expected
    assert len(picture.order) == len(picture.entries) == sum(picture.counts.values())


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("Pending", "waiting"),
        ("Restarting", "waiting"),
        ("Running", "running"),
        ("Completing", "running"),
        ("Completed", "done"),
        ("Failed", "failed"),
        ("Aborted", "failed"),
    ],
)
def test_the_state_of_a_job_follows_from_its_phase(phase: str, state: str) -> None:
    picture = Picture()
    tell(picture.jobs, job("train", phase=phase))
    (entry,) = picture.entries.values()
    assert (entry.state, entry.phase) == (state, phase)


def test_a_job_waits_for_the_reason_of_its_pod_group() -> None:
    picture = Picture()
    tell(picture.jobs, job("train"))
    tell(picture.groups, group("train-1", job="train", why="QueueQuotaInsufficient: the queue has no quota left"))
    entry = picture.entries["Job", Key("team", "train")]
    assert (entry.reason, entry.message) == ("QueueQuotaInsufficient", "the queue has no quota left")
    tell(picture.groups, group("train-1", job="train", phase="Running"))
    assert picture.entries["Job", Key("team", "train")].reason == ""


def test_an_eviction_says_who_lost_for_whom_and_why_also_after_its_pod_and_events_are_gone() -> None:
    picture = Picture()
    victim = pod("sweep-worker-0", "g", on="n1", phase="Running")
    tell(picture.jobs, job("sweep", queue="vision"))
    tell(picture.groups, group("g", queue="vision", job="sweep"))
    tell(picture.pods, victim)
    told = event("Preempted", "Preempted by Job team/llm of queue language on node n1", "sweep-worker-0")
    tell(picture.preempted, told)
    tell(picture.evicted, event("Evict", "Pod is evicted, because of reclaim", "sweep-worker-0"))
    gone(picture.pods, victim)
    gone(picture.preempted, told)
    (eviction,) = picture.evictions.values()
    assert eviction.job == ("Job", Key("team", "sweep"))
    assert eviction.by == ("Job", "team", "llm", "language")
    assert (eviction.queue, eviction.node, eviction.why) == ("vision", "n1", "reclaim")


@pytest.mark.parametrize(
    ("message", "by", "why"),
    [
        pytest.param(
            "Preempted by pod group team/g of queue q on node n", ("PodGroup", "team", "g", "q"), "", id="a pod group"
        ),
        pytest.param("Preempted by Job team/j on node n", ("Job", "team", "j", ""), "", id="without a queue"),
        pytest.param("Preempted by pod 123 on node n", None, "Preempted by pod 123 on node n", id="another program"),
    ],
)
def test_the_one_who_gets_the_room_is_read_of_the_event(message: str, by: Any, why: str) -> None:
    picture = Picture()
    tell(picture.preempted, event("Preempted", message, "p"))
    (eviction,) = picture.evictions.values()
    assert (eviction.by, eviction.why) == (by, why)


def test_the_job_of_an_evicted_pod_that_was_never_seen_follows_from_its_name() -> None:
    picture = Picture()
    tell(picture.jobs, job("a-b"))
    for name in ("a-b-worker-3", "a-b-other-3"):
        tell(picture.evicted, event("Evict", "Pod is evicted, because of reclaim", name))
    assert [each.job for each in picture.evictions.values()] == [("Job", Key("team", "a-b")), None]


def test_an_event_says_nothing_about_objects_of_other_namespaces() -> None:
    """The API server takes one that names another namespace if it has a time of its own."""
    picture = Picture()
    tell(picture.jobs, job("sweep"))
    tell(picture.pods, pod("sweep-worker-0", on="n1", phase="Running"))
    told = event("Evict", "Pod is evicted, because of reclaim", "sweep-worker-0")
    told["metadata"]["namespace"] = "elsewhere"
    tell(picture.evicted, told)
    (eviction,) = picture.evictions.values()
    assert (eviction.job, eviction.node, eviction.pod) == (None, "", Key("elsewhere", "sweep-worker-0"))


def test_an_object_that_cannot_be_read_is_counted_and_the_others_are_shown() -> None:
    picture = Picture()
    broken = {"metadata": {"name": "b"}, "spec": {"weight": "many"}}
    tell(picture.queues, queue("a"), broken, queue("c"))
    assert sorted(each.name for each in picture.queues) == ["a", "c"]
    assert list(picture.queues.unread) == [Key("", "b")]
    tell(picture.queues, queue("b"))
    assert not picture.queues.unread


def test_an_open_queue_that_is_paused_is_shown_as_paused() -> None:
    picture, paused = Picture(), queue("a")
    paused["metadata"]["annotations"] = {"kilauea.dev/paused": "true"}
    tell(picture.queues, paused, queue("b"))
    assert {each.name: each.state for each in picture.queues} == {"a": "Paused", "b": "Open"}


def test_a_kind_that_may_not_be_listed_is_empty_and_says_so() -> None:
    picture = Picture()
    tell(picture.nodes, node("a"))
    picture.nodes.refuse("nodes is forbidden")
    assert len(picture.nodes) == 0
    assert picture.refusals == {"nodes": "nodes is forbidden"}


def test_a_list_that_is_reduced_as_it_arrives_gives_the_same_rows_and_one_that_breaks_off_leaves_nothing() -> None:
    whole, reduced = Picture(), Picture()
    texts = [text(pod(f"p{number}", "g", on="n")) for number in range(3)]
    whole.pods.on_relist(texts, "1")
    reduced.pods.reduce(texts[2])  # of a list that broke off
    reduced.pods.on_relist([reduced.pods.reduce(each) for each in texts[:2]], "1")
    assert list(reduced.pods) == list(whole.pods)[:2]
    tell(reduced.pods, pod("p2", "g", on="n"))
    assert sums(reduced) == sums(whole)
