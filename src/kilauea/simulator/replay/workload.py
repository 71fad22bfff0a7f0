"""A job of a trace as a Volcano job, as its user would have submitted it.

A gang restarts as a whole when one of its pods is evicted or fails, like training without checkpoints; a pod of a job
without a gang is replaced.
"""

from __future__ import annotations

from typing import Any

from kilauea.api.kinds import VC_JOBS
from kilauea.api.ports import Obj
from kilauea.api.wellknown import PREEMPTABLE
from kilauea.simulator.replay.trace import TraceJob, TraceTask

MODEL = "nvidia.com/gpu.product"
"""The label of nodes with the model of their cards."""
RESTARTS = ({"event": "PodEvicted", "action": "RestartJob"}, {"event": "PodFailed", "action": "RestartJob"})
COMMAND = "work"


def manifest(job: TraceJob) -> dict[str, Any]:
    """Convert a job of a trace into a Volcano job."""
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "minAvailable": job.min_available or job.pods,
        "queue": job.queue or "default",
        "tasks": [_task(job, number, task) for number, task in enumerate(job.tasks)],
    }
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    if job.max_retry is not None:
        spec["maxRetry"] = job.max_retry
    if job.pods > 1:
        spec["policies"] = [dict(policy) for policy in RESTARTS]
    metadata = {"name": job.name, "namespace": job.namespace}
    return {"apiVersion": VC_JOBS.api_version, "kind": VC_JOBS.kind, "metadata": metadata, "spec": spec}


def _task(job: TraceJob, number: int, task: TraceTask) -> dict[str, Any]:
    requests = dict(task.requests)
    container = {"name": "main", "image": COMMAND, "resources": {"requests": requests, "limits": requests}}
    spec: dict[str, Any] = {"containers": [container], "restartPolicy": "Never"}
    if task.models:
        wanted = {"key": MODEL, "operator": "In", "values": list(task.models)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    template: dict[str, Any] = {"spec": spec}
    if job.preemptable is not None:
        template["metadata"] = {"annotations": {PREEMPTABLE: str(job.preemptable).lower()}}
    out: dict[str, Any] = {"name": f"t{number}", "replicas": task.replicas, "template": template}
    if job.min_available and len(job.tasks) == 1:
        out["minAvailable"] = job.min_available
    return out


def is_over(job: Obj) -> bool:
    """Return True if a Volcano job has ended."""
    return phase_of(job) in ("Completed", "Failed", "Terminated", "Aborted")


def phase_of(job: Obj) -> str:
    """Return the phase of a Volcano job; empty for a new one."""
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "")
