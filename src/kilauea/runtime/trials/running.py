"""Runs trials: a trace on clusters and configurations.

Every trial of a seed has the same jobs and the same node failures, so differences between them are due to the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from kilauea.admission.registry import HOOKS, mutations
from kilauea.admission.review import Denied, Review, Settings
from kilauea.api.core import Node
from kilauea.api.kinds import VC_JOBS
from kilauea.api.meta import Object
from kilauea.api.numbers import plural
from kilauea.api.ports import View
from kilauea.api.quantity import format_amount, resource_amounts
from kilauea.api.scheduling import PriorityClass, Queue
from kilauea.api.times import SECOND
from kilauea.api.wellknown import DEFAULT_QUEUE, ROOT_QUEUE
from kilauea.apiserver.patch.json_patch import json_patch
from kilauea.apiserver.patch.values import copied
from kilauea.controllers.vcjobs.controller import VcJobController
from kilauea.engine.conf import SchedulerConf, nearest
from kilauea.runtime.inputs.built_in import built_in_queue
from kilauea.runtime.inputs.files import SourceError
from kilauea.simulator.extensions import BUILT_IN, Extensions
from kilauea.simulator.replay.faults import Fault, node_faults
from kilauea.simulator.replay.measures import Measures
from kilauea.simulator.replay.replay import Replay, Setting
from kilauea.simulator.replay.report import VERSION, Json, run_report
from kilauea.simulator.replay.trace import Trace, drawn, queues_of, scaled

HOOKS_OF_JOBS = tuple(hook for hook in HOOKS if hook.resource == VC_JOBS and "CREATE" in hook.operations)
START = 1_767_225_600 * SECOND
"""The virtual time at which every trial starts: 2026-01-01."""
DAY = 86_400 * SECOND
PATIENCE = 10
"""A trial is abandoned after this many times the length of the trace, its longest job and a day."""

Progress = Callable[[str, int, int, int, int], None]
"""Called with the configuration, the seed, the virtual time in microseconds, and numbers of ended and all jobs."""


class TrialError(SourceError):
    """The inputs are inconsistent."""


@dataclass(frozen=True)
class Candidate:
    """A cluster and a configuration to try.

    Attributes:
        name: its name in reports.
        objects: nodes, queues, priority classes and other objects.
        conf: the configuration of the scheduler.
        changed: the differences from the first candidate, in words.
    """

    name: str
    objects: Sequence[Object]
    conf: SchedulerConf
    changed: str = ""


@dataclass(frozen=True)
class Conditions:
    """The conditions that all candidates share.

    Attributes:
        load: factor of the arrivals.
        seeds: number of traces: the given one, and random ones derived from it.
        period: shortest time between two cycles, in microseconds.
        between: mean time between failures of a node, in microseconds; 0 for no failures.
        repair: mean time to repair, in microseconds.
    """

    load: float = 1.0
    seeds: int = 1
    period: int = SECOND
    between: int = 0
    repair: int = 3600 * SECOND
    extensions: Extensions = field(default=BUILT_IN, repr=False)


def admission(view: View) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that sets defaults in and validates a new Volcano job, like the webhooks of a cluster.

    The function raises `TrialError` for a job that admission rejects.
    """
    settings = Settings()

    def admit(job: dict[str, Any]) -> dict[str, Any]:
        metadata: Mapping[str, Any] = job["metadata"]
        job = {**job, "spec": {"maxRetry": 3, **job["spec"]}}
        for hook in HOOKS_OF_JOBS:
            review = Review("CREATE", VC_JOBS, metadata["namespace"], metadata["name"], job, None)
            changes = mutations(hook, review, view, settings)
            if changes:
                job = json_patch(copied(job), changes)
                review = Review("CREATE", VC_JOBS, metadata["namespace"], metadata["name"], job, None)
            if hook.validate is not None:
                try:
                    hook.validate(review, view, settings)
                except Denied as denied:
                    raise TrialError(f"job {metadata['name']}: admission rejects it: {denied}") from denied
        return job

    return admit


def complete(objects: Sequence[Object], trace: Trace, source: str) -> tuple[list[Object], list[str]]:
    """Return a cluster with the queues that the trace names, and notes about added or missing ones.

    Raises:
        TrialError: there are no nodes.
    """
    have = list(objects)
    if not any(isinstance(obj, Node) for obj in have):
        have += [obj for obj in trace.objects if isinstance(obj, Node)]
    if not any(isinstance(obj, Node) for obj in have):
        raise TrialError(f"{source}: no nodes: specify a cluster with -f, or a table of nodes with --nodes")
    found = []
    queues = {obj.name for obj in have if isinstance(obj, Queue)}
    wanted = queues_of(trace.jobs)
    for name in (ROOT_QUEUE, DEFAULT_QUEUE):
        if name not in queues:
            have.append(built_in_queue(name))
            queues.add(name)
    for name, count in wanted.items():
        if name and name not in queues:
            meant = nearest(name, queues - {ROOT_QUEUE, DEFAULT_QUEUE})
            found.append(f"queue {name} of {plural(count, 'job')} does not exist: added with weight 1{meant}")
            have.append(built_in_queue(name))
    classes = {obj.name for obj in have if isinstance(obj, PriorityClass)}
    for name in sorted({job.priority_class for job in trace.jobs} - classes - {""}):
        found.append(f"priority class {name} does not exist: its jobs have priority 0{nearest(name, classes)}")
    return have, [*found, *_too_large(have, trace)]


