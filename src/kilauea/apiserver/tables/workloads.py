"""Table cells of workloads: deployments and similar kinds, jobs and cron jobs."""

from __future__ import annotations

from typing import Any

from kilauea.api.ages import age, human_duration, since
from kilauea.api.times import SECOND, parse_time
from kilauea.apiserver.tables.columns import NONE, Object, part, selector_text


def _containers(spec: Object) -> list[str]:
    """Return names and images of the containers of a template."""
    containers = part(spec, "template", "spec", "containers") or []
    return [",".join(each.get(key, "") for each in containers) for key in ("name", "image")]


def deployment(obj: Object, now: int) -> list[Any]:
    """Cells of a deployment: ready, updated and available pods."""
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    ready = f"{state.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    counts = [state.get("updatedReplicas", 0), state.get("availableReplicas", 0)]
    return [ready, *counts, age(obj, now), *_containers(spec), selector_text(spec.get("selector"))]


def replica_set(obj: Object, now: int) -> list[Any]:
    """Cells of a replica set: desired, current and ready pods."""
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    counts = [spec.get("replicas", 0), state.get("replicas", 0), state.get("readyReplicas", 0)]
    return [*counts, age(obj, now), *_containers(spec), selector_text(spec.get("selector"))]


def stateful_set(obj: Object, now: int) -> list[Any]:
    """Cells of a stateful set: ready pods."""
    spec = obj.get("spec") or {}
    ready = f"{part(obj, 'status', 'readyReplicas') or 0}/{spec.get('replicas', 0)}"
    return [ready, age(obj, now), *_containers(spec)]


def daemon_set(obj: Object, now: int) -> list[Any]:
    """Cells of a daemon set: counts of pods, and the node selector."""
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    keys = "desiredNumberScheduled currentNumberScheduled numberReady updatedNumberScheduled numberAvailable".split()
    counts = [state.get(key, 0) for key in keys]
    selector = part(spec, "template", "spec", "nodeSelector") or {}
    node_selector = ",".join(f"{key}={value}" for key, value in sorted(selector.items())) or NONE
    return [*counts, node_selector, age(obj, now), *_containers(spec), selector_text(spec.get("selector"))]


def job(obj: Object, now: int) -> list[Any]:
    """Cells of a job: its state, completions and duration."""
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    cells = [_job_status(obj, state), _completions(spec, state), _duration(state, now), age(obj, now)]
    return [*cells, *_containers(spec), selector_text(spec.get("selector"))]


def _job_status(obj: Object, state: Object) -> str:
    """Return the most specific condition."""
    true = {each.get("type") for each in state.get("conditions") or [] if each.get("status") == "True"}
    if "Complete" in true:
        return "Complete"
    if "Failed" in true:
        return "Failed"
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for word in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if word in true:
            return word
    return "Running"


def _completions(spec: Object, state: Object) -> str:
    done, wanted, parallel = state.get("succeeded", 0), spec.get("completions"), spec.get("parallelism")
    if wanted is not None:
        return f"{done}/{wanted}"
    return f"{done}/1 of {parallel}" if parallel and parallel > 1 else f"{done}/1"


def _duration(state: Object, now: int) -> str:
    started, ended = state.get("startTime"), state.get("completionTime")
    if not started:
        return ""
    return human_duration((parse_time(ended) - parse_time(started)) // SECOND) if ended else since(started, now)


def cron_job(obj: Object, now: int) -> list[Any]:
    """Cells of a cron job: its schedule and its last run."""
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    last = state.get("lastScheduleTime")
    template = part(spec, "jobTemplate", "spec") or {}
    return [
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        str(bool(spec.get("suspend"))),
        len(state.get("active") or []),
        since(last, now) if last else NONE,
        age(obj, now),
        *_containers(template),
        selector_text(template.get("selector")),
    ]
