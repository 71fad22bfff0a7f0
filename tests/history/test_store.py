"""The store of a history: what is kept, for how long, and what becomes of a damaged file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilauea.history import answers
from kilauea.history.errors import HistoryError
from kilauea.history.records import Event, JobRecord, PodRecord, Record
from kilauea.history.store import DAY, Bounds, History, read_lines
from kilauea.history.usage import BY, usage

SECOND = 1_000_000


def job(number: int, ended: int | None = None, **facts: object) -> JobRecord:
    given = {
        "uid": f"j{number}",
        "namespace": "a",
        "name": f"job-{number}",
        "kind": "Job",
        "submitted": number,
        "ended": ended,
    }
    return JobRecord(**{**given, **facts})  # type: ignore[arg-type]  # the fields are those of the class


def pod(number: int, bound: int | None, ended: int | None, **facts: object) -> PodRecord:
    given = {
        "uid": f"p{number}",
        "namespace": "a",
        "name": f"p{number}",
        "job": f"j{number}",
        "bound": bound,
        "ended": ended,
    }
    return PodRecord(**{**given, **facts})  # type: ignore[arg-type]  # the fields are those of the class


def event(time: int, what: str = "Waiting", job: str = "j1") -> Event:
    return Event(time=time, what=what, namespace="a", job=job)  # type: ignore[arg-type]  # a text of those


def everything(history: History) -> list[Record]:
    return [*history.jobs(), *history.pods(), *history.events()]


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    records: list[Record] = [job(1, user="ada"), pod(1, 5, None, resources={"cpu": 1500}), event(7)]
    history = History.open(tmp_path)
    history.put(records, seen=9)
    assert everything(history) == records
    assert (history.since, history.seen) == (9, 9)
    reader = History.read(tmp_path)
    assert everything(reader) == records


def test_the_newest_record_of_a_pod_counts_and_an_event_is_kept_once(tmp_path: Path) -> None:
    history = History.open(tmp_path)
    history.put([pod(1, 5, None), event(7)])
    history.put([pod(1, 5, 8), event(7)])
    assert everything(history) == [pod(1, 5, 8), event(7)]


def test_an_export_is_read_back_whole_and_twice_is_once(tmp_path: Path) -> None:
    history = History.open(tmp_path / "one")
    history.put([job(1), job(2, 5), pod(1, 5, None), pod(2, 1, 3), event(7)], seen=9)
    history.add_gap(1, 2, "nothing was recorded")
    found = read_lines(b"".join(history.export(11)).splitlines(), "export")
    other = History.open(tmp_path / "two")
    for _ in range(2):
        other.put(found.records)
        assert found.header is not None
        other.extend(found.header)
    assert everything(other) == everything(history)
    assert (other.since, other.gaps) == (9, [(1, 2, "nothing was recorded")])


def test_lines_that_are_no_records_are_named_and_the_others_read() -> None:
    lines = [
        b'{"type":"history","since":1,"until":2}',
        b"{",
        b'{"type":"pod"}',
        b"\xff",
        b'{"type":"event","time":1,"what":"Waiting","namespace":"a","job":"j"}',
    ]
    found = read_lines(lines, "x.jsonl")
    assert found.records == [Event(time=1, what="Waiting", namespace="a", job="j")]
    assert found.bad == 3
    assert [problem.partition(": ")[0] for problem in found.problems] == ["x.jsonl:2", "x.jsonl:3", "x.jsonl:4"]


def test_a_history_of_a_newer_version_is_refused() -> None:
    with pytest.raises(HistoryError, match="newer Kilauea"):
        read_lines([b'{"type":"history","version":2,"since":1,"until":2}'], "x.jsonl")


def test_only_one_process_writes(tmp_path: Path) -> None:
    history = History.open(tmp_path)
    with pytest.raises(HistoryError, match=r"another process writes this history.*--history .*--data-dir "):
        History.open(tmp_path)
    history.close()
    History.open(tmp_path).close()


@pytest.mark.parametrize("file", ["history.db", "history.db-wal", "history.db-shm"])
def test_a_file_that_may_not_be_opened_is_not_called_damaged(
    tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    History.open(tmp_path).close()
    (tmp_path / file).touch()
    opened = os.open

    def refuse(path: Path, *arguments: int) -> int:  # as the system does unless the tests run as root
        if Path(path) == tmp_path / file:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *arguments)

    with monkeypatch.context() as others:
        others.setattr(os, "open", refuse)
        with pytest.raises(HistoryError, match=f"{file}: Permission denied; the folder of the history must be"):
            History.open(tmp_path)
    History.open(tmp_path).close()
    assert not list(tmp_path.glob("*.damaged-*"))


@pytest.mark.parametrize("kept", [0, 10, 100, 5000])
def test_a_file_that_was_cut_is_named_and_the_history_goes_on(tmp_path: Path, kept: int) -> None:
    history = History.open(tmp_path)
    history.put([pod(number, 1, 2) for number in range(500)], seen=5)
    history.close()
    path = tmp_path / "history.db"
    path.write_bytes(path.read_bytes()[:kept])
    again = History.open(tmp_path)
    assert "damaged" in again.damage
    assert "history.db.damaged-1" in again.damage
    again.put([pod(1000, 1, 2)])
    assert len(again.pods()) >= 1


def test_what_can_be_read_of_a_damaged_file_is_kept(tmp_path: Path) -> None:
    history = History.open(tmp_path)
    history.put([pod(number, 1, 2) for number in range(5000)], seen=5)
    history.close()
    path = tmp_path / "history.db"
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 8192] = b"\xaa" * 8192
    path.write_bytes(bytes(data))
    again = History.open(tmp_path)
    assert "damaged" in again.damage
    assert len(again.pods()) > 1000


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:

    other = apsw.Connection(str(tmp_path / "history.db"))
    other.pragma("application_id", 7)
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(HistoryError, match=r"not a history of Kilauea.*--history .*--data-dir "):
        History.open(tmp_path)


def test_old_detail_goes_first_and_then_what_has_ended(tmp_path: Path) -> None:
    history = History.open(tmp_path)
    now = 100 * DAY
    old, new = now - 50 * DAY, now - DAY
    history.put([job(1, old), pod(1, old - 5, old), job(2), pod(2, old - 5, None), pod(3, new, new)], seen=1)
    history.put([event(old), event(old, "Evicted"), event(new)])
    while history.thin(now, Bounds(age=90 * DAY, detail=30 * DAY)):
        pass
    assert [e.what for e in history.events()] == ["Evicted", "Waiting"]
    assert len(history.pods()) == 3
    while history.thin(now, Bounds(age=30 * DAY, detail=30 * DAY)):
        pass
    assert [each.uid for each in history.pods()] == ["p2", "p3"], "what has not ended stays"
    assert [each.uid for each in history.jobs()] == ["j2"]
    assert history.since == now - 30 * DAY


def test_a_history_that_is_too_large_loses_its_oldest(tmp_path: Path) -> None:
    history = History.open(tmp_path)
    history.put([pod(number, number, number + 1, reason="x" * 200) for number in range(6000)], seen=1)
    bounds = Bounds(size=1 << 20)
    while history.thin(DAY, bounds):
        pass
    left = history.pods()
    assert 0 < len(left) < 6000
    assert {each.uid for each in left} >= {"p5999"}
    assert history.since > 1


def held(pods: list[PodRecord], since: int, until: int) -> int:
    """Thousandths of a cpu times microseconds, from the definition."""
    return sum(
        max(0, min(until if p.ended is None else p.ended, until) - max(p.bound, since)) * p.resources.get("cpu", 0)
        for p in pods
        if p.bound is not None
    )


times = st.integers(0, 10**14)
lives = st.builds(
    lambda number, first, second, cpu: pod(
        number,
        min(first, second),
        max(first, second) if number % 3 else None,
        resources={"cpu": cpu},
        queue=f"q{number % 2}",
    ),
    st.integers(0, 50),
    times,
    times,
    st.integers(0, 10**7),
)


@settings(max_examples=25)
@given(st.lists(lives, max_size=20, unique_by=lambda each: each.uid), times, times)
def test_sums_of_usage_are_exact(
    tmp_path_factory: pytest.TempPathFactory, pods: list[PodRecord], one: int, other: int
) -> None:
    since, until = min(one, other), max(one, other)
    history = History.open(tmp_path_factory.mktemp("history"))
    try:
        history.put(pods)
        for by in BY:
            assert sum(row.amounts.get("cpu", 0) for row in usage(history, by, since, until)) == held(
                pods, since, until
            )
        by_queue = {row.name: row.amounts.get("cpu", 0) for row in usage(history, "queue", since, until)}
        for name, amount in by_queue.items():
            assert amount == held([each for each in pods if each.queue == name], since, until)
    finally:
        history.close()


def test_usage_by_user_is_that_of_the_users_jobs(tmp_path: Path) -> None:
    history = History.open(tmp_path)
    history.put(
        [
            job(1, user="ada"),
            pod(1, 0, 10 * SECOND, resources={"cpu": 2000}),
            pod(2, 0, SECOND, resources={"cpu": 1000}),
        ]
    )
    assert [(row.name, row.amounts) for row in usage(history, "user", 0, 5 * SECOND)] == [
        ("", {"cpu": 1000 * SECOND}),
        ("ada", {"cpu": 10_000 * SECOND}),
    ]


def test_a_pod_that_ends_in_the_second_of_its_bind_counts_as_a_pod(tmp_path: Path) -> None:
    """Kubernetes tells times in whole seconds, and a short command takes less."""
    history = History.open(tmp_path)
    history.put([pod(1, SECOND, SECOND), pod(2, SECOND, 3 * SECOND)])
    assert [(row.pods, row.time) for row in usage(history, "queue", 0, 5 * SECOND)] == [(2, 2 * SECOND)]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"since": "yesterday"}, 'since: "yesterday" is not a time'),
        ({"limit": "many"}, 'limit: "many" is not a number'),
        ({"sincee": "1"}, '"sincee" is not a parameter of jobhistories'),
    ],
)
def test_a_bad_question_is_refused_by_name(tmp_path: Path, query: dict[str, str], problem: str) -> None:
    with pytest.raises(answers.BadQuestion, match=problem):
        answers.jobs_answer(History.open(tmp_path), "", query)


def test_jobs_of_other_namespaces_are_not_in_an_answer(tmp_path: Path) -> None:
    history = History.open(tmp_path)
    history.put([job(1), job(2, namespace="b"), pod(2, 1, 2, namespace="b"), event(1), pod(1, 1, 2)])
    assert [each.job.uid for each in answers.jobs_answer(history, "b", {}).items] == ["j2"]
    assert answers.job_answer(history, "b", "job-1", {}) is None
    assert b'"j1"' not in b"".join(answers.records_answer(history, "b", {}, 9))
    assert answers.usage_answer(history, "b", {}, 9).rows[0].pods == 1
