"""Queues with `dequeueStrategy: fifo`: a job that cannot start blocks those behind it, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.api.times import SECOND
from kilauea.engine.placement.admission_backoff import FRUITLESS
from support.builders import (
    Objects,
    binds,
    codes,
    conf,
    flat,
    gang,
    group,
    node,
    parsed,
    pending,
    phases,
    plan_of,
    pod,
    priority_class,
    queue,
)
from support.life import Life, asking

MINUTE = FRUITLESS // SECOND
HOPELESS: dict[str, Any] = {"nodeSelector": {"no": "such"}}
ALLOCATE = conf("enqueue, allocate, backfill", ["priority", "gang"], ["predicates", "capacity"])
EVICTING = conf("enqueue, allocate, preempt, reclaim, backfill", ["priority", "gang"], ["predicates", "capacity"])


def ranked(name: str, size: int, priority: int, minimum: int = 0, **more: Any) -> list[Objects]:
    """A gang with a priority of its own."""
    of_group = {key: more.pop(key) for key in ("queue", "phase", "created") if key in more}
    pods = [pod(f"{name}-w-{i}", name, priority=priority, **more) for i in range(size)]
    made = group(name, minimum=minimum or size, priority=name, **of_group)
    return [priority_class(name, priority), made, *pods]


def fifo(**spec: Any) -> Object:
    return queue("q", dequeueStrategy="fifo", **spec)


def head(**more: Any) -> list[Object]:
    """The oldest gang, which needs more than there is."""
    return gang("head", 3, **{"cpu": 2, "created": 0, **more})


def later(name: str = "later", created: int = 1, **more: Any) -> list[Object]:
    """A gang that fits."""
    return gang(name, 1, created=created, **{"cpu": 1, **more})


def test_a_job_that_cannot_be_placed_blocks_those_behind_it_and_the_reason_names_it() -> None:
    plan = plan_of(node("n1"), fifo(), head(), later(), later("last", 2), conf=ALLOCATE)
    assert binds(plan) == {}
    why = pending(plan)["later-w-0"]
    assert (why.code, why.queue) == ("QueueBlocked", "q")
    expected = "ns/head is before it and cannot start: queue q starts its jobs in order (dequeueStrategy: fifo)"
    assert why.message == expected == pending(plan)["last-w-0"].message
    assert "QueueBlocked" not in codes(plan)["head-w-0"]
    assert plan.findings == ()


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([queue("q"), head(), later()], id="traverse is the default"),
        pytest.param([queue("q", dequeueStrategy="traverse"), head(), later()], id="traverse"),
        pytest.param([fifo(), head(queue="r"), queue("r"), later()], id="a job of another queue"),
        pytest.param([fifo(), head(created=2), later()], id="a job behind it"),
        pytest.param([fifo(), gang("head", 2, 3, created=0), later()], id="a gang with too few pods"),
        pytest.param(
            [fifo(), gang("head", 3, created=0, schedulingGates=[{"name": "x/y"}]), later()], id="a gang with gates"
        ),
        pytest.param(
            [fifo(), gang("head", 3, cpu=1, created=0, phase="Running", node="n2"), node("n2"), later()],
            id="a job that runs",
        ),
    ],
)
def test_nothing_else_blocks(others: list[Objects]) -> None:
    assert "later-w-0" in binds(plan_of(node("n1"), others, conf=ALLOCATE))


def test_a_job_whose_surplus_has_no_room_does_not_block() -> None:
    plan = plan_of(node("n1"), fifo(), gang("head", 3, 1, cpu=3, created=0), later(), conf=ALLOCATE)
    assert binds(plan) == {"head-w-0": "n1", "later-w-0": "n1"}


def test_jobs_that_fit_start_in_one_cycle() -> None:
    plan = plan_of(node("n1"), fifo(), *(later(f"g{i}", i) for i in range(4)), conf=ALLOCATE)
    assert set(binds(plan)) == {f"g{i}-w-0" for i in range(4)}


def test_priority_comes_before_age() -> None:
    urgent = ranked("urgent", 3, 100, cpu=2, created=5)
    plan = plan_of(node("n1"), fifo(), urgent, later(), conf=ALLOCATE)
    assert codes(plan)["later-w-0"] == "QueueBlocked"


def test_without_the_gang_plugin_a_job_below_its_minimum_blocks_too() -> None:
    plan = plan_of(node("n1"), fifo(), head(cpu=3), later(), conf=conf("allocate", ["priority"], ["predicates"]))
    assert set(binds(plan)) == {"head-w-0"}
    assert codes(plan)["later-w-0"] == "QueueBlocked"


def test_a_job_that_is_not_admitted_blocks_the_admission_of_those_behind_it() -> None:
    limited = fifo(capability={"cpu": "4"})
    plan = plan_of(node("n1", cpu=64), limited, asking("head", 5), asking("later", 1, created=1), conf=ALLOCATE)
    assert phases(plan) == {"head": "Pending", "later": "Pending"}
    assert codes(plan) == {"head-0": "QueueQuotaInsufficient", "later-0": "QueueBlocked"}
    free = queue("q", capability={"cpu": "4"})
    assert binds(plan_of(node("n1"), free, asking("head", 5), asking("later", 1, created=1), conf=ALLOCATE)) == {
        "later-0": "n1"
    }


def running(name: str, priority: int, queue: str = "q") -> list[Objects]:
    """A job of four pods that fill a node."""
    return ranked(name, 4, priority, 1, queue=queue, phase="Running", cpu=1, node="n1")


@pytest.mark.parametrize("strategy", ["fifo", "traverse"])
def test_a_job_behind_one_that_cannot_start_evicts_nothing(strategy: str) -> None:
    made = queue("q", dequeueStrategy=strategy)
    objects: list[Objects] = [node("n1"), made, running("low", 1), ranked("head", 9, 50, cpu=1, created=0)]
    plan = plan_of(objects, ranked("later", 1, 10, cpu=1, created=1), conf=EVICTING)
    assert len(plan.evictions) == (0 if strategy == "fifo" else 1)


@pytest.mark.parametrize("strategy", ["fifo", "traverse"])
def test_a_job_behind_one_that_cannot_start_reclaims_nothing(strategy: str) -> None:
    made = queue("q", dequeueStrategy=strategy, deserved={"cpu": "4"})
    lent = queue("other", deserved={"cpu": "0"})
    objects: list[Objects] = [node("n1"), made, lent, running("low", 1, "other"), gang("head", 9, cpu=1, created=0)]
    plan = plan_of(objects, gang("later", 1, cpu=1, created=1), conf=EVICTING)
    assert len(plan.evictions) == (0 if strategy == "fifo" else 1)


def test_jobs_that_need_evictions_get_them_one_after_another() -> None:
    objects: list[Objects] = [node("n1"), fifo(), running("low", 1), ranked("head", 1, 50, cpu=1, created=0)]
    life = Life(*flat(objects), *flat(ranked("later", 1, 10, cpu=1, created=1)), conf=parsed(EVICTING)[0])
    assert [each.by for each in life.run(1).plan.evictions] == ["ns/head"]
    assert life.run(4).placed() >= {"head-w-0", "later-w-0"}


def blocked_life(*more: Objects, cpu: int = 4) -> Life:
    """An admitted job without a node for it, and one behind it that would fit."""
    made = fifo(capability={"cpu": str(cpu)})
    return Life(made, node("n1"), asking("head", 3, **HOPELESS), asking("later", 1, created=1), *flat(more))


def test_those_behind_start_when_the_first_one_is_gone() -> None:
    life = blocked_life().run(5)
    assert life.placed() == set()
    life.delete("head-0")
    assert life.run(1).placed() == {"later-0"}


def test_they_start_when_the_first_one_has_started() -> None:
    life = blocked_life().run(5)
    life.apply(node("n2", labels={"no": "such"}))
    assert life.run(1).placed() == {"head-0", "later-0"}


def test_they_still_wait_after_the_first_one_has_released_its_admission() -> None:
    """Another group waits for the quota, so both of them lose their admission after a minute."""
    life = blocked_life(asking("third", 2, created=2)).run(20 * MINUTE)
    assert life.placed() == set()
    life.apply(node("n2", labels={"no": "such"}))
    life.run(2 * MINUTE)
    assert life.placed() >= {"head-0", "later-0"}


def test_a_blocked_queue_holds_no_quota_that_other_queues_wait_for() -> None:
    tree = conf(
        "enqueue, allocate", ["priority", "gang"], ["predicates", {"name": "capacity", "enableHierarchy": True}]
    )
    above = [queue("root"), queue("p", capability={"cpu": "4"}, parent="root")]
    made = queue("q", dequeueStrategy="fifo", parent="p")
    beside = queue("r", parent="p")
    blocked = [*asking("head", 3, **HOPELESS), *asking("later", 1, created=1)]
    life = Life(above, made, beside, node("n1"), blocked, asking("other", 4, to="r", created=2), conf=parsed(tree)[0])
    life.run(2 * MINUTE + 5)
    assert life.placed() == {"other-0"}


def test_the_admission_of_a_blocked_queue_does_not_flap() -> None:
    life = blocked_life(asking("third", 2, created=2))
    changes, before = 0, ""
    for _ in range(10 * MINUTE):
        now = life.run(1).phase("later")
        changes, before = changes + (now != before), now
    assert changes < 15


@pytest.mark.slow
@settings(max_examples=60)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5), st.booleans()), min_size=2, max_size=7),
    limit=st.integers(2, 16),
    gone=st.lists(st.integers(0, 6), max_size=3),
)
def test_no_job_starts_before_one_that_is_before_it(
    sizes: list[tuple[int, int, bool]], limit: int, gone: list[int]
) -> None:
    """Whatever is deleted meanwhile, and although admissions are released."""
    jobs = [
        [
            group(
                f"g{i}", minimum=pods, resources={"cpu": str(pods * cpu)} if reserves else None, created=i, phase=None
            ),
            *(pod(f"g{i}-{n}", f"g{i}", cpu=cpu, created=i) for n in range(pods)),
        ]
        for i, (pods, cpu, reserves) in enumerate(sizes)
    ]
    life = Life(
        fifo(capability={"cpu": str(limit)}), queue("r"), node("n1"), node("n2"), asking("s", 9, to="r"), flat(jobs)
    )
    left = {i: pods for i, (pods, _, _) in enumerate(sizes)}
    started: set[int] = set()
    for second in range(3 * MINUTE):
        life.run(1)
        now = {int(bind.pod.removeprefix("ns/g").partition("-")[0]) for bind in life.plan.binds if "/g" in bind.pod}
        started |= now
        waiting = {i for i in left if i not in started}
        assert not now or not waiting or max(now) < min(waiting), (now, waiting)
        if gone and second % 45 == 40 and (first := gone.pop()) in left:
            life.delete(*(f"g{first}-{n}" for n in range(left.pop(first))))
