"""Two live schedulers share out the nodes of one cluster by NodeShards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from kilauea.api.kinds import NODE_SHARDS, PODS
from kilauea.api.ports import ApiError, Key, Record
from kilauea.client.rest import Client
from kilauea.engine.model.shards import HARD, Sharding
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.scheduler.conf_reload import ConfReload
from kilauea.runtime.scheduler.live import LiveOptions, LiveScheduler, at_once
from kilauea.telemetry.metrics import SchedulerMetrics
from support.live_world import Intercepted, Live, live_world

NODES = [f"n{number}" for number in range(6)]


class Worker:
    """A scheduler with a shard."""

    def __init__(self, live: Live, name: str, mode: str = HARD) -> None:
        self.live = live
        self.name = name
        self.wire = Intercepted(DirectTransport(live.world.server, name))
        self.scheduler = LiveScheduler(
            Client(self.wire, name, Random(1)),
            LiveOptions(names=(name,), sharding=Sharding(mode, name)),
            ConfReload(None),
            live.world.clock,
            Random(2),
            self._tell,
            SchedulerMetrics(),
            run=at_once,
        )
        self.tasks = live.world.start(self.scheduler.watch(), self.scheduler.schedule())
        live.wait(1)

    def _tell(self, component: str, event: Record) -> None:
        pass

    def stop(self) -> None:
        """End the scheduler as if its process had died."""
        for task in self.tasks:
            task.cancel()
        self.live.world.run(asyncio.wait(self.tasks))

    @property
    def in_use(self) -> list[str]:
        """The nodes that its NodeShard's status has."""
        return list(self.live.get(NODE_SHARDS, self.name).get("status", {}).get("nodesInUse", []))

    def gang(self, name: str, size: int, cpu: str = "1") -> None:
        self.live.group(name, 1, pods=0)
        for number in range(size):
            self.live.pod(f"{name}-{number}", group=name, cpu=cpu, scheduler=self.name)


def share(live: Live, name: str, nodes: list[str]) -> None:
    """Set the desired nodes of a shard."""
    try:
        live.patch(NODE_SHARDS, name, {"spec": {"nodesDesired": nodes}})
    except ApiError:
        live.create(NODE_SHARDS, name, spec={"nodesDesired": nodes})


def nodes_of(live: Live, gang: str, size: int) -> set[str]:
    return {live.node_of(f"{gang}-{number}") for number in range(size)}


@pytest.fixture
def live() -> Iterator[Live]:
    with live_world() as made:
        for name in NODES:
            made.node(name)
        yield made


@contextmanager
def workers(live: Live, *names: str) -> Iterator[list[Worker]]:
    made = [Worker(live, name) for name in names]
    try:
        yield made
    finally:
        for each in made:
            each.stop()


def test_two_schedulers_split_the_nodes(live: Live) -> None:
    share(live, "east", NODES[:3])
    share(live, "west", NODES[3:])
    with workers(live, "east", "west") as (east, west):
        east.gang("e", 12)
        west.gang("w", 14)
        live.wait(5)
        assert nodes_of(live, "e", 12) == set(NODES[:3])
        assert nodes_of(live, "w", 14) == {*NODES[3:], ""}  # two pods too many
        assert (east.in_use, west.in_use) == (NODES[:3], NODES[3:])


def test_a_node_changes_hands_and_no_node_takes_more_than_it_has(live: Live) -> None:
    share(live, "east", NODES[:4])
    share(live, "west", NODES[4:])
    with workers(live, "east", "west") as (east, west):
        east.gang("e", 10, cpu="2")
        west.gang("w", 10, cpu="2")
        live.wait(2)
        share(live, "west", NODES[2:])
        share(live, "east", NODES[:2])
        live.wait(2)
        assert (east.in_use, west.in_use) == (NODES[:2], NODES[2:])
        taken: dict[str, int] = {}
        for number in range(10):
            for gang in ("e", "w"):
                node = live.node_of(f"{gang}-{number}")
                taken[node] = taken.get(node, 0) + 2
        assert max(count for node, count in taken.items() if node) == 4


def test_the_status_says_which_nodes_come_and_go(live: Live) -> None:
    share(live, "east", NODES[:2])
    share(live, "west", NODES[1:3])
    with workers(live, "east", "west") as (_, west):
        status = live.get(NODE_SHARDS, "west")["status"]
        assert {name: status[name] for name in ("nodesInUse", "nodesToAdd", "nodesToRemove")} == {
            "nodesInUse": ["n2"],
            "nodesToAdd": ["n1"],
            "nodesToRemove": [],
        }
        assert status["lastUpdateTime"]
        share(live, "east", NODES[:1])
        live.wait(1)
        assert west.in_use == ["n1", "n2"]


def test_a_node_is_given_up_only_when_no_bind_to_it_is_under_way(live: Live) -> None:
    share(live, "east", ["n0"])
    with workers(live, "east") as (east,):
        held = asyncio.Event()

        async def slow(method: str, target: str) -> None:
            if target.endswith("/binding"):
                await held.wait()

        east.wire.before = slow
        east.gang("e", 1)
        live.wait(1)
        share(live, "east", ["n1"])
        live.wait(2)
        assert live.get(NODE_SHARDS, "east")["status"]["nodesToRemove"] == ["n0"]
        assert east.in_use == ["n0", "n1"]
        held.set()
        live.wait(2)
        assert live.node_of("e-0") == "n0"
        assert east.in_use == ["n1"]


def test_a_node_is_not_used_before_the_status_has_it(live: Live) -> None:
    share(live, "east", ["n0"])
    with workers(live, "east") as (east,):

        async def refused(method: str, target: str) -> None:
            if target.endswith("/status") and "nodeshards" in target:
                raise ApiError(503, "ServiceUnavailable", "not now")

        east.wire.before = refused
        share(live, "east", ["n0", "n1"])
        east.gang("e", 2, cpu="3")
        live.wait(3)
        assert nodes_of(live, "e", 2) == {"n0", ""}
        east.wire.before = None
        live.wait(3)
        assert nodes_of(live, "e", 2) == {"n0", "n1"}


def test_a_shard_that_goes_stops_its_scheduler_and_one_that_comes_starts_it(live: Live) -> None:
    with workers(live, "east") as (east,):
        east.gang("e", 1)
        live.wait(3)
        assert live.node_of("e-0") == ""
        assert OUTSIDE in message_of(live, "e-0")
        share(live, "east", ["n2"])
        live.wait(3)
        assert live.node_of("e-0") == "n2"
        live.world.run(live.calm.delete(NODE_SHARDS, Key("", "east")))
        east.gang("f", 1)
        live.wait(3)
        assert live.node_of("f-0") == ""


OUTSIDE = "6 node isn't in scheduler node shard"


def message_of(live: Live, pod: str) -> str:
    conditions: list[dict[str, Any]] = live.get(PODS, pod).get("status", {}).get("conditions", [])
    return " ".join(str(condition.get("message")) for condition in conditions)


def test_a_scheduler_without_sharding_does_not_watch_shards() -> None:
    assert "NodeShard" not in LiveOptions().kinds
    assert "NodeShard" in LiveOptions(sharding=Sharding(HARD)).kinds
