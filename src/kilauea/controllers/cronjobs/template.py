"""The job that a cron job creates for a time, from its template; the same for cron jobs of Kubernetes and Volcano."""

from __future__ import annotations

from typing import Any

from kilauea.api.ports import Obj, Resource
from kilauea.api.times import format_time
from kilauea.controllers.objects import owner_reference, spec_of


def job_of(cron: Obj, kind: Resource, job_kind: Resource, name: str, due: int, annotation: str) -> dict[str, Any]:
    """Return the job for a time.

    Args:
        cron: the cron job.
        kind: its kind.
        job_kind: the kind of its jobs.
        name: name of the job.
        due: the time, in microseconds since 1970.
        annotation: the annotation of the job that contains the time.
    """
    template = spec_of(cron)["jobTemplate"]
    given = template.get("metadata") or {}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": cron["metadata"]["namespace"],
        "annotations": {**(given.get("annotations") or {}), annotation: format_time(due)},
        "ownerReferences": [owner_reference(kind, cron)],
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    return {"apiVersion": job_kind.api_version, "kind": job_kind.kind, "metadata": metadata, "spec": template["spec"]}
