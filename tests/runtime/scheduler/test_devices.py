"""Parts of cards at a live scheduler: the record is written with the bind, and a restarted scheduler reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
