"""The list of jobs: filters, order, and the reasons of waiting jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kilauea.dashboard.listing import Paging, paging
from kilauea.dashboard.picture import STATES, Entry, Picture

MOST_REASONS = 8
"""Maximum number of reasons on the overview."""


class Filter(NamedTuple):
    """The jobs to show; empty fields select all.

    Attributes:
        search: text contained in the name, the namespace or the reason.
        state: one of `STATES`.
        queue: a queue.
        namespace: a namespace.
        reason: a code of a reason.
    """

    search: str = ""
    state: str = ""
    queue: str = ""
    namespace: str = ""
    reason: str = ""


class JobList(NamedTuple):
    """A page of jobs.

    Attributes:
        entries: the jobs.
        paging: the position of the page.
        counts: number of jobs by state, with the rest of the filter applied.
    """

    entries: Sequence[Entry]
    paging: Paging
    counts: dict[str, int]


def job_list(picture: Picture, wanted: Filter, page: int = 1) -> JobList:
    """A page of the selected jobs, the newest first."""
    counts = dict.fromkeys(STATES, 0)
    found = []
    for entry in _candidates(picture, wanted._replace(state="")):
        counts[entry.state] += 1
        if not wanted.state or entry.state == wanted.state:
            found.append(entry)
    place = paging(len(found), page)
    return JobList(found[max(0, place.first - 1) : place.last], place, counts)


def _candidates(picture: Picture, wanted: Filter) -> Iterator[Entry]:
    entries, needle = picture.entries, wanted.search.lower()
    for _, kind, key in picture.order:
        entry = entries[kind, key]
        if (
            (not wanted.queue or entry.queue == wanted.queue)
            and (not wanted.namespace or key.namespace == wanted.namespace)
            and (not wanted.reason or entry.reason == wanted.reason)
            and (not needle or needle in f"{key.namespace}/{key.name} {entry.owner[1]} {entry.message}".lower())
        ):
            yield entry


class Cause(NamedTuple):
    """A reason why jobs of a queue wait.

    Attributes:
        queue: the queue.
        code: the code of the reason.
        message: the sentence of the job that has waited longest.
        jobs: number of jobs that wait for it.
        oldest: the job that has waited longest.
    """

    queue: str
    code: str
    message: str
    jobs: int
    oldest: Entry


def causes(waiting: Iterable[Entry]) -> list[Cause]:
    """The reasons why jobs wait: one line for each queue and reason, the most common first."""
    found: dict[tuple[str, str], tuple[int, Entry]] = {}
    for entry in waiting:
        at = entry.queue, entry.reason
        count, oldest = found.get(at, (0, entry))
        older = (entry.created, entry.key) < (oldest.created, oldest.key)
        found[at] = count + 1, entry if older else oldest
    lines = [Cause(queue, code, oldest.message, count, oldest) for (queue, code), (count, oldest) in found.items()]
    return sorted(lines, key=lambda line: (-line.jobs, line.queue, line.code))
