"""Status of a flow: its jobs by phase, the history of each, and the phase of the flow.

A completed job that was deleted since, for example after its time to live, stays completed: the status records it.
Likewise, a finished flow records all of its jobs that had ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kilauea.api.ports import Obj
from kilauea.api.times import format_time, parse_duration, parse_time
from kilauea.controllers.objects import name_of, spec_of, status_of

LISTS = {
    "Pending": "pendingJobs",
    "Running": "runningJobs",
    "Failed": "failedJobs",
    "Completed": "completedJobs",
    "Terminated": "terminatedJobs",
}
"""Lists of jobs by phase; those with another phase are in `unKnowJobs`, except those that will end soon."""
ENDING = frozenset({"Completing", "Terminating"})
ENDED = frozenset({"Completed", "Failed", "Terminated"})
"""Final phases of a job."""
OVER = frozenset({"Succeed", "Failed"})
"""Final phases of a flow."""


def job_name(flow: Obj, vertex: str) -> str:
    """The name of the job of a vertex."""
    return f"{name_of(flow)}-{vertex}"


def vertices_of(flow: Obj) -> Sequence[Mapping[str, Any]]:
    """The vertices of a flow."""
    return spec_of(flow).get("flows") or ()


def remembered(flow: Obj) -> Mapping[str, Mapping[str, Any]]:
    """Return the jobs that the status recorded as ended when it was written, by name.

    While a flow continues, only completed ones: other deleted jobs are created again.
    """
    status = status_of(flow)
    ends = ENDED if (status.get("state") or {}).get("phase") in OVER else ("Completed",)
    listed = status.get("jobStatusList") or ()
    return {each["name"]: each for each in listed if each.get("state") in ends and each.get("name")}


def phases(flow: Obj, jobs: Iterable[Obj]) -> dict[str, str]:
    """The phases of jobs by name, in the order of the flow; deleted ones that were not completed are left out."""
    there = {name_of(job): _phase(job) for job in jobs}
    past = {name: str(each["state"]) for name, each in remembered(flow).items()}
    names = dict.fromkeys(job_name(flow, vertex["name"]) for vertex in vertices_of(flow))
    return {name: found for name in names if (found := there.get(name, past.get(name))) is not None}


def _phase(job: Obj) -> str:
    return (status_of(job).get("state") or {}).get("phase") or ""


def phase(flow: Obj, found: Mapping[str, str]) -> str:
    """The phase of a flow whose jobs have these phases. A final phase stays."""
    now = (status_of(flow).get("state") or {}).get("phase") or "Pending"
    ended = list(found.values())
    failed, stopped = "Failed" in ended, "Failed" in ended or "Terminated" in ended
    if now == "Pending" and ("Running" in ended or "Completed" in ended) and not failed:
        now = "Running"
    elif now == "Pending" and stopped:
        now = "Failed"
    if now == "Running":
        vertices = {vertex["name"] for vertex in vertices_of(flow)}
        now = "Succeed" if ended.count("Completed") == len(vertices) else "Failed" if stopped else now
    return now


def wanted_status(flow: Obj, jobs: Sequence[Obj]) -> dict[str, Any]:
    """The whole status, without empty fields."""
    there, past = {name_of(job): job for job in jobs}, remembered(flow)
    found = phases(flow, jobs)
    lists: dict[str, list[str]] = {}
    for name, each in found.items():
        if each not in ENDING:
            lists.setdefault(LISTS.get(each, "unKnowJobs"), []).append(name)
    known = status_of(flow).get("conditions") or {}
    conditions = {name: _condition(there[name]) if name in there else known.get(name) for name in found}
    status: dict[str, Any] = {
        **lists,
        "conditions": {name: said for name, said in conditions.items() if said},
        "jobStatusList": [_job_history(there[name]) if name in there else past[name] for name in found],
    }
    return {**{name: said for name, said in status.items() if said}, "state": {"phase": phase(flow, found)}}


def _condition(job: Obj) -> dict[str, Any]:
    """The summary of a job."""
    status = status_of(job)
    fields = {
        "phase": _phase(job),
        "createTime": job["metadata"]["creationTimestamp"],
        "runningDuration": status.get("runningDuration"),
        "taskStatusCount": status.get("taskStatusCount"),
    }
    return {name: said for name, said in fields.items() if said}


def _job_history(job: Obj) -> dict[str, Any]:
    """The history of a job."""
    status, start = status_of(job), job["metadata"]["creationTimestamp"]
    fields = {
        "name": name_of(job),
        "state": _phase(job),
        "startTimestamp": start,
        "endTimestamp": _end(start, status.get("runningDuration") or ""),
        "restartCount": status.get("retryCount"),
        "runningHistories": list(_histories(status.get("conditions") or ())),
    }
    return {name: said for name, said in fields.items() if said}


def _end(start: str, lasted: str) -> str | None:
    """The end of a job after a duration; None if unknown."""
    try:
        return format_time(parse_time(start) + parse_duration(lasted))
    except ValueError:
        return None


def _histories(conditions: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """The phases of a job in order; each ends when the next one begins."""
    known = [each for each in conditions if each.get("status") and each.get("lastTransitionTime")]
    for number, each in enumerate(known):
        ends = {"endTimestamp": known[number + 1]["lastTransitionTime"]} if number + 1 < len(known) else {}
        yield {"startTimestamp": each["lastTransitionTime"], **ends, "state": each["status"]}
