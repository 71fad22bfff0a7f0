"""The parts of the live scheduler by themselves: writes, contents of statuses, configuration, metrics, timing."""

from __future__ import annotations

import asyncio
import tracemalloc
from functools import partial
from pathlib import Path
from random import Random

import pytest

from kilauea.api.ports import ApiError
from kilauea.api.scheduling import PodGroup, PodGroupCondition, PodGroupStatus
from kilauea.engine.model import status
from kilauea.engine.plan import Condition, GroupOutcome, NodeReason, Pending
from kilauea.runtime.inputs.files import SourceError
from kilauea.runtime.scheduler.conf_reload import ConfReload
from kilauea.runtime.scheduler.debounce import LONGEST, Debounce
from kilauea.runtime.scheduler.group_status import content_of, patch_of, wanted
from kilauea.runtime.scheduler.pod_status import Room, mended_by_nodes
from kilauea.runtime.scheduler.workers import BACKLOG, LATEST, LOOK, WorkerPool, Writes
from kilauea.telemetry.metrics import SchedulerMetrics
from support.virtual_time import LoopClock, virtual_loop

NAMES = """
action_scheduling_latency_milliseconds e2e_job_scheduling_duration e2e_job_scheduling_last_time
e2e_job_scheduling_latency_milliseconds e2e_job_scheduling_start_time e2e_scheduling_latency_milliseconds
eviction_transactions job_retry_counts job_share open_session_duration_milliseconds
plugin_scheduling_latency_milliseconds pod_preemption_victims queue_allocated_memory_bytes queue_allocated_milli_cpu
queue_allocated_scalar_resources queue_capacity_memory_bytes queue_capacity_milli_cpu queue_capacity_scalar_resources
queue_deserved_memory_bytes queue_deserved_milli_cpu queue_deserved_scalar_resources queue_inqueue_memory_bytes
queue_inqueue_milli_cpu queue_inqueue_scalar_resources queue_overused queue_real_capacity_memory_bytes
queue_real_capacity_milli_cpu queue_real_capacity_scalar_resources queue_request_memory_bytes queue_request_milli_cpu
queue_request_scalar_resources queue_share queue_weight schedule_attempts scheduling_stage_duration_milliseconds
task_scheduling_latency_milliseconds total_preemption_attempts unschedule_job_count unschedule_task_count
vgpu_device_allocated_cores vgpu_device_allocated_memory vgpu_device_core_allocation_for_a_certain_pod
vgpu_device_memory_allocation_for_a_certain_pod vgpu_device_memory_limit vgpu_device_shared_number
""".split()


# --- work with bounded concurrency


def test_a_pool_runs_a_bounded_number_of_tasks_in_order() -> None:
    with virtual_loop() as loop:
        pool, now, most, order = WorkerPool(lambda: 3), [0], [0], []

        async def work(number: int) -> None:
            now[0] += 1
            most[0] = max(most[0], now[0])
            order.append(number)
            await asyncio.sleep(1)
            now[0] -= 1

        async def main() -> None:
            for number in range(10):
                pool.add(partial(work, number))
            await asyncio.sleep(100)

        loop.run_until_complete(main())
        assert (most[0], order) == (3, list(range(10)))


def test_a_pool_follows_the_room_that_it_is_told_and_loses_no_task() -> None:
    with virtual_loop() as loop:
        room, running, peaks, done = [5], [0], [], []
        pool = WorkerPool(lambda: room[0])

        async def work(number: int) -> None:
            running[0] += 1
            peaks.append(running[0])
            await asyncio.sleep(1)
            running[0] -= 1
            done.append(number)

        async def main() -> None:
            for number in range(30):
                pool.add(partial(work, number))
            for size in (5, 1, 4):
                room[0] = size
                await asyncio.sleep(2.5)
                peaks.append(running[0])
                assert running[0] == size
            await asyncio.sleep(30)

        loop.run_until_complete(main())
        assert (sorted(done), max(peaks), len(pool)) == (list(range(30)), 5, 0)


def test_while_binds_wait_statuses_are_written_one_at_a_time_and_urgent_ones_at_once() -> None:
    with virtual_loop() as loop:
        pressed, written, running, most = [True], [], [0], [0]
        writes = Writes(LoopClock(loop), Random(1), 4, lambda: pressed[0])

        async def write(name: str) -> None:
            running[0] += 1
            most[0] = max(most[0], running[0])
            await asyncio.sleep(1)
            running[0] -= 1
            written.append(name)

        async def main() -> None:
            for name in "abcdefghijklmnop":
                writes.put(name, 1, partial(write, name))
            await asyncio.sleep(2.5)
            assert written == ["a", "b"]
            for name in "gh":
                writes.put(name, 2, partial(write, name), urgent=True)
            await asyncio.sleep(1.1)
            assert (written, most[0]) == (["a", "b", "c", "g", "h"], 3)
            pressed[0] = False
            await asyncio.sleep(10)

        loop.run_until_complete(main())
        assert (sorted(written), most[0], len(writes)) == (list("abcdefghijklmnop"), 4, 0)


