"""The kinds of `flow.volcano.sh`: JobTemplate, a job to be made, and JobFlow, which makes jobs in order."""

from __future__ import annotations

import msgspec

from kilauea.api.batch import JobSpec, TaskState
from kilauea.api.meta import Object, Wire

# --- JobTemplate


class JobTemplateStatus(Wire):
    """`status` of a JobTemplate."""

    job_depends_on_list: list[str] | None = None


class JobTemplate(Object):
    """A job to be made by flows."""

    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobTemplateStatus | None = None


# --- JobFlow


class HttpHeader(Wire):
    """A header of a probe."""

    name: str | None = None
    value: str | None = None


class HttpGet(Wire):
    """A probe of a task over HTTP."""

    task_name: str | None = None
    path: str | None = None
    port: int | None = None
    http_header: HttpHeader | None = None


class TcpSocket(Wire):
    """A probe of a port of a task."""

    task_name: str | None = None
    port: int = 0


class TaskPhase(Wire):
    """A probe of the phase of a task."""

    task_name: str | None = None
    phase: str | None = None


class Probe(Wire):
    """The conditions under which a vertex counts as ready; no controller reads it."""

    http_get_list: list[HttpGet] | None = None
    tcp_socket_list: list[TcpSocket] | None = None
    task_status_list: list[TaskPhase] | None = None


class FlowDependsOn(Wire):
    """Vertices to complete before another starts."""

    targets: list[str] | None = None
    probe: Probe | None = None


class JobPatch(Wire):
    """Changes to the job of a template; no controller applies them."""

    job_spec: JobSpec | None = None


class Flow(Wire):
    """A vertex of a flow: a job made of a template."""

    name: str = ""
    depends_on: FlowDependsOn | None = None
    patch: JobPatch | None = None


class JobFlowSpec(Wire):
    """`spec` of a JobFlow."""

    flows: list[Flow] | None = None
    job_retain_policy: str | None = None


class FlowState(Wire):
    """The state of a flow."""

    phase: str | None = None


class RunningHistory(Wire):
    """A time during which a job was in one state."""

    start_timestamp: str | None = None
    end_timestamp: str | None = None
    state: str | None = None


class FlowJobStatus(Wire):
    """The status of a job of a flow."""

    name: str | None = None
    state: str | None = None
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    restart_count: int | None = None
    running_histories: list[RunningHistory] | None = None


class FlowCondition(Wire):
    """The state of one job of a flow."""

    phase: str | None = None
    create_time: str | None = None
    running_duration: str | None = None
    task_status_count: dict[str, TaskState] | None = None


class JobFlowStatus(Wire):
    """`status` of a JobFlow."""

    pending_jobs: list[str] | None = None
    running_jobs: list[str] | None = None
    failed_jobs: list[str] | None = None
    completed_jobs: list[str] | None = None
    terminated_jobs: list[str] | None = None
    unknown_jobs: list[str] | None = msgspec.field(default=None, name="unKnowJobs")
    job_status_list: list[FlowJobStatus] | None = None
    conditions: dict[str, FlowCondition] | None = None
    state: FlowState | None = None


class JobFlow(Object):
    """Jobs that are created in order."""

    spec: JobFlowSpec = msgspec.field(default_factory=JobFlowSpec)
    status: JobFlowStatus | None = None
