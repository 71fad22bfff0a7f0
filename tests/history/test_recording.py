"""From changes of objects to records."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kilauea.api.ports import Seen
from kilauea.history.changes import NO_CHANGES, Changes, Evicted
from kilauea.history.recording import Kept, Recording
from kilauea.history.records import Event, JobRecord, PodRecord, Record
from kilauea.history.store import History

SECOND = 1_000_000
T0 = 1_767_225_600 * SECOND  # 2026-01-01T00:00:00Z


def at(seconds: int) -> str:
    return f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"


def job(phase: str = "", when: int = 0, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    template = {"spec": {"containers": [container], "activeDeadlineSeconds": 60}}
    status = {"state": {"phase": phase, "lastTransitionTime": at(when)}} if phase else {}
    return {
        "metadata": {
            "name": "train",
            "namespace": "research",
            "uid": "job-1",
            "creationTimestamp": at(0),
            "annotations": {"kilauea.dev/user": "ada"},
        },
        "spec": {
            "queue": "gpu",
            "minAvailable": 2,
            "runningEstimate": "5m",
            "tasks": [{"replicas": 3, "template": template}],
            **spec,
        },
        "status": status,
    }


def group(phase: str = "Pending", message: str = "") -> dict[str, Any]:
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": message}
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": "job-1",
        "controller": True,
    }
    return {
        "metadata": {"name": "train-g", "namespace": "research", "uid": "group-1", "ownerReferences": [owner]},
        "spec": {"queue": "gpu", "minMember": 2},
        "status": {"phase": phase, "conditions": [condition] if message else []},
    }


def pod(
    number: int = 0, bound: int | None = None, started: int | None = None, ended: int | None = None, code: int = 0
) -> dict[str, Any]:
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": "job-1",
        "controller": True,
    }
    state: dict[str, Any] = {}
    phase = "Pending"
    if started is not None:
        state, phase = {"running": {"startedAt": at(started)}}, "Running"
    if ended is not None:
        end = {"startedAt": at(started or 0), "finishedAt": at(ended), "exitCode": code}
        state, phase = {"terminated": end}, "Failed" if code else "Succeeded"
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound or 0)}
    return {
        "metadata": {
            "name": f"train-w-{number}",
            "namespace": "research",
            "uid": f"pod-{number}",
            "creationTimestamp": at(1),
            "annotations": {"scheduling.k8s.io/group-name": "train-g", "volcano.sh/task-spec": "w"},
            "ownerReferences": [owner],
        },
        "spec": {
            **({"nodeName": "n1"} if bound is not None else {}),
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
        },
        "status": {
            "phase": phase,
            "conditions": [scheduled] if bound is not None else [],
            "containerStatuses": [{"restartCount": 0, "state": state}] if state else [],
        },
    }


def listed(*objects: dict[str, Any]) -> Changes:
    return Changes([json.dumps(each).encode() for each in objects], ())


def seen(*objects: dict[str, Any], kind: Any = "MODIFIED") -> Changes:
    return Changes(None, [Seen(kind, json.dumps(each).encode(), "1") for each in objects])


class Memory(Kept):
    """Records that were kept before."""

    def __init__(self, records: list[Record]) -> None:
        self.jobs = {each.uid: each for each in records if isinstance(each, JobRecord)}
        self.pods = {each.uid: each for each in records if isinstance(each, PodRecord)}
        self.reasons = {
            e.job: f"{e.reason}: {e.message}" for e in records if isinstance(e, Event) and e.what == "Waiting"
        }

    def job(self, uid: str) -> JobRecord | None:
        return self.jobs.get(uid)

    def pod(self, uid: str) -> PodRecord | None:
        return self.pods.get(uid)

    def last_reason(self, job: str) -> str:
        return self.reasons.get(job, "")


def events(records: list[Record]) -> list[tuple[str, str]]:
    return [(each.what, each.pod or each.message) for each in records if isinstance(each, Event)]


def pods(records: list[Record]) -> list[PodRecord]:
    return [each for each in records if isinstance(each, PodRecord)]


def test_a_job_is_recorded_with_what_it_asks_for_and_declares() -> None:
    recording = Recording()
    (found,) = recording.take(seen(job(), kind="ADDED"), NO_CHANGES, NO_CHANGES, (), T0)
    assert found == JobRecord(
        uid="job-1",
        namespace="research",
        name="train",
        kind="Job.batch.volcano.sh",
        queue="gpu",
        user="ada",
        submitted=T0,
        pods=3,
        minimum=2,
        cpus=1500,
        run_time=300 * SECOND,
        limit=60,
    )


def test_the_life_of_a_pod_has_the_times_of_its_objects() -> None:
    recording = Recording()
    recording.take(seen(job()), seen(group()), seen(pod(), kind="ADDED"), (), T0 + SECOND)
    recording.take(NO_CHANGES, NO_CHANGES, seen(pod(bound=4), pod(bound=4, started=6)), (), T0 + 7 * SECOND)
    (found,) = pods(
        recording.take(NO_CHANGES, NO_CHANGES, seen(pod(bound=4, started=6, ended=20)), (), T0 + 30 * SECOND)
    )
    assert found == PodRecord(
        uid="pod-0",
        namespace="research",
        name="train-w-0",
        job="job-1",
        queue="gpu",
        task="w",
        resources={"cpu": 500, "memory": 1 << 30},
        submitted=T0 + SECOND,
        bound=T0 + 4 * SECOND,
        started=T0 + 6 * SECOND,
        ended=T0 + 20 * SECOND,
        node="n1",
        state="Succeeded",
    )


def test_a_change_that_is_seen_again_makes_no_records() -> None:
    recording = Recording()
    everything = (listed(job("Running", 4)), listed(group("Running")), listed(pod(bound=4, started=6)))
    assert recording.take(*everything, (), T0)
    assert recording.take(*everything, (), T0 + SECOND) == []


def test_a_restart_continues_without_telling_anything_twice() -> None:
    before = Recording()
    first = before.take(
        listed(job("Pending", 1)), listed(group(message="no room")), listed(pod(0, 4, 6), pod(1, 4, 6, 9)), (), T0
    )
    after = Recording(Memory(first), T0, dict(before.jobs), dict(before.pods))
    again = (listed(job("Pending", 1)), listed(group(message="no room")), listed(pod(0, 4, 6), pod(1, 4, 6, 9)))
    assert after.take(*again, (), T0 + 100 * SECOND) == []


def test_a_pod_that_went_while_nothing_was_recorded_ends_when_it_was_last_seen() -> None:
    before = Recording()
    first = before.take(listed(job()), listed(group()), listed(pod(0, 4, 6)), (), T0 + 10 * SECOND)
    after = Recording(Memory(first), T0 + 10 * SECOND, dict(before.jobs), dict(before.pods))
    (found,) = pods(after.take(listed(job()), listed(group()), listed(), (), T0 + 999 * SECOND))
    assert (found.state, found.ended) == ("Lost", T0 + 10 * SECOND)


def test_a_job_that_was_deleted_while_nothing_was_recorded_was_there_when_it_was_last_seen(tmp_path: Path) -> None:
    history = History.open(tmp_path)
    history.put(Recording().take(listed(job("Completed", 9)), listed(), listed(), (), T0 + 10 * SECOND))
    known = {each.uid: each for each in history.open_jobs()}
    after = Recording(Memory([*known.values()]), T0 + 10 * SECOND, known)
    (found,) = after.take(listed(), listed(), listed(), (), T0 + 999 * SECOND)
    assert isinstance(found, JobRecord)
    assert (found.state, found.deleted) == ("Completed", T0 + 10 * SECOND)


def test_a_pod_that_is_seen_before_its_group_is_held_until_then() -> None:
    recording = Recording()
    assert pods(recording.take(NO_CHANGES, NO_CHANGES, seen(pod(bound=4)), (), T0)) == []
    assert recording.holds
    (found,) = pods(recording.take(NO_CHANGES, seen(group()), seen(pod(bound=4, started=5)), (), T0))
    assert (found.queue, found.job, found.started) == ("gpu", "job-1", T0 + 5 * SECOND)
    assert not recording.holds


def test_a_pod_whose_group_never_comes_is_recorded_all_the_same() -> None:
    recording = Recording()
    told = []
    for number in range(5):
        changes = seen(pod(bound=4)) if number == 0 else NO_CHANGES
        told.append(len(pods(recording.take(NO_CHANGES, NO_CHANGES, changes, (), T0))))
    assert told == [0, 0, 0, 1, 0]


@pytest.mark.parametrize(("failed_before", "state"), [(False, "Deleted"), (True, "Failed")])
def test_a_pod_that_its_node_has_stopped_to_remove_it_has_not_failed(failed_before: bool, state: str) -> None:
    recording = Recording()
    first = pod(0, 4, 4, 8, 3) if failed_before else pod(0, 4, 4)
    told = recording.take(seen(job()), seen(group("Running")), seen(first), (), T0 + 8 * SECOND)
    stopped = pod(0, 4, 4, 9, 143)
    stopped["metadata"]["deletionTimestamp"] = at(39)
    told += recording.take(NO_CHANGES, NO_CHANGES, seen(stopped), (), T0 + 9 * SECOND)
    told += recording.take(NO_CHANGES, NO_CHANGES, seen(stopped, kind="DELETED"), (), T0 + 9 * SECOND)
    assert pods(told)[-1].state == state


def test_pods_that_are_seen_after_their_group_was_deleted_belong_to_it_all_the_same() -> None:
    recording = Recording()
    group_alone, member = group("Running"), pod(bound=4, started=4, ended=5)
    del group_alone["metadata"]["ownerReferences"], member["metadata"]["ownerReferences"]
    deletion = seen(group_alone, kind="DELETED")
    records = recording.take(NO_CHANGES, deletion, seen(member), (), T0 + 6 * SECOND)
    (found,) = pods(records)
    assert (found.queue, found.job) == ("gpu", "group-1")
    assert ("Admitted", "") in events(records)
    (made,) = [each for each in records if isinstance(each, JobRecord)]
    assert (made.pods, made.ended, made.deleted) == (1, T0 + 5 * SECOND, T0 + 6 * SECOND)
    after = recording.take(NO_CHANGES, NO_CHANGES, seen(pod(1, 4, 4, 5)), (), T0 + 9 * SECOND)
    assert [each.queue for each in pods(after)] == ["gpu"]


@pytest.mark.parametrize("changes", [listed, seen])
def test_a_pod_whose_group_was_never_seen_is_in_the_queue_of_its_job(changes: Any) -> None:
    recording = Recording()
    shown = pods(recording.take(listed(job("Completed", 9)), listed(), changes(pod(0, 4, 5, 9)), (), T0))
    for _ in range(3):
        shown += pods(recording.take(NO_CHANGES, NO_CHANGES, NO_CHANGES, (), T0))
    assert [each.queue for each in shown] == ["gpu"]


def test_a_pod_that_is_listed_before_its_group_is_held_until_then() -> None:
    recording = Recording()
    assert pods(recording.take(listed(job()), listed(), listed(pod(bound=4)), (), T0)) == []
    (found,) = pods(recording.take(NO_CHANGES, seen(group()), NO_CHANGES, (), T0))
    assert found.queue == "gpu"


def test_a_job_that_is_deleted_at_once_keeps_what_it_asked_for() -> None:
    recording = Recording()
    end = (seen(job("Completed", 9), kind="DELETED"), seen(group(), kind="DELETED"), seen(pod(0, 4, 5, 9)))
    found = [each for each in recording.take(*end, (), T0 + 10 * SECOND) if isinstance(each, JobRecord)]
    found += [
        each
        for each in recording.take(NO_CHANGES, NO_CHANGES, seen(pod(1, 4, 5, 9)), (), T0 + 99 * SECOND)
        if isinstance(each, JobRecord)
    ]
    assert [(each.user, each.pods, each.deleted) for each in found] == [("ada", 3, T0 + 10 * SECOND)]


def test_the_user_of_a_job_is_known_although_its_pods_were_seen_first() -> None:
    recording = Recording()
    recording.take(NO_CHANGES, seen(group()), seen(pod()), (), T0)
    (found,) = recording.take(seen(job()), NO_CHANGES, NO_CHANGES, (), T0 + SECOND)
    assert isinstance(found, JobRecord)
    assert found.user == "ada"


def test_a_group_that_was_deleted_while_nothing_was_recorded_is_deleted() -> None:
    alone = group()
    del alone["metadata"]["ownerReferences"]
    before = Recording()
    first = before.take(listed(), listed(alone), listed(), (), T0 + 10 * SECOND)
    for recording in (before, Recording(Memory(first), T0 + 10 * SECOND, dict(before.jobs))):
        (found,) = recording.take(listed(), listed(), listed(), (), T0 + 99 * SECOND)
        assert isinstance(found, JobRecord)
        assert found.deleted == T0 + 10 * SECOND
        assert recording.jobs == {}


def test_an_eviction_that_is_told_after_the_end_of_its_pod_is_the_end() -> None:
    recording = Recording()
    first = recording.take(seen(job()), seen(group()), seen(pod(0, 4, 6)), (), T0)
    first += recording.take(NO_CHANGES, NO_CHANGES, seen(pod(0, 4, 6), kind="DELETED"), (), T0 + 9 * SECOND)
    recording.kept = Memory(first)
    told = Evicted(T0 + 9 * SECOND, "research/train-w-0", "pod-0", "n1", "", "", "", "reclaim")
    changed, event = recording.take(NO_CHANGES, NO_CHANGES, NO_CHANGES, [told], T0 + 12 * SECOND)
    assert isinstance(changed, PodRecord)
    assert isinstance(event, Event)
    assert (changed.state, changed.reason, changed.ended) == ("Evicted", "Evicted", T0 + 9 * SECOND)
    assert (event.job, event.queue) == ("job-1", "gpu")


def test_an_eviction_of_a_pod_that_is_held_is_told_with_it() -> None:
    recording = Recording()
    told = Evicted(T0 + 5 * SECOND, "research/train-w-0", "pod-0", "n1", "", "", "", "reclaim")
    assert recording.take(NO_CHANGES, NO_CHANGES, seen(pod(0, 4)), [told], T0 + 5 * SECOND) == []
    records = recording.take(seen(job()), seen(group()), NO_CHANGES, (), T0 + 6 * SECOND)
    assert [each.job for each in records if isinstance(each, Event)] == ["job-1"]


def test_an_eviction_says_by_whom_and_for_whom() -> None:
    recording = Recording()
    recording.take(seen(job()), seen(group()), seen(pod(0, 4, 6)), (), T0)
    evicted = Evicted(
        T0 + 9 * SECOND, "research/train-w-0", "pod-0", "n1", "prod/serve-g", "Job prod/serve", "prod", "reclaim"
    )
    records = recording.take(NO_CHANGES, NO_CHANGES, seen(pod(0, 4, 6), kind="DELETED"), [evicted], T0 + 11 * SECOND)
    assert records == [
        pods(records)[0],
        Event(
            time=T0 + 9 * SECOND,
            what="Evicted",
            namespace="research",
            job="job-1",
            pod="train-w-0",
            pod_uid="pod-0",
            queue="gpu",
            node="n1",
            by="prod/serve-g",
            by_job="Job prod/serve",
            by_queue="prod",
            action="reclaim",
        ),
    ]
    assert (pods(records)[0].state, pods(records)[0].ended) == ("Evicted", T0 + 11 * SECOND)


def test_a_reason_is_told_when_it_is_new_and_not_for_each_number() -> None:
    recording = Recording()
    told = []
    for second, message in enumerate(
        ["3/4 nodes are full", "2/4 nodes are full", "queue gpu is closed", "queue gpu is closed"]
    ):
        told += events(recording.take(seen(job()), seen(group(message=message)), NO_CHANGES, (), T0 + second * SECOND))
    assert told == [("Waiting", "3/4 nodes are full"), ("Waiting", "queue gpu is closed")]


def test_an_admission_comes_before_the_bind_that_was_seen_with_it() -> None:
    recording = Recording()
    recording.take(seen(job()), seen(group()), NO_CHANGES, (), T0)
    records = recording.take(NO_CHANGES, seen(group("Inqueue")), seen(pod(0, 4)), (), T0 + 6 * SECOND)
    assert [(e.what, e.time) for e in records if isinstance(e, Event)] == [("Admitted", T0 + 4 * SECOND)]


@pytest.mark.parametrize(
    ("name", "groups", "said", "user"),
    [
        ("ada", (), "grace", "ada"),
        ("kubernetes-admin", ("system:masters",), "grace", "grace"),
        ("kubernetes-admin", ("system:masters",), "", "kubernetes-admin"),
        ("", (), "grace", "grace"),
        ("", (), "", ""),
    ],
)
def test_only_administrators_submit_in_the_name_of_others(
    name: str, groups: tuple[str, ...], said: str, user: str
) -> None:
    recording = Recording()
    if name:
        recording.creators["Job.batch.volcano.sh", "research", "train"] = (name, groups)
    submitted = job()
    submitted["metadata"]["annotations"] = {"kilauea.dev/user": said} if said else {}
    (found,) = recording.take(seen(submitted), NO_CHANGES, NO_CHANGES, (), T0)
    assert isinstance(found, JobRecord)
    assert found.user == user


def test_who_created_a_pod_of_a_group_is_forgotten_once_it_is_recorded() -> None:
    recording = Recording()
    shown = pod(0, 4, 6)
    recording.creators["Pod", "research", shown["metadata"]["name"]] = ("ada", ())
    assert pods(recording.take(NO_CHANGES, seen(group()), seen(shown), (), T0))
    assert not recording.creators


def test_a_job_of_another_kind_ends_with_its_last_pod() -> None:
    recording = Recording()
    shown = []
    for number, end in ((0, 20), (1, 30)):
        running, over = pod(number, 4, 6), pod(number, 4, 6, end)
        for each in (running, over):
            each["metadata"]["ownerReferences"][0].update(apiVersion="batch/v1", uid="other")
        shown += [running, over]
    records = recording.take(NO_CHANGES, seen(group()), seen(shown[0], shown[2]), (), T0)
    assert [each.ended for each in records if isinstance(each, JobRecord)] == [None]
    records = recording.take(NO_CHANGES, NO_CHANGES, seen(shown[1], shown[3]), (), T0 + 40 * SECOND)
    (found,) = [each for each in records if isinstance(each, JobRecord)]
    assert (found.kind, found.ended, found.state) == ("Job.batch", T0 + 30 * SECOND, "Succeeded")


def test_objects_of_another_form_are_left_out() -> None:
    recording = Recording()
    bad = Changes(None, [Seen("ADDED", text, "1") for text in (b"{", b"[]", b'{"metadata":{},"spec":[]}', b"\xff")])
    good = seen(pod())
    recording.take(NO_CHANGES, seen(group()), NO_CHANGES, (), T0)
    assert len(pods(recording.take(bad, bad, Changes(None, [*bad.seen, *good.seen]), (), T0))) == 1
    assert recording.unreadable == 12


def test_a_clock_that_jumps_back_makes_no_span_below_zero() -> None:
    recording = Recording()
    recording.take(seen(job()), seen(group()), seen(pod(0, 50, 50)), (), T0 + 50 * SECOND)
    (found,) = pods(recording.take(NO_CHANGES, NO_CHANGES, seen(pod(0, 50, 50, 20)), (), T0 + 20 * SECOND))
    assert found.bound is not None
    assert found.ended == found.bound


class Large:
    """A large pod that something else keeps, in a form that takes no memory."""

    decoded: dict[str, Any] | None = None

    def __init__(self, number: int) -> None:
        self._number = number

    @property
    def value(self) -> bytes:
        return json.dumps({**pod(self._number, bound=2), "about": "x" * 10_000}).encode()

    @property
    def length(self) -> int:
        return len(self.value)


@pytest.mark.parametrize("way", ["list", "events"])
def test_many_pods_that_something_else_keeps_are_not_in_memory_together(way: str) -> None:
    count = 500
    large = [Large(number) for number in range(count)]
    events = [Seen("MODIFIED", b"", "1", each) for each in large]
    changes = Changes(large, ()) if way == "list" else Changes(None, events)
    recording = Recording()
    tracemalloc.start()
    try:
        out = recording.take(NO_CHANGES, NO_CHANGES, changes, (), T0)
        for _ in range(3):  # they are held until their group is seen
            out += recording.take(NO_CHANGES, NO_CHANGES, NO_CHANGES, (), T0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(isinstance(each, PodRecord) for each in out) == count
    assert peak / count < 9000
