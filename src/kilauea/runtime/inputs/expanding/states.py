"""Reasons why a workload has no waiting pods: it is suspended or has ended, or it is a cron job without a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kilauea.api.ports import Obj

RESUME = '`kubectl patch {plural} {name} -n {namespace} --type merge -p \'{{"spec":{{"suspend":false}}}}\'`'
"""The command that starts a suspended workload."""

ENDED = {
    "Complete": "has completed: none of its pods are waiting",
    "Failed": "has failed: none of its pods are waiting",
}
"""Conditions of finished Kubernetes jobs."""


def states_of(workloads: Iterable[Obj]) -> dict[str, str]:
    """The reason why a workload has no waiting pods, by `job namespace/name` or `cronjob namespace/name`."""
    found = {}
    for workload in workloads:
        kind, metadata = str(workload["kind"]).lower(), workload["metadata"]
        state = _cron_state(workload) if kind == "cronjob" else state_of_job(workload)
        if state:
            found[f"{kind} {metadata.get('namespace') or 'default'}/{metadata['name']}"] = state
    return found


def state_of_job(workload: Obj) -> str:
    """The reason why a Kubernetes job has no waiting pods; empty if it may have some, or for other kinds."""
    if workload["kind"] != "Job" or not str(workload.get("apiVersion")).startswith("batch/"):
        return ""
    conditions = _dict(workload.get("status")).get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if _dict(condition).get("status") == "True" and _dict(condition).get("type") in ENDED:
            return ENDED[condition["type"]]
    return (
        _suspended(workload, "jobs.batch", "it has no pods")
        if _dict(workload.get("spec")).get("suspend") is True
        else ""
    )


def _cron_state(workload: Obj) -> str:
    spec = _dict(workload.get("spec"))
    if spec.get("suspend") is True:
        group = str(workload.get("apiVersion")).partition("/")[0]
        return _suspended(workload, f"cronjobs.{group}", "it creates no jobs")
    return f'has no waiting job; its schedule is "{spec.get("schedule", "")}"'


def _suspended(workload: Obj, plural: str, so: str) -> str:
    metadata = workload["metadata"]
    resume = RESUME.format(plural=plural, name=metadata["name"], namespace=metadata.get("namespace") or "default")
    return f"is suspended (spec.suspend is true), so {so}: {resume} starts it"


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
