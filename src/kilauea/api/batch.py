"""The kinds of `batch.volcano.sh`: Job, a set of tasks that run as one, and CronJob, which makes jobs on a schedule."""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.api.meta import Object, Wire
from kilauea.api.scheduling import NetworkTopology

PodTemplate = dict[str, Any]
"""A `core/v1` PodTemplateSpec, kept as it is: what scheduling does not read must reach the pods too."""
ClaimSpec = dict[str, Any]
"""A `core/v1` PersistentVolumeClaimSpec, kept as it is."""

# --- Job


class JobVolume(Wire):
    """A volume that every container of the job mounts: a claim that exists, or one to make."""

    mount_path: str = ""
    volume_claim_name: str | None = None
    volume_claim: ClaimSpec | None = None


class LifecyclePolicy(Wire):
    """An action to take on an event of a job, a task or a pod."""

    action: str | None = None
    event: str | None = None
    events: list[str] | None = None
    exit_code: int | None = None
    timeout: str | None = None


class DependsOn(Wire):
    """Tasks that must be ready before a task starts."""

    name: list[str] | None = None
    iteration: str | None = None


class PartitionPolicy(Wire):
    """Splits the pods of a task into groups of one size."""

    total_partitions: int = 0
    partition_size: int = 0
    min_partitions: int | None = None
    network_topology: NetworkTopology | None = None


class Task(Wire):
    """One of the tasks of a job: a pod template and how many pods are made of it."""

    name: str | None = None
    replicas: int = 0
    min_available: int | None = None
    template: PodTemplate | None = None
    policies: list[LifecyclePolicy] | None = None
    topology_policy: str | None = None
    max_retry: int | None = None
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None


class JobSpec(Wire):
    """`spec` of a Job."""

    scheduler_name: str | None = None
    min_available: int | None = None
    volumes: list[JobVolume] | None = None
    tasks: list[Task] | None = None
    policies: list[LifecyclePolicy] | None = None
    plugins: dict[str, list[str]] | None = None
    running_estimate: str | None = None
    queue: str | None = None
    max_retry: int | None = None
    ttl_seconds_after_finished: int | None = None
    priority_class_name: str | None = None
    min_success: int | None = None
    network_topology: NetworkTopology | None = None


class JobState(Wire):
    """The state of a job."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class TaskState(Wire):
    """Numbers of pods of a task, by phase."""

    phase: dict[str, int] | None = None


class JobCondition(Wire):
    """A phase that a job was in, and since when."""

    status: str = ""
    last_transition_time: str | None = None


class JobStatus(Wire):
    """`status` of a Job."""

    state: JobState | None = None
    min_available: int | None = None
    task_status_count: dict[str, TaskState] | None = None
    pending: int | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    terminating: int | None = None
    unknown: int | None = None
    version: int | None = None
    retry_count: int | None = None
    running_duration: str | None = None
    controlled_resources: dict[str, str] | None = None
    conditions: list[JobCondition] | None = None


class Job(Object):
    """A job of several tasks, whose pods run together."""

    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus | None = None


# --- CronJob


class TemplateMeta(Wire):
    """`metadata` of a template: what the objects made of it carry."""

    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    name: str | None = None
    namespace: str | None = None
    finalizers: list[str] | None = None


class JobTemplateSpec(Wire):
    """A job to be made."""

    metadata: TemplateMeta | None = None
    spec: JobSpec | None = None


class CronJobSpec(Wire):
    """`spec` of a CronJob."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str | None = None
    suspend: bool | None = None
    job_template: JobTemplateSpec = msgspec.field(default_factory=JobTemplateSpec)
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class ObjectReference(Wire):
    """Refers to an object, or to a part of it."""

    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class CronJobStatus(Wire):
    """`status` of a CronJob."""

    active: list[ObjectReference] | None = None
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Object):
    """Creates jobs on a schedule."""

    spec: CronJobSpec = msgspec.field(default_factory=CronJobSpec)
    status: CronJobStatus | None = None
