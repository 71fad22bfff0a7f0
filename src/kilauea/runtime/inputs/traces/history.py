"""The export of a live history as a trace: JSON lines of jobs and their pods, written by `kilauea history`.

A job is built from its pods: their requests, and as run time the longest run of a succeeded pod (of any pod, if none
succeeded). Jobs with unfinished pods, or without a run, have no run time and are left out. Times are microseconds since
1970. `kilauea.history.records` describes the fields.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from kilauea.api.quantity import format_amount
from kilauea.runtime.inputs.traces.tables import MOST_LINES, Findings, TraceError, kubernetes_name, shown
from kilauea.simulator.replay.trace import TraceJob, TraceTask

Record = Mapping[str, Any]


def is_history(text: str) -> bool:
    """Return True if a text starts like an export."""
    first = text.lstrip()[:200]
    return first.startswith("{") and '"history"' in first


def history_jobs(text: str, findings: Findings) -> list[tuple[int, TraceJob]]:
    """Return the jobs, with the numbers of their lines.

    Raises:
        TraceError: too many lines.
    """
    jobs: dict[str, tuple[int, Record]] = {}
    pods: defaultdict[str, dict[str, Record]] = defaultdict(dict)
    lines: dict[str, int] = {}
    """The first line with a pod of each job."""
    for number, line in enumerate(text.splitlines(), 1):
        if number > MOST_LINES:
            raise TraceError(f"{findings.source}: more than {MOST_LINES} lines: split the file")
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            findings.leave_out(number, "that are not JSON", "not JSON: the file was truncated or changed")
            continue
        if not isinstance(record, dict):
            findings.leave_out(number, "that are not records", f"{shown(line)} is not a record: the file was changed")
            continue
        kind = record.get("type")
        if kind == "job" and isinstance(record.get("uid"), str):
            if record["uid"] in jobs:
                message = f"job {record.get('name')} is in line {jobs[record['uid']][0]}, too: this line is used"
                findings.note(number, "of jobs that already exist", message)
            jobs[record["uid"]] = number, record
        elif kind == "pod" and isinstance(record.get("job"), str):
            pods[record["job"]][str(record.get("uid", number))] = record
            lines.setdefault(record["job"], number)
        elif kind in ("job", "pod"):
            field = "uid" if kind == "job" else "job"
            findings.leave_out(number, "without their key", f"{kind} {record.get('name')}: field {field} is missing")
        elif kind == "history":
            for gap in record.get("gaps") or ():
                findings.note(number, "with gaps", f"nothing was recorded in {gap}: jobs of that time are missing")
    for uid in sorted(pods.keys() - jobs.keys(), key=lambda uid: lines[uid]):
        name = next(iter(pods[uid].values())).get("name")
        message = f"pod {name}: its job is not in the file: export a history that starts before the job"
        findings.leave_out(lines[uid], "of pods without their jobs", message)
    found = []
    for uid, (number, job) in sorted(jobs.items(), key=lambda each: each[1][0]):
        try:
            made = _job(job, list(pods[uid].values()))
        except KeyError as error:
            findings.leave_out(number, "that lack a field", f"job {job.get('name')}: field {error.args[0]} is missing")
            continue
        except (TypeError, ValueError) as error:
            message = f"job {job.get('name')}: {error}: write the fields as kilauea history export does"
            findings.leave_out(number, "that cannot be used", message)
            continue
        if made is None:
            message = "had not ended when the history was exported, so its run time is unknown"
            findings.leave_out(number, "of jobs that did not end", f"job {job.get('name')}: {message}")
        else:
            found.append((number, made))
    return found


def _job(job: Record, pods: list[Record]) -> TraceJob | None:
    """A job of the trace; None if its run time is unknown."""
    if not pods or not all(each.get("ended") for each in pods):
        return None
    lives = [each for each in pods if each.get("started")]
    done = [each for each in lives if each.get("state") == "Succeeded"] or lives  # evicted ones are less informative
    runs = [each["ended"] - each["started"] for each in done]
    if not runs:
        return None
    if min(runs) < 0:
        raise ValueError("a pod ends before it starts")
    latest: dict[str, Record] = {}
    for each in pods:  # a pod that was restarted has a record for each run
        latest[each["name"]] = each
    kinds = Counter(tuple(sorted(each.get("resources", {}).items())) for each in latest.values())
    tasks = tuple(
        TraceTask(count, tuple((name, str(format_amount(name, amount))) for name, amount in kind if name != "pods"))
        for kind, count in sorted(kinds.items())
    )
    namespace = kubernetes_name(job.get("namespace", "")) or "default"
    total = sum(task.replicas for task in tasks)
    return TraceJob(
        name=kubernetes_name(f"{namespace}-{job['name']}"),
        submit=int(job["submitted"]),
        duration=int(max(runs)),
        tasks=tasks,
        queue=kubernetes_name(job.get("queue", "")),
        namespace=namespace,
        min_available=min(int(job.get("minimum") or 0), total),
    )
