"""Room that is made for a pod: it is promised in the objects before pods are evicted, and kept by every scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kilauea.api.ports import ApiError
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.inputs.resources import PODS, RESOURCES
from support.live_world import NODES, Intercepted, Live, live_world

CONF = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
VICTIMS = [f"batch-{node}-{number}" for node in ("a", "b") for number in range(2)]


@contextmanager
def claimed(tmp_path: Path) -> Iterator[Live]:
    """Two full nodes; a pod that needs all of one is about to come. Every pod takes its time to end."""
    (tmp_path / "conf").write_text(CONF)
    with live_world(str(tmp_path / "conf")) as live:
        for name, value in (("low", 1), ("high", 100)):
            live.create(RESOURCES["PriorityClass"], name, value=value)
        live.group("batch", 1, pods=0, priorityClassName="low")
        for node in ("a", "b"):
            live.node(f"n-{node}", cpu="2")
            for number in range(2):
                live.pod(f"batch-{node}-{number}", group="batch", priorityClassName="low", nodeName=f"n-{node}")
                live.phase(f"batch-{node}-{number}", "Running")
        live.node("keeps", cpu="1")  # so that the gang never falls below its minimum
        live.pod("batch-keeps", group="batch", priorityClassName="low", nodeName="keeps")
        live.phase("batch-keeps", "Running")
        live.start()
        live.wait(3)
        yield live


def claim(live: Live) -> None:
    """The pod comes."""
    live.group("urgent", 1, pods=0, priorityClassName="high")
    live.pod("urgent-0", group="urgent", cpu="2", priorityClassName="high")


def told_to_go(live: Live) -> list[str]:
    """Victims that end, or have ended."""
    return [
        name
        for name in VICTIMS
        if not live.is_there(PODS, name) or "deletionTimestamp" in live.get(PODS, name)["metadata"]
    ]


def nominated(live: Live) -> str:
    return str(live.get(PODS, "urgent-0").get("status", {}).get("nominatedNodeName") or "")


def end(live: Live) -> None:
    """The victims' time is over."""
    for name in told_to_go(live):
        if live.is_there(PODS, name):
            live.delete(PODS, name)


def kill_after(live: Live, writes: int) -> None:
    """The scheduler has sent so many writes when it is killed, a second later at the latest; another one begins."""
    left, dead = writes, asyncio.Event()

    async def before(method: str, target: str) -> None:
        nonlocal left
        left -= method != "GET"
        if left < 0:
            await dead.wait()
        if dead.is_set():
            raise ApiError(0, "Unreachable", "the process is dead")

    live.wire.before = before
    claim(live)
    live.wait(1)
    dead.set()
    live.stop()
    live.wire = Intercepted(DirectTransport(live.world.server, "scheduler"))
    live.restart()


@pytest.mark.parametrize("writes", range(14))
def test_whenever_the_scheduler_is_killed_the_next_one_keeps_the_promise(tmp_path: Path, writes: int) -> None:
    with claimed(tmp_path) as live:
        kill_after(live, writes)
        went = told_to_go(live)
        assert not went or nominated(live), "a victim goes, but its preemptor is not nominated"
        live.start()
        live.wait(3)
        end(live)
        live.wait(3)
        node = live.node_of("urgent-0")
        assert node in ("n-a", "n-b")
        assert told_to_go(live) == [name for name in VICTIMS if f"n{name[5:7]}" == node], "no more than it takes"
        assert set(went) <= set(told_to_go(live))


def test_no_one_goes_before_it_is_written_for_whom(tmp_path: Path) -> None:
    with claimed(tmp_path) as live:

        async def before(method: str, target: str) -> None:
            if method == "PATCH" and "urgent-0/status" in target:
                raise ApiError(503, "ServiceUnavailable", "the server is busy")

        live.wire.before = before
        claim(live)
        live.wait(60)
        assert told_to_go(live) == []
        live.wire.before = None
        live.wait(20)
        assert len(told_to_go(live)) == 2
        assert nominated(live)


