"""A second scheduler that binds the same pods is noticed, and nothing else is taken for one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kilauea.api.ports import Seen
from kilauea.api.times import SECOND
from kilauea.engine.state import ClusterState
from kilauea.runtime.scheduler.assumed import Assumed, Placed
from kilauea.runtime.scheduler.feed import Feed
from kilauea.runtime.scheduler.rivals import MANY, QUIET_SECONDS, REPEAT_SECONDS, WINDOW_SECONDS, Rivals


class Clock:
    """A clock that is set by hand."""

    time = 0

    def now(self) -> int:
        return self.time

    def monotonic(self) -> int:
        return self.time

    async def sleep(self, seconds: float) -> None: ...


def pod(name: str, node: str = "", scheduler: str = "volcano", version: int = 1) -> bytes:
    """A pod as the server sends it."""
    metadata = {"name": name, "namespace": "t", "uid": f"uid-{name}", "resourceVersion": str(version)}
    spec: dict[str, Any] = {"schedulerName": scheduler, "containers": [{"name": "c"}]}
    spec |= {"nodeName": node} if node else {}
    status = {"phase": "Pending"}
    return json.dumps({"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}).encode()


def fed() -> tuple[Feed, list[tuple[str, str]]]:
    """A feed, and what it takes for binds of another."""
    found: list[tuple[str, str]] = []
    return Feed(ClusterState(), Assumed(), bound=lambda key, node: found.append((key, node))), found


def see(feed: Feed, *pods: bytes) -> None:
    """Let the feed see pods."""
    feed.seen("Pod", [Seen("MODIFIED", each, str(json.loads(each)["metadata"]["resourceVersion"])) for each in pods])


def test_a_waiting_pod_that_another_binds_is_told_of() -> None:
    feed, found = fed()
    see(feed, pod("a"), pod("a", "n1", version=2), pod("a", "n1", version=3))
    assert found == [("t/a", "n1")]


def test_a_pod_bound_elsewhere_than_assumed_is_told_of() -> None:
    feed, found = fed()
    see(feed, pod("a"))
    feed.bind("t/a", Placed("uid-a", "n2"))
    see(feed, pod("a", "n1", version=2))
    assert found == [("t/a", "n1")]


def test_own_binds_are_not_told_of_even_if_their_answer_was_lost() -> None:
    feed, found = fed()
    see(feed, pod("a"), pod("b"))
    for name in ("a", "b"):
        feed.bind(f"t/{name}", Placed(f"uid-{name}", "n1"))
    see(feed, pod("a", "n1", version=2))
    del feed.assumed.binds["t/b"]  # as after a request without an answer
    feed.reconsider("t/b")
    see(feed, pod("b", "n1", version=2))
    assert found == []


def test_pods_of_other_schedulers_and_those_that_came_bound_are_not_told_of() -> None:
    feed, found = fed()
    see(feed, pod("a", scheduler="default-scheduler"), pod("a", "n1", scheduler="default-scheduler", version=2))
    see(feed, pod("b", "n1"))
    assert found == []


def rivals() -> tuple[Rivals, Clock]:
    """A scheduler that has led for long enough."""
    clock = Clock()
    made = Rivals(("volcano",), clock)
    made.lead()
    clock.time = QUIET_SECONDS * SECOND
    return made, clock


def test_several_binds_in_a_minute_are_a_warning_that_names_pod_node_and_fix(caplog: pytest.LogCaptureFixture) -> None:
    found, _ = rivals()
    for number in range(5):
        found.bound(f"t/p{number}", "n1")
    assert [each.getMessage() for each in caplog.records] == [
        "another scheduler binds pods of volcano, for example t/p2 to node n1: stop one of them, or give them "
        "different names with --scheduler-name; `kilauea doctor` shows both"
    ]


def test_the_warning_is_repeated_seldom(caplog: pytest.LogCaptureFixture) -> None:
    found, clock = rivals()
    for _ in range(REPEAT_SECONDS):
        found.bound("t/p", "n1")
        clock.time += SECOND
    assert len(caplog.records) == 1
    for _ in range(MANY):
        found.bound("t/p", "n1")
        clock.time += SECOND
    assert len(caplog.records) == 2


def test_a_few_binds_by_hand_are_not_a_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    found, clock = rivals()
    for _ in range(10):
        found.bound("t/p", "n1")
        clock.time += WINDOW_SECONDS * SECOND
    assert caplog.records == []


def test_binds_of_the_previous_leader_are_not_a_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    found = Rivals(("volcano",), clock)
    for _ in range(5):
        found.bound("t/p", "n1")
    found.lead()
    for _ in range(5):
        found.bound("t/p", "n1")
    assert caplog.records == []
