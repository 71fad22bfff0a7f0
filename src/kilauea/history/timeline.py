"""The timeline of a job as a list of entries, from its record, its pods and its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kilauea.api.times import SECOND
from kilauea.history.records import DELETED, EVICTED, FAILED, LOST, Event, JobRecord, PodRecord


class Entry(NamedTuple):
    """An event in the life of a job.

    Attributes:
        time: microseconds since 1970.
        what: one word: `Submitted`, `Started`, `Evicted`, and so on.
        text: the rest as a sentence without a full stop.
        pods: number of pods concerned.
    """

    time: int
    what: str
    text: str
    pods: int = 0


_ORDER = (
    "Submitted Admitted Waiting Nominated Resized Bound Started Disturbed Evicted Restarted Succeeded Failed Deleted "
    "Lost Phase"
).split()
APART = 10 * SECOND
"""Microseconds by which an admission may be seen after the bind that it caused."""
SHOWN_NODES = 4
"""Maximum number of names of nodes in an entry."""


def timeline(job: JobRecord, pods: Iterable[PodRecord], events: Iterable[Event]) -> list[Entry]:
    """Return the entries of a job; equal events of several pods in the same second are one entry."""
    pods = list(pods)
    found = [_submitted(job)]
    found += _together("Bound", [(pod.bound, pod, "") for pod in pods if pod.bound is not None], "{be} bound", "to")
    started = [(pod.started, pod, "") for pod in pods if pod.started is not None]
    found += _together("Started", started, "started")
    events = _admitted_before_binds(pods, events)
    told = {event.pod_uid for event in events if event.what == "Evicted"}
    for state, verb in (
        ("Succeeded", "succeeded"),
        (FAILED, "failed"),
        (DELETED, "{be} deleted"),
        (LOST, "went while nothing was recorded, and {be} last seen then"),
    ):
        ends = [(pod.ended, pod, _end(pod)) for pod in pods if pod.ended is not None and pod.state == state]
        found += _together(state, ends, verb)
    gone = [(p.ended, p, "") for p in pods if p.ended is not None and p.state == EVICTED and p.uid not in told]
    found += _together("Evicted", gone, "{be} evicted")
    found += _evictions([event for event in events if event.what == "Evicted"])
    found += _nominations([event for event in events if event.what == "Nominated"])
    # The submission already shows that a job is pending.
    plain = [e for e in events if e.what not in ("Evicted", "Nominated") and (e.what, e.reason) != ("Phase", "Pending")]
    found += map(_entry, plain)
    if job.deleted is not None:
        found.append(Entry(job.deleted, "Deleted", "the job was deleted"))
    return sorted(found, key=lambda entry: (entry.time // SECOND, _ORDER.index(entry.what), entry.text))


def _admitted_before_binds(pods: Sequence[PodRecord], events: Iterable[Event]) -> list[Event]:
    """Events, with the first admission moved before the binds that it caused.

    The watches of groups and pods are not synchronized, and a pod group does not contain its admission time: the
    recorded time is that at which the admission was seen, which may be after the bind.
    """
    out = list(events)
    bind = min((pod.bound for pod in pods if pod.bound is not None), default=None)
    seen = [(event.time, number) for number, event in enumerate(out) if event.what == "Admitted"]
    if bind is not None and seen:
        time, number = min(seen)
        if bind < time < bind + APART:
            out[number] = replace(out[number], time=bind)
    return out


def end_of(job: JobRecord, pods: Sequence[PodRecord]) -> int | None:
    """The end of a job: from its record, or else that of its last pod; None if it has not ended."""
    if job.ended is not None:
        return job.ended
    ends = [pod.ended for pod in pods]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else job.deleted


def _submitted(job: JobRecord) -> Entry:
    parts = [f"by {job.user}" if job.user else "", f"to queue {job.queue}" if job.queue else ""]
    asks = f"for {_pods(job.pods)}" if job.pods else ""
    if job.pods and 0 < job.minimum < job.pods:
        asks += f", at least {job.minimum} together"
    return Entry(job.submitted, "Submitted", " ".join(part for part in (*parts, asks) if part) or "as it is")


def _end(pod: PodRecord) -> str:
    code = f"exit code {pod.exit_code}" if pod.exit_code else ""
    return ", ".join(
        part for part in (code, pod.reason if pod.reason not in ("", "Completed", "Error") else "") if part
    )


def _together(
    what: str, ends: Iterable[tuple[int | None, PodRecord, str]], verb: str, place: str = "on"
) -> list[Entry]:
    """One entry for all pods with the same event in the same second; `{be}` in the verb is was or were."""
    groups: dict[tuple[int, str], list[tuple[int, PodRecord]]] = {}
    for time, pod, why in ends:
        if time is not None:
            groups.setdefault((time // SECOND, why), []).append((time, pod))
    out = []
    for (_, why), found in groups.items():
        names = _names([pod.name for _, pod in found])
        did = verb.format(be="was" if len(found) == 1 else "were")
        text = f"{names} {did}{_on((pod.node for _, pod in found), place)}"
        out.append(Entry(min(time for time, _ in found), what, f"{text}: {why}" if why else text, len(found)))
    return out


def _evictions(events: Iterable[Event]) -> list[Entry]:
    groups: dict[tuple[int, str, str, str, str], list[Event]] = {}
    for event in events:
        groups.setdefault((event.time // SECOND, event.by, event.by_job, event.by_queue, event.action), []).append(
            event
        )
    out = []
    for (_, by, by_job, by_queue, action), found in groups.items():
        whom = by_job or (f"pod group {by}" if by else "")
        for_whom = f" for {whom}{f' of queue {by_queue}' if by_queue else ''}" if whom else ""
        names = _names([event.pod for event in found])
        text = f"{names} {'was' if len(found) == 1 else 'were'} evicted{_on(e.node for e in found)}{for_whom}"
        out.append(
            Entry(
                min(e.time for e in found), "Evicted", f"{text}, by the action {action}" if action else text, len(found)
            )
        )
    return out


def _nominations(events: Iterable[Event]) -> list[Entry]:
    groups: dict[int, list[Event]] = {}
    for event in events:
        groups.setdefault(event.time // SECOND, []).append(event)
    return [
        Entry(
            min(event.time for event in found),
            "Nominated",
            f"room is being freed{_on(event.node for event in found)} for {_names([event.pod for event in found])}",
            len(found),
        )
        for found in groups.values()
    ]


def _entry(event: Event) -> Entry:
    pod = f"{event.pod}: " if event.pod else ""
    if event.what == "Admitted":
        return Entry(event.time, event.what, "the scheduler admitted it; its pods may start")
    if event.what == "Phase":
        why = f": {event.message}" if event.message and event.message != event.reason else ""
        return Entry(event.time, event.what, f"{event.reason}{why}")
    words = [event.reason if event.what == "Disturbed" else "", event.message or event.reason]
    text = ": ".join(dict.fromkeys(word for word in words if word))
    return Entry(event.time, event.what, f"{pod}{text}")


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} pods"


def _pods(count: int) -> str:
    return f"{count} pod{'s' * (count != 1)}"


def _on(nodes: Iterable[str], place: str = "on") -> str:
    """The nodes of an entry, those with most pods first."""
    counts = Counter(node for node in nodes if node)
    if not counts:
        return ""
    names = sorted(counts, key=lambda name: (-counts[name], name))
    more = f" and {len(names) - SHOWN_NODES} more" if len(names) > SHOWN_NODES else ""
    return f" {place} {', '.join(names[:SHOWN_NODES])}{more}"