def test_no_one_goes_for_a_preemptor_that_is_gone_by_then(tmp_path: Path) -> None:
    with claimed(tmp_path) as live:
        refused = True

        async def before(method: str, target: str) -> None:
            if refused and method == "PATCH" and "urgent-0/status" in target:
                raise ApiError(503, "ServiceUnavailable", "the server is busy")

        live.wire.before = before
        claim(live)
        live.wait(3)
        live.delete(PODS, "urgent-0")
        refused = False
        live.wait(60)
        assert told_to_go(live) == []
        assert not live.scheduler.busy
        assert not live.scheduler.feed.assumed.evictions
        assert not live.scheduler.feed.assumed.nominations


def test_a_promise_to_a_node_that_vanishes_is_taken_back_and_room_made_elsewhere(tmp_path: Path) -> None:
    with claimed(tmp_path) as live:
        claim(live)
        live.wait(2)
        first = nominated(live)
        assert first in ("n-a", "n-b")
        live.delete(NODES, first)
        for name in VICTIMS:
            if f"n{name[5:7]}" == first:
                live.delete(PODS, name)
        live.wait(2)
        assert nominated(live) == ({"n-a", "n-b"} - {first}).pop()
        end(live)
        live.wait(3)
        assert live.node_of("urgent-0") == ({"n-a", "n-b"} - {first}).pop()


def test_a_promise_to_a_node_that_vanishes_and_is_not_replaced_does_not_stay_on_the_pod(tmp_path: Path) -> None:
    with claimed(tmp_path) as live:
        claim(live)
        live.wait(2)
        for name in ("n-a", "n-b"):
            live.delete(NODES, name)
        live.wait(3)
        assert nominated(live) == ""
        assert live.condition(PODS, "urgent-0", "PodScheduled")["reason"] == "Unschedulable"


def test_a_victim_that_never_ends_costs_no_one_else_their_pods(tmp_path: Path) -> None:
    with claimed(tmp_path) as live:
        for name in VICTIMS:
            live.patch(PODS, name, {"metadata": {"finalizers": ["example.com/never"]}})
        claim(live)
        live.wait(2)
        gone = told_to_go(live)
        live.wait(600)
        assert told_to_go(live) == gone
        assert len(gone) == 2
        live.node("n-c", cpu="2")
        live.wait(3)
        assert live.node_of("urgent-0") == "n-c", "free room elsewhere serves as well"


def test_while_it_waits_for_its_room_no_one_lesser_gets_it(tmp_path: Path) -> None:
    with claimed(tmp_path) as live:
        claim(live)
        live.wait(2)
        live.group("lesser", 1, pods=0, priorityClassName="low")
        live.pod("lesser-0", group="lesser", cpu="1", priorityClassName="low")
        first, *others = told_to_go(live)
        live.delete(PODS, first)
        live.wait(5)
        assert live.node_of("lesser-0") == ""
        for name in others:
            live.delete(PODS, name)
        live.wait(2)
        assert live.node_of("urgent-0")
        assert live.node_of("lesser-0") == ""


def test_two_schedulers_on_one_cluster_place_everything_and_nothing_twice(tmp_path: Path) -> None:
    """As happens where two installations serve the same name without a lease: conflicts cost time, not correctness."""
    (tmp_path / "conf").write_text(CONF)
    with live_world(str(tmp_path / "conf")) as live:
        for number in range(3):
            live.node(f"n{number}")
        live.start()
        first: list[Any] = live.tasks
        live.restart()
        live.start()
        for number in range(4):
            live.group(f"g{number}", 3)
        live.wait(120)
        placed = [live.node_of(f"g{group}-{number}") for group in range(4) for number in range(3)]
        assert sorted(placed) == ["n0"] * 4 + ["n1"] * 4 + ["n2"] * 4
        assert not [task for task in first if task.done()]
