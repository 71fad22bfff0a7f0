"""Binds and evictions that fail, come late, or whose answer is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from kilauea.api.ports import ApiError, Key
from kilauea.client.transport import unreachable
from kilauea.runtime.inputs.resources import PODS, RESOURCES
from support.live_world import Live, live_world

PREEMPTING = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
FORBIDDEN = ApiError(403, "Forbidden", "a webhook says no")


@pytest.fixture
def live() -> Iterator[Live]:
    """A cluster with one node of four cores, and a scheduler at work."""
    with live_world() as made:
        made.node("n1")
        made.start()
        yield made


def refusing(error: ApiError, *endings: str, method: str = "POST") -> Callable[[str, str], Awaitable[None]]:
    """Refuses requests with this method whose path ends so."""

    async def before(of: str, target: str) -> None:
        if of == method and target.endswith(endings):
            raise error

    return before


def test_a_bind_under_way_is_not_decided_twice_and_its_room_is_taken(live: Live) -> None:
    answered = asyncio.Event()

    async def slow(method: str, target: str) -> None:
        if target.endswith("/binding"):
            await answered.wait()

    live.wire.before = slow
    live.pod("large", cpu="3")
    live.wait(3)
    live.pod("other", cpu="2")
    live.wait(3)
    assert live.wire.count("POST", "/binding") == 1
    answered.set()
    live.wait(3)
    assert (live.node_of("large"), live.node_of("other")) == ("n1", "")


def test_a_bind_that_fails_is_undone_said_and_tried_again_later(live: Live) -> None:
    live.wire.before = refusing(FORBIDDEN, "/web/binding")
    live.pod("web")
    live.wait(0.4)
    assert live.node_of("web") == ""
    condition = live.condition(PODS, "web", "PodScheduled")
    assert condition["reason"] == "SchedulerError"
    assert condition["message"] == "failed to bind to node n1: a webhook says no"
    live.wire.before = None
    live.wait(5)
    assert live.node_of("web") == "n1"
    assert live.figure("volcano_schedule_attempts_total", result="error") == 1


@pytest.mark.parametrize(
    ("error", "is_deleted", "warns"),
    [
        pytest.param(FORBIDDEN, False, True, id="forbidden"),
        pytest.param(ApiError(404, "NotFound", 'nodes "n1" not found'), False, True, id="not found"),
        pytest.param(ApiError(404, "NotFound", 'pods "web" not found'), True, False, id="its pod is gone"),
    ],
)
def test_a_bind_that_fails_is_a_warning_while_its_pod_is_there(
    live: Live, caplog: pytest.LogCaptureFixture, error: ApiError, *, is_deleted: bool, warns: bool
) -> None:
    async def refuse(method: str, target: str) -> None:
        if method == "POST" and target.endswith("/web/binding"):
            if is_deleted:
                await live.calm.delete(PODS, Key("default", "web"), grace=0)
            raise error

    live.wire.before = refuse
    with caplog.at_level(logging.WARNING, "kilauea.runtime.scheduler.executor"):
        live.pod("web")
        live.wait(0.4)
    assert live.wire.count("POST", "/web/binding") == 1
    told = [each.getMessage() for each in caplog.records if each.getMessage().startswith("bind of pod default/web")]
    assert told == ([f"bind of pod default/web (n1): {error}"] if warns else [])


def test_a_pod_that_cannot_be_bound_is_tried_ever_more_rarely_and_stops_no_one(live: Live) -> None:
    live.wire.before = refusing(FORBIDDEN, "/stuck/binding")
    live.pod("stuck", cpu="3")
    live.wait(60)
    assert 4 <= live.wire.count("POST", "/stuck/binding") <= 9
    live.pod("other", cpu="3")
    live.wait(70)
    assert live.node_of("other") == "n1", "the room of the failed pod is given to others"


@pytest.mark.parametrize("waits", [0.4, 5.0], ids=["while it is held back", "while it is in line again"])
def test_of_a_pod_that_could_not_be_bound_nothing_is_kept_once_it_is_gone(live: Live, waits: float) -> None:
    live.wire.before = refusing(FORBIDDEN, "/web/binding")
    live.pod("web", cpu="3")
    live.wait(0.4)
    live.pod("other", cpu="3")
    live.wait(waits)
    live.delete(PODS, "web")
    live.wait(120)
    assumed = live.scheduler.feed.assumed
    assert (assumed.binds, assumed.held, assumed.failures) == ({}, {}, {})


def test_an_answer_that_is_lost_does_not_undo_what_was_done(live: Live) -> None:
    def lost(method: str, target: str) -> None:
        if target.endswith("/binding"):
            raise unreachable("the answer is lost")

    live.wire.after = lost
    live.pod("web")
    live.wait(10)
    assert live.node_of("web") == "n1"
    assert live.wire.count("POST", "/binding") == 1


def test_a_pod_that_is_made_again_while_it_is_bound_is_decided_about_again(live: Live) -> None:
    remade: list[str] = []

    async def remake(method: str, target: str) -> None:
        if target.endswith("/web/binding") and not remade:
            remade.append(target)
            await live.calm.delete(PODS, Key("default", "web"), grace=0)
            again = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}
            await live.calm.create(PODS, "default", {"apiVersion": "v1", "kind": "Pod", **again})

    live.wire.before = remake
    live.pod("web", cpu="3")
    live.wait(5)
    assert live.node_of("web") == "n1"
    live.pod("other", cpu="3")
    live.wait(3)
    assert live.node_of("other") == "n1", "the pod that is no more holds nothing"


def test_a_bind_that_fails_while_the_scheduler_ends_is_not_tried_again(live: Live) -> None:
    async def late(method: str, target: str) -> None:
        if target.endswith("/binding"):
            await asyncio.sleep(5)
            raise unreachable("cut off")

    live.wire.before = late
    live.pod("p")
    live.wait(3)
    assert live.wire.count("POST", "/binding") == 1
    live.stop()
    sent = len(live.wire.sent)
    live.world.run(asyncio.sleep(60))
    assert live.wire.sent[sent:] == []


def test_one_that_fails_delays_no_other(live: Live) -> None:
    live.wire.before = refusing(unreachable("no way"), "/a/binding")
    for name in ("a", "b", "c"):
        live.pod(name)
    live.wait(0.2)
    assert [live.node_of(name) for name in ("a", "b", "c")] == ["", "n1", "n1"]


def test_statuses_that_hang_delay_no_bind(live: Live) -> None:
    async def hang(method: str, target: str) -> None:
        if method == "PATCH":
            await asyncio.sleep(1000)

    live.wire.before = hang
    live.group("huge", 9)
    live.wait(3)
    live.pod("web")
    live.wait(0.1)
    assert live.node_of("web") == "n1"


def test_status_writes_that_fail_are_tried_again(live: Live) -> None:
    live.wire.before = refusing(ApiError(500, "InternalError", "not now"), "/podgroups/train", method="PATCH")
    live.group("train", 2)
    live.wait(3)
    assert "status" not in live.get(RESOURCES["PodGroup"], "train")
    assert live.node_of("train-0") == "n1"
    live.wire.before = None
    live.wait(30)
    assert live.get(RESOURCES["PodGroup"], "train")["status"]["phase"] == "Running"


def test_an_eviction_that_is_refused_is_undone_and_another_victim_found(tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_text(PREEMPTING)
    with live_world(str(path)) as live:
        for node in ("n1", "n2"):
            live.node(node, cpu="1")
        for name, value in (("low", 1), ("high", 100)):
            live.create(RESOURCES["PriorityClass"], name, value=value)
        live.start()
        live.group("batch", 1, pods=0, priorityClassName="low")
        for number in range(2):
            live.pod(f"batch-{number}", group="batch", priorityClassName="low")
        live.wait(2)
        for number in range(2):
            live.phase(f"batch-{number}", "Running")
        refused: list[str] = []

        async def refuse_first(method: str, target: str) -> None:
            if method == "DELETE" and target.rpartition("/")[2] in (refused or [target.rpartition("/")[2]]):
                refused.append(target.rpartition("/")[2])
                raise FORBIDDEN

        live.wire.before = refuse_first
        live.group("urgent", 1, pods=0, priorityClassName="high")
        live.pod("urgent-0", group="urgent", priorityClassName="high")
        live.wait(3)
        assert len(set(refused)) == 1
        other = next(name for name in ("batch-0", "batch-1") if name not in refused)
        assert "deletionTimestamp" not in live.get(PODS, refused[0])["metadata"]
        if live.is_there(PODS, other):
            assert "deletionTimestamp" in live.get(PODS, other)["metadata"]
            live.delete(PODS, other)
        live.wait(3)
        assert live.node_of("urgent-0")


def test_the_condition_of_a_pod_that_waits_says_of_which_generation_it_is(live: Live) -> None:
    live.pod("large", cpu="90")
    live.wait(5)
    first = live.condition(PODS, "large", "PodScheduled")
    assert first["observedGeneration"] == 1
    live.patch(PODS, "large", {"spec": {"tolerations": [{"key": "extra", "operator": "Exists"}]}})
    live.wait(5)
    later = live.condition(PODS, "large", "PodScheduled")
    assert later == {**first, "observedGeneration": 2}
    writes = live.wire.count("PATCH", "/large/status")
    live.wait(30)
    assert live.wire.count("PATCH", "/large/status") == writes, "what has been said is not written again"
