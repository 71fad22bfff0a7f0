"""The fields of objects that the history reads: a few fields of pods, pod groups and jobs, decoded without the rest.

All fields are optional, as objects may be incomplete; objects that do not have this form at all are skipped.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.api.times import parse_time


class View(msgspec.Struct, rename="camel", gc=False):
    """A part of an object, with field names as in JSON."""


class Owner(View):
    """An owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    @property
    def group_kind(self) -> str:
        """The kind with its group, `Job.batch`; the kind alone in the core group."""
        group, version, _ = self.api_version.partition("/")
        return f"{self.kind}.{group}" if version else self.kind


class Metadata(View):
    """Metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None

    @property
    def notes(self) -> dict[str, str]:
        """The annotations."""
        return self.annotations or {}

    @property
    def controller(self) -> Owner | None:
        """The owner that manages the object."""
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class Condition(View):
    """A condition of an object."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class Requirements(View):
    """Resources of a container."""

    requests: dict[str, str | int | float] | None = None


class Container(View):
    """A container of a pod."""

    resources: Requirements | None = None
    restart_policy: str | None = None


class Run(View):
    """A run of a container, running or ended."""

    started_at: str | None = None
    finished_at: str | None = None
    exit_code: int = 0
    reason: str | None = None


class ContainerState(View):
    """The state of a container."""

    running: Run | None = None
    terminated: Run | None = None


class ContainerStatus(View):
    """The status of a container."""

    restart_count: int = 0
    state: ContainerState | None = None


class PodSpec(View):
    """The specification of a pod."""

    node_name: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: dict[str, str | int | float] | None = None
    active_deadline_seconds: int | None = None


class PodStatus(View):
    """The status of a pod."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None


_NO_STATUS = PodStatus()


class Pod(View):
    """A pod."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus | None = None

    @property
    def state(self) -> PodStatus:
        """The status; empty if missing."""
        return self.status or _NO_STATUS


class GroupSpec(View):
    """The specification of a pod group."""

    queue: str | None = None
    min_member: int | None = None


class GroupStatus(View):
    """The status of a pod group."""

    phase: str | None = None
    conditions: list[Condition] | None = None


class Group(View):
    """A PodGroup of Volcano."""

    metadata: Metadata
    spec: GroupSpec | None = None
    status: GroupStatus | None = None


class TemplateMetadata(View):
    """Metadata of a pod template."""

    annotations: dict[str, str] | None = None


class Template(View):
    """A pod template."""

    metadata: TemplateMetadata | None = None
    spec: PodSpec | None = None


class Task(View):
    """A task of a job."""

    replicas: int | None = None
    template: Template | None = None


class JobSpec(View):
    """The specification of a job."""

    queue: str | None = None
    min_available: int | None = None
    running_estimate: str | None = None
    tasks: list[Task] | None = None


class JobState(View):
    """The phase of a job."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class JobStatus(View):
    """The status of a job."""

    state: JobState | None = None
    retry_count: int | None = None


class Job(View):
    """A Job of Volcano."""

    metadata: Metadata
    spec: JobSpec
    status: JobStatus | None = None


read_pod = msgspec.json.Decoder(Pod).decode
read_group = msgspec.json.Decoder(Group).decode
read_job = msgspec.json.Decoder(Job).decode


def moment(text: Any) -> int | None:
    """Microseconds since 1970; None if missing, which kubelets write as 1970 for a container that could not start."""
    try:
        return (parse_time(text) or None) if text else None
    except ValueError:
        return None