def test_statuses_wait_no_longer_the_more_of_them_there_are() -> None:
    with virtual_loop() as loop:
        running, most = [0], [0]
        writes = Writes(LoopClock(loop), Random(1), 4, lambda: True)

        async def write() -> None:
            running[0] += 1
            most[0] = max(most[0], running[0])
            await asyncio.sleep(1)
            running[0] -= 1

        async def main() -> None:
            for number in range(4 * BACKLOG):
                writes.put(number, 1, write)
            await asyncio.sleep(4 * BACKLOG)

        loop.run_until_complete(main())
        assert (most[0], len(writes)) == (4, 0)


def test_however_long_binds_wait_a_status_waits_for_them_a_few_seconds_only() -> None:
    with virtual_loop() as loop:
        clock = LoopClock(loop)
        writes = Writes(clock, Random(1), 4, lambda: True)
        put: dict[int, float] = {}
        late: list[float] = []

        async def write(number: int) -> None:
            late.append(loop.time() - put[number])
            await asyncio.sleep(1)

        async def main() -> None:
            for number in range(300):  # three a second, and one is written in a second
                put[number] = loop.time()
                writes.put(number, 1, partial(write, number))
                await asyncio.sleep(1 / 3)
            await asyncio.sleep(2 * LATEST)

        loop.run_until_complete(main())
        assert (len(late), len(writes)) == (300, 0)
        assert LATEST <= max(late) <= LATEST + 1


def test_a_status_whose_write_hangs_keeps_the_others_waiting_a_few_seconds_only() -> None:
    with virtual_loop() as loop:
        writes = Writes(LoopClock(loop), Random(1), 4, lambda: True)
        written: dict[str, float] = {}

        async def write(name: str) -> None:
            await asyncio.sleep(60 if name == "hangs" else 0.1)
            written[name] = loop.time()

        async def main() -> None:
            for name in ("hangs", "a", "b", "c"):
                writes.put(name, 1, partial(write, name))
            await asyncio.sleep(LATEST + LOOK + 0.5)
            assert sorted(written) == ["a", "b", "c"]
            await writes.close()

        loop.run_until_complete(main())


def test_of_several_writes_of_an_object_the_newest_is_made_and_never_two_at_a_time() -> None:
    with virtual_loop() as loop:
        writes = Writes(LoopClock(loop), Random(1), 4)
        written: list[str] = []

        async def write(content: str) -> None:
            await asyncio.sleep(1)
            written.append(content)

        async def main() -> None:
            writes.put("a", "1", lambda: write("1"))
            await asyncio.sleep(0.1)
            for content in ("1", "2", "3", "3"):
                writes.put("a", content, partial(write, content))
            await asyncio.sleep(10)

        loop.run_until_complete(main())
        assert written == ["1", "3"]
        assert len(writes) == 0


def test_a_write_that_fails_gives_way_to_a_newer_one_and_one_about_nothing_is_dropped() -> None:
    with virtual_loop() as loop:
        writes = Writes(LoopClock(loop), Random(1), 4)
        tried: list[str] = []

        async def write(content: str, code: int) -> None:
            tried.append(content)
            if code:
                raise ApiError(code, "Why", "not so")

        async def main() -> None:
            writes.put("a", "old", lambda: write("old", 500))
            writes.put("gone", "x", lambda: write("x", 404))
            await asyncio.sleep(0.01)
            writes.put("a", "new", lambda: write("new", 0))
            await asyncio.sleep(60)

        loop.run_until_complete(main())
        assert tried == ["old", "x", "new"]


def test_only_what_lasts_is_said_and_what_never_lasts_is_said_at_last() -> None:
    debounce: Debounce[int] = Debounce()
    assert debounce.stable({"a": 1, "b": 1}) == {}
    assert debounce.stable({"a": 1, "b": 2}) == {"a": 1}
    said = [debounce.stable({"b": number}) for number in range(3, 3 + LONGEST)]
    assert said[-1] == {"b": 2 + LONGEST}
    assert not any(said[:-3])


# --- statuses


