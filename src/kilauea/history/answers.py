"""Queries of a history and their results, the same for API requests and for commands that read the file.

`jobhistories` are jobs, a single one with all its pods and events; `usagereports` are sums of usage; `historyrecords`
are the records themselves. Times in queries are RFC 3339.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import msgspec

from kilauea.api.times import format_time, parse_time
from kilauea.history.records import Event, JobRecord, PodRecord
from kilauea.history.store import History
from kilauea.history.usage import BY, UsageRow, usage

GROUP, VERSION = "history.kilauea.dev", "v1alpha1"
JOBS, USAGE, RECORDS = "jobhistories", "usagereports", "historyrecords"
MOST_PARTS = 100
"""Maximum number of intervals of a report."""
MOST_JOBS = 1000
"""Default number of jobs in an answer."""
CHUNK = 256
"""Number of records sent together."""
_PARAMETERS = {
    JOBS: frozenset({"name", "queue", "user", "since", "until", "limit", "pods", "uid"}),
    USAGE: frozenset({"by", "since", "until", "parts"}),
    RECORDS: frozenset({"what", "since", "until", "limit"}),
}
_GENERAL = frozenset({"timeout", "pretty", "resourceVersion", "labelSelector", "fieldSelector", "limit", "continue"})
"""Parameters that clients of Kubernetes send to any list."""


class JobAnswer(msgspec.Struct, frozen=True):
    """A job with requested details.

    Attributes:
        metadata: its name, namespace and uid.
        job: its record.
        pods: its pods.
        events: its events.
        others: uids of other jobs with this name, the newest first.
        seen: time up to which the history is complete.
    """

    metadata: dict[str, str]
    job: JobRecord
    pods: list[PodRecord] = []
    events: list[Event] = []
    others: list[str] = []
    seen: int = 0


class JobsAnswer(msgspec.Struct, frozen=True):
    """Jobs in the order of their submission.

    Attributes:
        items: the jobs.
        since: time from which on the history is complete.
        gaps: time spans without records, with the reasons.
        more: True if there are older jobs beyond the limit.
        seen: time up to which the history is complete.
    """

    items: list[JobAnswer]
    since: int = 0
    gaps: list[tuple[int, int, str]] = []
    more: bool = False
    seen: int = 0


class UsagePart(msgspec.Struct, frozen=True):
    """The usage in an interval of a report; times are microseconds since 1970."""

    begin: int
    end: int
    rows: list[UsageRow]


class UsageAnswer(msgspec.Struct, frozen=True):
    """The usage.

    Attributes:
        by: the key of the sums.
        begin: microseconds since 1970.
        end: microseconds since 1970.
        rows: the sums.
        since: time from which on the history is complete.
        gaps: time spans without records, with the reasons.
        parts: the usage in intervals of equal length, if requested.
    """

    by: str
    begin: int
    end: int
    rows: list[UsageRow]
    since: int = 0
    gaps: list[tuple[int, int, str]] = []
    parts: list[UsagePart] = []


class BadQuestion(ValueError):
    """An invalid parameter; the message names it, its value and the fix."""


def jobs_answer(history: History, namespace: str, query: Mapping[str, str]) -> JobsAnswer:
    """Jobs of a namespace, or of all.

    Raises:
        BadQuestion: a parameter is invalid.
    """
    _check(JOBS, query)
    limit = _number(query, "limit", MOST_JOBS)
    found = history.jobs(
        namespace,
        query.get("name", ""),
        query.get("queue", ""),
        query.get("user", ""),
        _time(query, "since"),
        _time(query, "until"),
        limit + 1,
    )
    shown = found[-limit:] if limit else []
    with_pods = query.get("pods", "true") != "false"
    items = [JobAnswer(_metadata(job), job, history.pods(job=job.uid) if with_pods else []) for job in shown]
    return JobsAnswer(items, history.since, _gaps(history, query), len(found) > limit, history.seen)


def job_answer(history: History, namespace: str, name: str, query: Mapping[str, str]) -> JobAnswer | None:
    """The newest job with a name, or the one with the uid in the query; None if it does not exist.

    Raises:
        BadQuestion: a parameter is invalid.
    """
    _check(JOBS, query)
    found = history.jobs(namespace, name)[::-1]
    job = next((each for each in found if not query.get("uid") or each.uid == query["uid"]), None)
    if job is None:
        return None
    others = [each.uid for each in found if each.uid != job.uid][:100]
    return JobAnswer(_metadata(job), job, history.pods(job=job.uid), history.events(job=job.uid), others, history.seen)


def usage_answer(history: History, namespace: str, query: Mapping[str, str], now: int) -> UsageAnswer:
    """The usage, by default by queue, and over the whole history.

    Raises:
        BadQuestion: a parameter is invalid.
    """
    _check(USAGE, query)
    by = query.get("by", "queue")
    key = next((each for each in BY if each == by), None)
    if key is None:
        raise BadQuestion(f'by: "{by}" is not known: use {", ".join(BY)}')
    end = _time(query, "until")
    begin = _time(query, "since")
    known = history.seen or now  # running pods are known only to have run until then
    end = known if end is None else min(end, known)
    begin = 0 if begin is None else begin
    count = _number(query, "parts", 0)
    if count > MOST_PARTS or (count and not query.get("since")):
        raise BadQuestion(f'parts: "{count}" is not possible: use at most {MOST_PARTS}, together with since')
    whole = _time(query, "until") or now  # intervals stay in place, regardless of the end of the history
    marks = [begin + (whole - begin) * number // count for number in range(count + 1)] if count else []
    parts = [UsagePart(a, b, usage(history, key, a, min(b, known), namespace)) for a, b in pairwise(marks)]
    rows = usage(history, key, begin, end, namespace)
    return UsageAnswer(by, begin, end, rows, history.since, _gaps(history, query), parts)


def records_answer(history: History, namespace: str, query: Mapping[str, str], now: int) -> Iterator[bytes]:
    """All records, or events of some kinds, as the lines of an export, in pieces.

    Raises:
        BadQuestion: a parameter is invalid.
    """
    _check(RECORDS, query)
    since, until = _time(query, "since"), _time(query, "until")
    what = [word for word in query.get("what", "").split(",") if word]
    if not what and since is None and until is None:
        return _pieces(history.export(now, namespace))
    limit = _number(query, "limit", 0) or None
    events = history.events(namespace, "", what, since, until, limit)
    if what:
        return _pieces(msgspec.json.encode(event) + b"\n" for event in events)
    records = [*history.jobs(namespace, since=since, until=until), *history.pods(namespace, "", since, until), *events]
    return _pieces(msgspec.json.encode(record) + b"\n" for record in records)


def encoded(kind: str, found: JobsAnswer | JobAnswer | UsageAnswer) -> bytes:
    """An answer as an object of the API."""
    head: dict[str, Any] = {"kind": kind, "apiVersion": f"{GROUP}/{VERSION}"}
    data = msgspec.to_builtins(found)
    return msgspec.json.encode({**head, "metadata": {}, **data})


def _pieces(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Group lines into chunks."""
    piece: list[bytes] = []
    for line in lines:
        piece.append(line)
        if len(piece) == CHUNK:
            yield b"".join(piece)
            piece.clear()
    yield b"".join(piece)


def _metadata(job: JobRecord) -> dict[str, str]:
    created = format_time(job.submitted)
    return {"name": job.name, "namespace": job.namespace, "uid": job.uid, "creationTimestamp": created}


def _gaps(history: History, query: Mapping[str, str]) -> list[tuple[int, int, str]]:
    """The gaps in the time span of a query."""
    since, until = _time(query, "since"), _time(query, "until")
    return [gap for gap in history.gaps if (since is None or gap[1] > since) and (until is None or gap[0] < until)]


def _check(kind: str, query: Mapping[str, str]) -> None:
    for name in sorted(query):
        if name not in _PARAMETERS[kind] and name not in _GENERAL:
            raise BadQuestion(f'"{name}" is not a parameter of {kind}: use {", ".join(sorted(_PARAMETERS[kind]))}')


def _time(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        raise BadQuestion(f"{name}: {error}") from None


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadQuestion(f'{name}: "{text}" is not a number: use 0 or more')
    return int(text)
