"""Parts of cards at a live scheduler: the record is written with the bind, and a restarted scheduler reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kilauea.api.kinds import CONFIG_MAPS
from kilauea.api.ports import ApiError
from kilauea.runtime.inputs.resources import GROUPS_OF_PODS, PODS
from support.live_world import NODES, Live, live_world

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true, deviceshare.SchedulePolicy: binpack}
"""
RECORD = "volcano.sh/vgpu-ids-new"
OFFER = {"volcano.sh/vgpu-number": "20", "volcano.sh/vgpu-memory": "200", "volcano.sh/vgpu-cores": "200"}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A cluster with a node of two cards."""
    path = tmp_path / "cards.conf"
    path.write_text(CONF)
    with live_world(str(path)) as made:
        text = "".join(f"card-{i},10,100,NVIDIA-A,true,hami-core:" for i in range(2))
        made.node("n1", metadata={"annotations": {"volcano.sh/node-vgpu-register": text}})
        made.patch(NODES, "n1", {"status": {"capacity": OFFER, "allocatable": OFFER}}, "status")
        made.start()
        yield made


def ask(live: Live, name: str, memory: int) -> None:
    """A pod with a part of a card, and its group."""
    asked = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(memory), "volcano.sh/vgpu-cores": "1"}
    live.create(GROUPS_OF_PODS, name, spec={"minMember": 1, "queue": "default"})
    resources = {"requests": {"cpu": "1", **asked}, "limits": asked}
    live.pod(name, group=name, containers=[{"name": "main", "image": "busybox", "resources": resources}])


def record(live: Live, name: str) -> str | None:
    annotations: dict[str, str] = live.get(PODS, name)["metadata"]["annotations"]
    return annotations.get(RECORD)


def test_the_record_is_written_in_the_request_that_binds(live: Live) -> None:
    ask(live, "p", 60)
    live.wait(3)
    assert (live.node_of("p"), record(live, "p")) == ("n1", "card-0,NVIDIA,60,1:")
    assert (live.wire.count("POST", "/p/binding"), live.wire.count("PATCH", "/pods/p")) == (1, 0)


def test_pods_of_later_cycles_get_other_cards_also_while_a_bind_is_not_answered(live: Live) -> None:
    ask(live, "p", 60)
    live.wait(3)
    ask(live, "q", 60)
    ask(live, "r", 40)
    live.wait(3)
    assert record(live, "q") == "card-1,NVIDIA,60,1:"
    assert (record(live, "r") or "").endswith(",NVIDIA,40,1:")


def test_a_restarted_scheduler_knows_the_cards_that_were_given(live: Live) -> None:
    ask(live, "p", 60)
    ask(live, "q", 60)
    live.wait(3)
    live.stop()
    live.restart()
    live.start()
    ask(live, "r", 60)
    ask(live, "s", 40)
    live.wait(3)
    assert {record(live, name) for name in "pq"} == {"card-0,NVIDIA,60,1:", "card-1,NVIDIA,60,1:"}
    assert (live.node_of("r"), record(live, "r")) == ("", None)
    assert live.node_of("s") == "n1"


def test_a_bind_that_fails_leaves_no_record_and_gives_the_card_back(live: Live) -> None:
    async def refuse(method: str, target: str) -> None:
        if target.endswith("/p/binding"):
            raise ApiError(403, "Forbidden", "a webhook says no")

    live.wire.before = refuse
    ask(live, "p", 100)
    live.wait(3)
    assert (live.node_of("p"), record(live, "p")) == ("", None)
    ask(live, "q", 100)
    ask(live, "r", 100)
    live.wait(3)
    assert {live.node_of("q"), live.node_of("r")} == {"n1"}


# --- locks of nodes, and the ConfigMap

LOCKING = CONF.replace("deviceshare.VGPUEnable: true", "deviceshare.VGPUEnable: true, deviceshare.NodeLockEnable: true")
LOCK = "hamivgpu"


@pytest.fixture
def locking(tmp_path: Path) -> Iterator[Live]:
    """A cluster with a node of two cards, and locks of nodes."""
    path = tmp_path / "locks.conf"
    path.write_text(LOCKING)
    with live_world(str(path)) as made:
        text = "".join(f"card-{i},10,100,NVIDIA-A,true,hami-core:" for i in range(2))
        made.node("n1", metadata={"annotations": {"volcano.sh/node-vgpu-register": text}})
        made.patch(NODES, "n1", {"status": {"capacity": OFFER, "allocatable": OFFER}}, "status")
        yield made


def lock(live: Live) -> str | None:
    annotations: dict[str, str] = live.get(NODES, "n1")["metadata"]["annotations"]
    return annotations.get(LOCK)


def set_lock(live: Live, value: str | None) -> None:
    live.patch(NODES, "n1", {"metadata": {"annotations": {LOCK: value}}})


def test_a_bind_locks_its_node_and_the_next_waits_until_the_device_plugin_releases_it(locking: Live) -> None:
    locking.start()
    for name in "pq":
        ask(locking, name, 60)
    locking.wait(5)
    bound = [name for name in "pq" if locking.node_of(name)]
    assert len(bound) == 1
    assert lock(locking) is not None
    set_lock(locking, None)
    locking.wait(5)
    assert [locking.node_of(name) for name in "pq"] == ["n1", "n1"]
    assert {record(locking, name) for name in "pq"} == {"card-0,NVIDIA,60,1:", "card-1,NVIDIA,60,1:"}


@pytest.mark.slow
def test_a_lock_that_a_device_plugin_has_left_behind_ends_after_five_minutes(locking: Live) -> None:
    locking.start()
    for name in "pq":
        ask(locking, name, 60)
    locking.wait(280)
    assert len([name for name in "pq" if locking.node_of(name)]) == 1
    locking.wait(120)
    assert [locking.node_of(name) for name in "pq"] == ["n1", "n1"]


def test_a_bind_that_fails_releases_the_lock(locking: Live) -> None:
    async def refuse(method: str, target: str) -> None:
        if target.endswith("/p/binding"):
            raise ApiError(403, "Forbidden", "a webhook says no")

    locking.wire.before = refuse
    locking.start()
    ask(locking, "p", 100)
    locking.wait(3)
    assert (locking.node_of("p"), lock(locking)) == ("", None)


def test_the_config_map_is_read_when_the_scheduler_starts_and_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "cards.conf"
    where = "deviceshare.VGPUEnable: true, deviceshare.KnownGeometriesCMNamespace: default"
    path.write_text(CONF.replace("deviceshare.VGPUEnable: true", where))
    with live_world(str(path)) as live:
        text = "".join(f"card-{i},10,100,NVIDIA-A,true,hami-core:" for i in range(2))
        live.node("n1", metadata={"annotations": {"volcano.sh/node-vgpu-register": text}})
        live.patch(NODES, "n1", {"status": {"capacity": OFFER, "allocatable": OFFER}}, "status")
        data = {"device-config.yaml": "nvidia: {gpuMemoryFactor: 2}"}
        name = "volcano-vgpu-device-config"
        live.create(CONFIG_MAPS, name, data=data)
        live.start()
        ask(live, "p", 20)
        live.wait(3)
        assert (record(live, "p") or "").endswith(",NVIDIA,40,1:")
        changed = {"data": {"device-config.yaml": "nvidia: {gpuMemoryFactor: 3}"}}
        live.patch(CONFIG_MAPS, name, changed)
        live.wait(40)
        ask(live, "q", 20)
        live.wait(3)
        assert (record(live, "q") or "").endswith(",NVIDIA,60,1:")


def test_metrics_say_what_pods_have_of_each_card(live: Live) -> None:
    ask(live, "p", 60)
    ask(live, "q", 30)
    live.wait(5)
    ask(live, "r", 100)
    live.wait(5)
    samples = {
        (sample.name, sample.labels["devID"], sample.labels.get("podName", "")): sample.value
        for family in live.metrics.registry.collect()
        for sample in family.samples
        if sample.name.startswith("volcano_vgpu_device_")
    }
    prefix = "volcano_vgpu_device_"
    assert {key: value for key, value in samples.items() if key[1] == "card-0"} == {
        (f"{prefix}shared_number", "card-0", ""): 2,
        (f"{prefix}allocated_memory", "card-0", ""): 90,
        (f"{prefix}allocated_cores", "card-0", ""): 2,
        (f"{prefix}memory_limit", "card-0", ""): 100,
        (f"{prefix}memory_allocation_for_a_certain_pod", "card-0", "p"): 60,
        (f"{prefix}core_allocation_for_a_certain_pod", "card-0", "p"): 1,
        (f"{prefix}memory_allocation_for_a_certain_pod", "card-0", "q"): 30,
        (f"{prefix}core_allocation_for_a_certain_pod", "card-0", "q"): 1,
    }
    assert samples[f"{prefix}allocated_memory", "card-1", ""] == 100