def _too_large(objects: Sequence[Object], trace: Trace) -> list[str]:
    """Jobs with pods that request more of a resource than any node offers: they wait until the end.

    Each resource is reported once, with the number of jobs and the one with the largest request.
    """
    largest: dict[str, int] = {}
    for obj in objects:
        status = obj.status if isinstance(obj, Node) else None
        for name, amount in resource_amounts((status and status.allocatable) or {}).items():
            largest[name] = max(largest.get(name, 0), amount)
    beyond: dict[str, list[tuple[int, str]]] = {}
    for job in trace.jobs:
        asked: dict[str, int] = {}
        for task in job.tasks:
            for name, amount in resource_amounts(dict(task.requests)).items():
                asked[name] = max(asked.get(name, 0), amount)
        for name, amount in asked.items():
            if amount > largest.get(name, 0):
                beyond.setdefault(name, []).append((amount, job.name))
    out = []
    for name in sorted(beyond):
        amount, job_name = max(beyond[name], key=lambda each: each[0])
        asked_for, offered = format_amount(name, amount), format_amount(name, largest.get(name, 0))
        count = len(beyond[name])
        whose = f"{count} jobs request" if count > 1 else f"job {job_name} requests"
        example = f", such as {asked_for} by job {job_name}" if count > 1 else f" ({asked_for})"
        waits = "they wait" if count > 1 else "it waits"
        out.append(
            f"{trace.source}: {whose} more {name} in a pod than any node offers{example}; "
            f"the largest node has {offered}: {waits} until the end"
        )
    return out


def run_trials(
    candidates: Sequence[Candidate],
    trace: Trace,
    conditions: Conditions,
    progress: Progress = lambda _name, _seed, _time, _ended, _all: None,
) -> Json:
    """Return the report of all candidates on the same traces.

    Raises:
        TrialError: a job is rejected.
    """
    base = scaled(trace, conditions.load)
    configurations: list[Json] = [
        {
            "name": each.name,
            "changed": each.changed,
            "nodes": sum(isinstance(o, Node) for o in each.objects),
            "runs": [],
        }
        for each in candidates
    ]
    for seed in range(conditions.seeds):
        jobs = drawn(base, seed)
        for candidate, report in zip(candidates, configurations, strict=True):
            report["runs"].append(run_one(candidate, jobs, conditions, seed, progress))
    return {
        "version": VERSION,
        "trace": {
            "source": trace.source,
            "format": trace.format,
            "jobs": len(trace.jobs),
            "pods": sum(job.pods for job in trace.jobs),
            "span": trace.span / SECOND,
            "digest": digest(trace),
            "left_out": trace.left_out,
            "findings": list(trace.findings),
        },
        "settings": {
            "load": conditions.load,
            "seeds": conditions.seeds,
            "period": conditions.period / SECOND,
            "failures_every": conditions.between / SECOND or None,
            "repair": conditions.repair / SECOND if conditions.between else None,
        },
        "configurations": configurations,
    }


def digest(trace: Trace) -> str:
    """Return a text that differs for traces with other jobs."""
    return sha256("\n".join(map(repr, trace.jobs)).encode()).hexdigest()[:16]


def run_one(candidate: Candidate, trace: Trace, conditions: Conditions, seed: int, progress: Progress) -> Json:
    """Return the figures of one candidate on one trace."""
    longest = max(job.duration for job in trace.jobs)
    limit = trace.jobs[0].submit + PATIENCE * (trace.span + longest + DAY)
    setting = Setting(
        candidate.objects,
        candidate.conf,
        START,
        period=conditions.period,
        seed=seed or None,
        faults=_faults(candidate, limit, conditions, seed),
        extensions=conditions.extensions,
        limit=limit,
    )
    replay = Replay(setting, trace, [VcJobController()], admission, Measures(trace))
    outcome = replay.run(lambda time, ended, count: progress(candidate.name, seed, time, ended, count))
    return run_report(outcome, seed)


def _faults(candidate: Candidate, span: int, conditions: Conditions, seed: int) -> Sequence[Fault]:
    if not conditions.between:
        return ()
    names = [obj.name for obj in candidate.objects if isinstance(obj, Node)]
    return node_faults(names, span, conditions.between, conditions.repair, seed)