def group(*conditions: PodGroupCondition, phase: str = "Inqueue") -> PodGroup:
    """A pod group with a status."""
    return PodGroup(status=PodGroupStatus(phase=phase, conditions=list(conditions) or None))


def counts(**of: int) -> list[int]:
    """Pods by number of their status."""
    return [of.get(name, 0) for name in status.NAMES]


def test_of_two_opposite_conditions_one_is_true() -> None:
    old = PodGroupCondition("Unschedulable", "True", "7", "2026-01-01T00:00:00Z", "NotEnoughResources", "no room")
    ready = GroupOutcome("Running", {}, Condition("Scheduled", "ready", ""))
    known = group(old)
    content = wanted(known, counts(Running=3), "Inqueue", ready)
    patch = patch_of(known, content, "9", "2026-02-02T00:00:00Z")["status"]
    assert (patch["phase"], patch["running"], patch["failed"]) == ("Running", 3, None)
    assert [(c["type"], c["status"], c["lastTransitionTime"]) for c in patch["conditions"]] == [
        ("Unschedulable", "False", "2026-02-02T00:00:00Z"),
        ("Scheduled", "True", "2026-02-02T00:00:00Z"),
    ]


def test_a_condition_that_stays_keeps_its_time_although_its_message_changes() -> None:
    old = PodGroupCondition("Unschedulable", "True", "7", "2026-01-01T00:00:00Z", "NotEnoughResources", "2/3")
    known = group(old)
    content = wanted(known, counts(Pending=3), "Inqueue", GroupOutcome("Inqueue", {}, Condition(*condition("1/3"))))
    (new,) = patch_of(known, content, "9", "2026-02-02T00:00:00Z")["status"]["conditions"]
    assert (new["lastTransitionTime"], new["transitionID"], new["message"]) == ("2026-01-01T00:00:00Z", "9", "1/3")
    assert content != content_of(known.status)


def condition(message: str) -> tuple[str, str, str]:
    """Type, reason and message."""
    return "Unschedulable", "NotEnoughResources", message


@pytest.mark.parametrize(
    ("code", "nodes", "room", "mended"),
    [
        ("Unschedulable", True, Room({}, {}), True),
        ("GangWaiting", True, Room({}, {}), True),
        ("ClusterOvercommitted", False, Room({}, {}), True),
        ("QueueQuotaExceeded", False, Room({}, {"cpu": 5000}), True),
        ("QueueQuotaExceeded", False, Room({"cpu": 7000}, {"cpu": 5000}), True),
        ("QueueQuotaExceeded", False, Room({"cpu": 6000}, {"cpu": 5000}), False),
        ("QueueOutOfTurn", False, Room({}, {}), True),
        ("QueueClosed", False, Room({}, {}), False),
        ("NotEnoughTasks", False, Room({}, {}), False),
        ("Nominated", False, Room({}, {}), False),
    ],
)
def test_more_nodes_mend_what_a_growing_cluster_would(code: str, nodes: bool, room: Room, mended: bool) -> None:
    reasons = (NodeReason("Insufficient cpu", 3, "n1"),) if nodes else ()
    pending = Pending("ns/p", "ns/g", code, "", "q", "cpu", 2000, 0, reasons)
    assert mended_by_nodes(pending, [room]) is mended


# --- configuration


