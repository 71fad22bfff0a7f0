"""Random histories under random faults: in the end everything is as it should be, and at no time was a node too full.

A seed that fails replays: the loop, the rng and the time are the test's own.
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from kilauea.engine.events import Changed
from kilauea.engine.state import ClusterState
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.inputs.reading import read
from kilauea.runtime.inputs.resources import GROUPS_OF_PODS, PODS, RESOURCES
from support.faults import FaultyTransport
from support.live_world import NAMES, Live, live_world

CORES = 4


def held(live: Live) -> dict[str, int]:
    """Cores that pods hold on each node."""
    out: dict[str, int] = {}
    for item in live.world.run(live.calm.list(PODS)).items:
        pod = msgspec.json.decode(item)
        if pod["status"].get("phase") in ("Succeeded", "Failed") or not pod["spec"].get("nodeName"):
            continue
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        out[pod["spec"]["nodeName"]] = out.get(pod["spec"]["nodeName"], 0) + int(requests["cpu"])
    return out


def bound_of(live: Live, group: str, size: int) -> int:
    """Pods of a gang that have a node or have ended; -1 for those that were deleted."""
    return sum(1 for n in range(size) if live.is_there(PODS, f"{group}-{n}") and live.node_of(f"{group}-{n}"))


@pytest.mark.parametrize("seed", range(12))
def test_after_any_history_all_that_fits_is_placed_and_no_node_was_ever_too_full(seed: int) -> None:
    rng = Random(seed)

    with live_world(
        seed=seed,
        transport=lambda world: FaultyTransport(DirectTransport(world.server, "scheduler"), Random(seed), 0.2),
    ) as live:
        faults = live.wire._transport
        assert isinstance(faults, FaultyTransport)
        for number in range(4):
            live.node(f"n{number}", cpu=str(CORES))
        live.start()
        gangs: dict[str, int] = {}
        for step in range(12):
            act(live, rng, step, gangs)
            live.wait(rng.choice((0.0, 0.01, 0.5, 3.0)))
            assert all(cores <= CORES for cores in held(live).values()), f"step {step}"
        faults.rate = 0.0
        live.wait(300)
        assert all(cores <= CORES for cores in held(live).values())
        for group, size in gangs.items():
            assert bound_of(live, group, size) in (0, size), "a gang is placed whole or not at all"
        assert not live.scheduler.busy
        assert_state_is_what_objects_make(live)


def act(live: Live, rng: Random, step: int, gangs: dict[str, int]) -> None:
    """Something that users or kubelets do."""
    what = rng.choice(("gang", "gang", "pod", "end", "delete", "nothing"))
    if what == "gang":
        gangs[f"g{step}"] = size = rng.randint(1, 5)
        live.group(f"g{step}", size)
    elif what == "pod":
        live.pod(f"p{step}", cpu=str(rng.randint(1, 3)))
    elif gangs and what in ("end", "delete"):
        group = rng.choice(sorted(gangs))
        size = gangs.pop(group)
        for number in range(size):
            if what == "delete":
                live.delete(PODS, f"{group}-{number}")
            else:
                live.phase(f"{group}-{number}", "Succeeded")


def assert_state_is_what_objects_make(live: Live) -> None:
    """The state that watches and assumptions made equals one that is made of the objects now."""
    fresh = ClusterState(scheduler_names=NAMES)
    for kind in ("Node", "Queue", "PodGroup", "Pod"):
        for item in live.world.run(live.calm.list(RESOURCES[kind])).items:
            fresh.apply(Changed(read(kind, item)))
    state, assumed = live.scheduler.feed.state, live.scheduler.feed.assumed
    assert [*assumed.binds, *assumed.evictions, *assumed.nominations, *assumed.held, *assumed.phases] == []
    assert {(t.key, t.node, t.status) for t in state.tasks.values()} == {
        (t.key, t.node, t.status) for t in fresh.tasks.values()
    }
    groups = {key for key, job in fresh.jobs.items() if job.group and not job.service}
    assert {key: state.jobs[key].phase for key in groups} == {key: fresh.jobs[key].phase for key in groups}
    assert groups == {f"default/{name}" for name in names(live)}


def names(live: Live) -> set[str]:
    """Names of the pod groups that there are."""
    return {
        msgspec.json.decode(item)["metadata"]["name"] for item in live.world.run(live.calm.list(GROUPS_OF_PODS)).items
    }
