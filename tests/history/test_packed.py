"""Records of pods come out as they went in, and what pods have in common is kept once."""

from __future__ import annotations

import tracemalloc
from random import Random

import msgspec

from kilauea.api.shared import shared
from kilauea.history.packed import PackedPods
from kilauea.history.records import PENDING, RUNNING, PodRecord


def record(number: int, **changes: object) -> PodRecord:
    """A pod of a job of ten."""
    made = PodRecord(
        uid=f"00000000-0000-4000-8000-{number:012}",
        namespace="default",
        name=f"pod-{number}",
        job=f"00000000-0000-4000-9000-{number // 10:012}",
        queue="research",
        task="worker",
        resources={"cpu": 1000, "memory": 1 << 30},
        submitted=1_700_000_000_000_000 + number,
        run_time=60_000_000,
    )
    return msgspec.structs.replace(made, **changes)


def test_records_come_out_as_they_went_in_whatever_came_and_went_between() -> None:
    rng, packed, known = Random(1), PackedPods({}), dict[str, PodRecord]()
    for _ in range(3000):
        one = record(rng.randrange(200))
        match rng.randrange(4):
            case 0 if one.uid in known:
                del packed[one.uid], known[one.uid]
            case 1:
                state = rng.choice([PENDING, RUNNING])
                changes = {"state": state, "node": f"node-{rng.randrange(3)}", "bound": rng.choice([None, 5])}
                packed[one.uid] = known[one.uid] = msgspec.structs.replace(one, **changes)
            case _:
                packed[one.uid] = known[one.uid] = one
    assert list(packed.items()) == list(known.items())
    for uid in list(known):
        del packed[uid]
    assert len(packed) == 0
    assert record(1).uid not in packed


def test_a_mapping_is_made_from_records() -> None:
    records = {each.uid: each for each in map(record, range(5))}
    assert dict(PackedPods(records)) == records


def test_a_running_pod_takes_little_memory() -> None:
    count = 5000
    uids = [shared(record(number).uid) for number in range(count)]  # as a scheduler has done
    tracemalloc.start()
    try:
        packed = PackedPods({})
        for number, uid in enumerate(uids):
            packed[uid] = record(number)
        for number, uid in enumerate(uids):
            started = {"bound": 1_700_000_001_000_000, "started": 1_700_000_002_000_000, "node": "node-17"}
            packed[uid] = record(number, state=RUNNING, **started)
        bytes_each = tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()
    assert bytes_each < 200  # 140, and 260 with all fields of each