def test_a_file_that_cannot_be_used_at_the_start_leaves_the_built_in_configuration(tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_text("actions: enqueu\n")
    conf = ConfReload(str(path))
    assert "enqueu" in conf.first.fault
    assert conf.conf.actions == ConfReload(None).conf.actions
    with pytest.raises(SourceError, match="enqueu"):
        ConfReload(str(path), strict=True)


def test_a_file_is_read_again_only_when_it_is_another(tmp_path: Path) -> None:
    path, link = tmp_path / "one.yaml", tmp_path / "conf.yaml"
    path.write_text("actions: enqueue, allocate\n")
    link.symlink_to(path)
    conf = ConfReload(str(link))
    assert conf.look() is None
    other = tmp_path / "two.yaml"
    other.write_text("actions: allocate, backfill\n")
    link.unlink()
    link.symlink_to(other)
    reading = conf.look()
    assert reading is not None
    assert (reading.fault, conf.conf.actions) == ("", ("allocate", "backfill"))
    link.unlink()
    reading = conf.look()
    assert reading is not None
    assert "No such file" in reading.fault
    assert conf.conf.actions == ("allocate", "backfill")


# --- metrics


def test_metrics_are_named_as_the_original_names_them() -> None:
    names = {family.name for family in SchedulerMetrics().registry.collect()}
    assert {name.removeprefix("volcano_") for name in names if name.startswith("volcano_")} == set(NAMES)


def test_figures_of_a_queue_go_with_what_they_are_about() -> None:
    metrics = SchedulerMetrics()
    sample = metrics.registry.get_sample_value
    metrics.queue("q", {"allocated": {"cpu": 2000, "nvidia.com/gpu": 1000}}, 3)
    metrics.queue_share("q", 0.5, overused=True)
    gpu = {"queue_name": "q", "resource": "nvidia.com/gpu"}
    assert sample("volcano_queue_allocated_milli_cpu", {"queue_name": "q"}) == 2000
    assert sample("volcano_queue_allocated_scalar_resources", gpu) == 1000
    metrics.queue("q", {"allocated": {"cpu": 1000}}, 3)
    assert sample("volcano_queue_allocated_scalar_resources", gpu) == 0
    metrics.forget_queues([])
    assert sample("volcano_queue_allocated_milli_cpu", {"queue_name": "q"}) is None
    assert sample("volcano_queue_share", {"queue_name": "q"}) is None


def test_figures_of_a_job_go_with_the_job() -> None:
    metrics = SchedulerMetrics()
    metrics.placed("ns/j", "q", 1_000_000, 3_000_000)
    labels = {"job_name": "j", "queue": "q", "job_namespace": "ns"}
    assert metrics.registry.get_sample_value("volcano_e2e_job_scheduling_duration", labels) == 2000
    metrics.forget_jobs({"ns/other"})
    assert metrics.registry.get_sample_value("volcano_e2e_job_scheduling_duration", labels) is None


def test_a_job_that_moves_to_another_queue_has_one_series() -> None:
    metrics = SchedulerMetrics()
    for queue in ("q", "other"):
        metrics.placed("ns/j", queue, 1_000_000, 3_000_000)
    assert series_of(metrics, "volcano_e2e_job_scheduling_duration") == [
        {"job_name": "j", "queue": "other", "job_namespace": "ns"}
    ]


def test_names_of_waiting_jobs_stay_as_long_as_a_job_has_them() -> None:
    metrics, count = SchedulerMetrics(), "volcano_job_retry_counts"
    metrics.unscheduled({"a/j": 2, "b/j": 3})
    assert metrics.registry.get_sample_value("volcano_unschedule_task_count", {"job_id": "j"}) == 5
    assert metrics.registry.get_sample_value(count, {"job_id": "j"}) == 2
    metrics.forget_jobs({"b/j"})
    assert series_of(metrics, count) == [{"job_id": "j"}]
    metrics.unscheduled({})
    metrics.forget_jobs(())
    assert series_of(metrics, count) == series_of(metrics, "volcano_unschedule_task_count") == []


def test_series_of_jobs_and_queues_take_little_memory() -> None:
    metrics = SchedulerMetrics()
    amounts = {"cpu": 1000.0, "memory": 1000.0, "nvidia.com/gpu": 1000.0}
    jobs, queues = {f"ns/job-{number}": 1 for number in range(1000)}, [f"queue-{number}" for number in range(100)]
    tracemalloc.start()
    try:
        metrics.unscheduled(jobs)
        of_jobs = tracemalloc.get_traced_memory()[0]
        for queue in queues:
            metrics.queue(queue, {"allocated": amounts, "deserved": amounts}, 1)
        of_queues = tracemalloc.get_traced_memory()[0] - of_jobs
    finally:
        tracemalloc.stop()
    assert of_jobs / len(jobs) < 400  # bytes; with gauges of the library it was 1500
    assert of_queues / len(queues) < 3000


def test_a_tally_counts_as_a_histogram_does() -> None:
    metrics, name = SchedulerMetrics(), "volcano_scheduling_stage_duration_milliseconds"
    for time in (50, 100, 150, 600_000):
        metrics.chose(0, time)
    sample = metrics.registry.get_sample_value
    first = {"stage": "Scoring", "le": "0.1"}
    assert sample(f"{name}_bucket", first) == 2
    assert sample(f"{name}_bucket", {"stage": "Scoring", "le": "+Inf"}) == sample(f"{name}_count", {"stage": "Scoring"})
    assert sample(f"{name}_sum", {"stage": "Scoring"}) == pytest.approx(600.3)


def series_of(metrics: SchedulerMetrics, name: str) -> list[dict[str, str]]:
    """Labels of the series of a metric."""
    return [s.labels for family in metrics.registry.collect() for s in family.samples if s.name == name]
