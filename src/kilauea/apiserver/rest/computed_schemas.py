"""Schemas of kinds that are computed for each request and never stored; `kubectl explain` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Raw = Mapping[str, Any]


def _of(text: str, **properties: Raw) -> dict[str, Any]:
    """Return the schema of an object with fields."""
    return {"type": "object", "description": text, "properties": properties}


def _text(text: str) -> dict[str, Any]:
    return {"type": "string", "description": text}


def _number(text: str) -> dict[str, Any]:
    return {"type": "integer", "format": "int64", "description": text}


def _list(text: str, item: Raw) -> dict[str, Any]:
    return {"type": "array", "description": text, "items": dict(item)}


def _map(text: str, value: Raw) -> dict[str, Any]:
    return {"type": "object", "description": text, "additionalProperties": dict(value)}


_USAGE = _map("The amounts that are used, by resource.", {"type": "string"})
_TIMES = {
    "timestamp": {"type": "string", "format": "date-time", "description": "The end of the time that was measured."},
    "window": _text("The length of that time, as a duration such as `30s`."),
}
NODE_METRICS = _of("NodeMetrics are the resources that a node uses.", **_TIMES, usage=_USAGE)
_CONTAINER = _of("The usage of a container.", name=_text("The name of the container."), usage=_USAGE)
POD_METRICS = _of(
    "PodMetrics are the resources that the containers of a pod use.",
    **_TIMES,
    containers=_list("The usage of each container.", _CONTAINER),
)

_CONDITION = _of(
    "A condition of a component of the cluster.",
    type=_text("The type of the condition: `Healthy`."),
    status=_text("`True`, `False` or `Unknown`."),
    message=_text("More about it."),
    error=_text("What is wrong, for one that is not healthy."),
)
COMPONENT_STATUS = _of(
    "ComponentStatus is the health of a component of the cluster; it is deprecated.",
    conditions=_list("The conditions of the component.", _CONDITION),
)

_MOMENT = "in microseconds since 1970."
_JOB = _of(
    "A job, or what stands for one.",
    uid=_text("The uid of the object."),
    namespace=_text("Its namespace."),
    name=_text("Its name."),
    kind=_text("Its kind with the group, such as `Job.batch`."),
    queue=_text("The queue that it is in."),
    user=_text("Who submitted it."),
    title=_text("The name that its user gave it, if the object has another."),
    submitted=_number(f"When it was created, {_MOMENT}"),
    ended=_number(f"When it ended, {_MOMENT}"),
    state=_text("Its last phase."),
    reason=_text("Why it is in this phase: one word."),
    message=_text("Why it is in this phase."),
    pods=_number("The number of pods that it asks for."),
    minimum=_number("The number of pods that must start together."),
    cpus=_number("The thousandths of a cpu that all its pods ask for."),
    run_time=_number("The microseconds that it declares to run."),
    limit=_number("The seconds after which its pods are ended."),
    restarts=_number("The number of restarts of the whole job."),
    deleted=_number(f"When the object was deleted, {_MOMENT}"),
)
_POD = _of(
    "The life of a pod.",
    uid=_text("The uid of the pod."),
    namespace=_text("Its namespace."),
    name=_text("Its name."),
    job=_text("The uid of its job."),
    queue=_text("The queue that it is in."),
    task=_text("The task of the job that it is of."),
    resources=_map("What it requests.", {"type": "integer", "format": "int64"}),
    submitted=_number(f"When it was created, {_MOMENT}"),
    bound=_number(f"When it got a node, {_MOMENT}"),
    started=_number(f"When its first container started, {_MOMENT}"),
    ended=_number(f"When its last container ended, {_MOMENT}"),
    node=_text("The node that it is or was on."),
    state=_text("The state that it is in, such as `RUNNING`."),
    reason=_text("Why it ended: one word."),
    exit_code=_number("The largest exit code of its containers."),
    restarts=_number("The number of restarts of its containers."),
    run_time=_number("The microseconds that it declares to run."),
)
_EVENT = _of(
    "Something that happened, and why.",
    time=_number(f"When it happened, {_MOMENT}"),
    what=_text("What happened."),
    namespace=_text("The namespace of the job."),
    job=_text("The uid of the job."),
    pod=_text("The name of the pod; empty if it is about the whole job."),
    pod_uid=_text("The uid of the pod."),
    queue=_text("The queue of the job."),
    node=_text("The node that it is about."),
    by=_text("The pod group that got the room of an eviction, as `namespace/name`."),
    by_job=_text("The workload that owns it."),
    by_queue=_text("Its queue."),
    action=_text("The action that decided an eviction."),
    reason=_text("Why it happened: one word."),
    message=_text("Why it happened."),
)
JOB_HISTORY = _of(
    "JobHistory is what is recorded of a job, its pods and what happened to them.",
    job=_JOB,
    pods=_list("Its pods, if one job is asked for.", _POD),
    events=_list("What happened to it, if one job is asked for.", _EVENT),
    others=_list("The uids of other jobs of this name, the newest first.", {"type": "string"}),
    seen=_number(f"The time up to which the history is complete, {_MOMENT}"),
)
USAGE_REPORT = _of(
    "UsageReport is what was held in a span of time.",
    by=_text("What is added up, such as `queue`."),
    begin=_number(f"The start of the time, {_MOMENT}"),
    end=_number(f"The end of the time, {_MOMENT}"),
    rows=_list("The sums.", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    since=_number(f"The time from which on the history is complete, {_MOMENT}"),
)
RECORD = _of(
    "HistoryRecord is a record as it is kept.",
    record={"type": "object", "description": "The record.", "x-kubernetes-preserve-unknown-fields": True},
)
