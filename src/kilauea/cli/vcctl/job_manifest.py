"""Manifests of the jobs that `vcctl job run` and `vsub` create: one task from flags, or the content of a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kilauea.api.kinds import VC_JOBS
from kilauea.cli.vcctl.command import CommandError


@dataclass(frozen=True)
class Wanted:
    """A job with one task, from flags.

    Attributes:
        requests, limits: resources of each pod.
        spec: other fields of the job's spec, such as the queue.
        environment: environment variables of the container.
    """

    name: str
    namespace: str
    image: str
    scheduler: str
    min_available: int
    replicas: int
    requests: dict[str, str]
    limits: dict[str, str]
    command: list[str] = field(default_factory=list)
    spec: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


def new_job(wanted: Wanted) -> dict[str, Any]:
    """The manifest; the cluster names its only task."""
    container: dict[str, Any] = {
        "name": wanted.name,
        "image": wanted.image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": wanted.limits, "requests": wanted.requests},
    }
    if wanted.command:
        container["command"] = wanted.command
    if wanted.environment:
        container["env"] = [{"name": key, "value": value} for key, value in wanted.environment.items()]
    template = {
        "metadata": {"name": wanted.name, "labels": {"job.volcano.sh": wanted.name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {
        "minAvailable": wanted.min_available,
        "schedulerName": wanted.scheduler,
        "tasks": [{"replicas": wanted.replicas, "template": template}],
    }
    metadata = {"name": wanted.name, "namespace": wanted.namespace}
    return {
        "apiVersion": VC_JOBS.api_version,
        "kind": VC_JOBS.kind,
        "metadata": metadata,
        "spec": {**spec, **wanted.spec},
    }


def job_of_file(path: str) -> dict[str, Any]:
    """The job in a file; `-` is standard input.

    Raises:
        CommandError: the file cannot be read, or is not a job.
    """
    from kilauea.cli.vcctl.documents import read_file, read_objects

    if path != "-" and ".yaml" not in path and ".yml" not in path:
        raise CommandError("only support yaml file")
    found = read_objects(read_file(path))
    if len(found) != 1:
        raise CommandError(f"failed to unmarshal file, err:  {path} has {len(found)} objects: one job is needed")
    job = found[0]
    if (
        job.get("kind", VC_JOBS.kind) != VC_JOBS.kind
        or job.get("apiVersion", VC_JOBS.api_version) != VC_JOBS.api_version
    ):
        needed = f"a {VC_JOBS.kind} of {VC_JOBS.api_version} is needed"
        message = f"{path} has a {job.get('kind')} of {job.get('apiVersion')}: {needed}"
        raise CommandError(f"failed to unmarshal file, err:  {message}")
    return {**job, "apiVersion": VC_JOBS.api_version, "kind": VC_JOBS.kind}
