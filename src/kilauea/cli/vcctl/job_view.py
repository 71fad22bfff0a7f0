"""The details of a job as text: spec, status, the reason why it waits, and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kilauea.api.ages import since
from kilauea.api.kinds import EVENTS, POD_GROUPS
from kilauea.api.ports import Key, Obj
from kilauea.api.printing import printable
from kilauea.cli.vcctl.cluster import now, object_or_none, objects
from kilauea.cli.vcctl.job_list import local_time, phase_of, tasks_of
from kilauea.cli.vcctl.tables import part

if TYPE_CHECKING:
    from kilauea.api.ports import Api

NONE = "<none>"
MOMENT = "%Y-%m-%d %H:%M:%S"
COUNTS = "Succeeded Pending Running Failed Terminating Unknown RetryCount MinAvailable Version".split()
WAITING = ("", "Pending", "Restarting")
"""Phases in which a job may wait."""
AGAINST = ("Unschedulable", "NoScheduler", "PodsNotCreated")
"""Conditions of a pod group that keep its pods from running."""
EVENT_WIDTHS = (15, 40, 30, 40)


class Surroundings(NamedTuple):
    """The objects that are shown with a job."""

    group: Obj | None
    events: Sequence[Obj]
    why: Sequence[tuple[str, str]] = ()
    """The reason why the job waits, in labelled lines; empty if the conditions give it."""


async def read_surroundings(api: Api, job: Obj) -> Surroundings:
    """The PodGroup and the events of a job."""
    metadata = job["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    group = await object_or_none(api, POD_GROUPS, Key(namespace, f"{name}-{metadata['uid']}"))
    group = group or await object_or_none(api, POD_GROUPS, Key(namespace, name))
    about = f"involvedObject.kind=Job,involvedObject.name={name}"
    events = [e for e in await objects(api, EVENTS, namespace, fields=about) if _is_about(e, metadata.get("uid"))]
    return Surroundings(group, sorted(events, key=_last_time))


def _is_about(event: Obj, uid: str | None) -> bool:
    """True if an event is about this object, and not about an earlier one of the same name."""
    return part(event, "involvedObject", "uid") in (None, "", uid)


def print_job(job: Obj, surroundings: Surroundings, conditions: bool = True) -> None:
    """Print a job, with its conditions on request."""
    moment = now()
    sections = (
        _identity(job),
        _spec(job["spec"], tasks_of(job)),
        _status(job.get("status") or {}, conditions),
        _waiting(job, surroundings, moment),
        _events(surroundings.events, moment),
    )
    click.echo("\n".join(line for section in sections for line in section))


def _line(depth: int, label: str, value: Any = None) -> str:
    """A label with its value; nothing if there is no value."""
    text = "" if value is None else f"\t{printable(str(value))}"
    return f"{'  ' * depth}{label}:{text}"


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, sort_keys=True) if value else NONE


def _identity(job: Obj) -> Iterator[str]:
    metadata = job["metadata"]
    yield _line(0, "Name", metadata["name"])
    yield _line(0, "Namespace", metadata["namespace"])
    yield _line(0, "Labels", _json(metadata.get("labels")))
    yield _line(0, "Annotations", _json(metadata.get("annotations")))
    yield _line(0, "API Version", job["apiVersion"])
    yield _line(0, "Kind", job["kind"])
    yield _line(0, "Metadata")
    yield _line(1, "Creation Timestamp", local_time(metadata.get("creationTimestamp"), MOMENT))
    yield _line(1, "Generate Name", metadata.get("generateName", ""))
    yield _line(1, "Generation", metadata.get("generation", 0))
    yield _line(1, "Resource Version", metadata.get("resourceVersion", ""))
    yield _line(1, "UID", metadata.get("uid", ""))


# --- spec


def _spec(spec: Obj, tasks: Sequence[Obj]) -> Iterator[str]:
    yield _line(0, "Spec")
    yield _line(1, "Min Available", spec.get("minAvailable", 0))
    if spec.get("minSuccess") is not None:
        yield _line(1, "Min Success", spec["minSuccess"])
    yield _line(1, "Queue", spec.get("queue") or NONE)
    if spec.get("priorityClassName"):
        yield _line(1, "Priority Class Name", spec["priorityClassName"])
    if spec.get("plugins"):
        yield _line(1, "Plugins")
        for name in sorted(spec["plugins"]):
            yield _line(2, name.capitalize(), " ".join(spec["plugins"][name] or ()))
    yield from _policies(1, spec)
    yield _line(1, "Max Retry", spec.get("maxRetry", 0))
    yield _line(1, "Scheduler Name", spec.get("schedulerName", ""))
    yield _line(1, "Tasks")
    for task in tasks:
        yield from _task(task)


def _policies(depth: int, owner: Obj) -> Iterator[str]:
    if owner.get("policies"):
        yield _line(depth, "Policies")
    for policy in owner.get("policies") or ():
        on = [*([policy["event"]] if policy.get("event") else []), *(policy.get("events") or ())]
        on += [f"exit code {policy['exitCode']}"] if policy.get("exitCode") is not None else []
        after = f" after {policy['timeout']}" if policy.get("timeout") else ""
        yield _line(depth + 1, ", ".join(on), f"{policy.get('action', '')}{after}")


def _task(task: Obj) -> Iterator[str]:
    yield _line(2, "Name", task.get("name", ""))
    yield _line(2, "Replicas", task.get("replicas", 0))
    if task.get("minAvailable") is not None:
        yield _line(2, "Min Available", task["minAvailable"])
    if part(task, "dependsOn", "name"):
        yield _line(2, "Depends On", ", ".join(task["dependsOn"]["name"]))
    yield from _policies(2, task)
    template = part(task, "template", "spec") or {}
    yield _line(2, "Template")
    yield _line(3, "Spec")
    yield _line(4, "Containers")
    for container in template.get("containers") or ():
        yield from _container(container)
    secrets = [each.get("name", "") for each in template.get("imagePullSecrets") or ()]
    yield _line(4, "Image Pull Secrets", ", ".join(secrets) or NONE)
    yield _line(4, "Restart Policy", template.get("restartPolicy", ""))


def _container(container: Obj) -> Iterator[str]:
    if container.get("command"):
        yield _line(5, "Command")
        yield from (f"{'  ' * 6}{printable(word)}" for word in container["command"])
    yield _line(5, "Image", container.get("image", ""))
    yield _line(5, "Name", container.get("name", ""))
    ports = [f"{port.get('containerPort')}/{port.get('protocol', 'TCP')}" for port in container.get("ports") or ()]
    yield _line(5, "Ports", ", ".join(ports) or NONE)
    for kind in ("limits", "requests"):
        amounts: Mapping[str, str] = part(container, "resources", kind) or {}
        if amounts:
            yield _line(5, kind.capitalize())
        for name in sorted(amounts):
            yield _line(6, name.capitalize() if name in ("cpu", "memory") else name, amounts[name])
    if container.get("workingDir"):
        yield _line(5, "Working Dir", container["workingDir"])


# --- status


def _status(status: Obj, conditions: bool) -> Iterator[str]:
    yield _line(0, "Status")
    for label in COUNTS:
        if count := status.get(label[0].lower() + label[1:]):
            yield _line(1, "Min Available" if label == "MinAvailable" else label, count)
    if status.get("taskStatusCount"):
        yield _line(1, "Tasks")
        for name, counts in sorted(status["taskStatusCount"].items()):
            phases = sorted((counts.get("phase") or {}).items())
            yield _line(2, name, ", ".join(f"{count} {phase}" for phase, count in phases) or NONE)
    yield _line(1, "State")
    yield _line(2, "Phase", part(status, "state", "phase") or "")
    for label in ("reason", "message"):
        if part(status, "state", label):
            yield _line(2, label.capitalize(), status["state"][label])
    if status.get("controlledResources"):
        yield _line(1, "Controlled Resources")
        yield from (_line(2, name, value) for name, value in sorted(status["controlledResources"].items()))
    if conditions and status.get("conditions"):
        yield _line(1, "Conditions")
        for condition in status["conditions"]:
            yield _line(2, "Status", condition.get("status", ""))
            yield _line(2, "TransitionTime", local_time(condition.get("lastTransitionTime"), MOMENT))


def _waiting(job: Obj, surroundings: Surroundings, moment: int) -> Iterator[str]:
    """The state of the PodGroup, and the reason why the job waits."""
    group = surroundings.group
    if group is None:
        if phase_of(job) in WAITING:
            yield _line(0, "Pod Group", f"{NONE}: no controller has created one yet")
            yield from (_line(1, label, text) for label, text in surroundings.why)
        return
    status = group.get("status") or {}
    yield _line(0, "Pod Group")
    yield _line(1, "Name", group["metadata"]["name"])
    yield _line(1, "Phase", status.get("phase") or "")
    found = sorted(status.get("conditions") or (), key=lambda each: str(each.get("lastTransitionTime") or ""))
    if phase_of(job) in WAITING:
        why = surroundings.why or [("Waits Because", _why(job, status, found))]
        yield from (_line(1, label, text) for label, text in why)
    if found:
        yield _line(1, "Conditions")
    for each in found:
        said = ": ".join(filter(None, (each.get("reason"), each.get("message"))))
        ago = f" ({since(each['lastTransitionTime'], moment)} ago)" if each.get("lastTransitionTime") else ""
        yield _line(2, f"{each.get('type')}={each.get('status')}", said + ago)


def _why(job: Obj, status: Obj, conditions: Sequence[Obj]) -> str:
    """The message of the job, or else of the newest condition that blocks it."""
    if own := part(job, "status", "state", "message"):
        return str(own)
    against = [each for each in conditions if each.get("type") in AGAINST and each.get("status") == "True"]
    if against:
        return str(against[-1].get("message") or against[-1].get("reason") or "")
    if status.get("phase") in ("", None, "Pending"):
        return "its queue has not admitted it yet"
    return "its pods are being created or scheduled"


# --- events


def _last_time(event: Obj) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or "")


def _events(events: Sequence[Obj], moment: int) -> Iterator[str]:
    if not events:
        yield "Events: \t<none>"
        return
    yield "Events:"
    yield _columns(["Type", "Reason", "Age", "Form", "Message"])
    yield _columns(["-------"] * 5)
    for event in events:
        count = event.get("count") or part(event, "series", "count") or 1
        last = since(_last_time(event), moment)
        first = since(event.get("firstTimestamp") or event.get("eventTime"), moment)
        age = f"{last} (x{count} over {first})" if count > 1 else last
        source = part(event, "source", "component") or event.get("reportingComponent") or ""
        yield _columns([event.get("type", ""), event.get("reason", ""), age, source, event.get("message", "").strip()])


def _columns(cells: Iterable[str]) -> str:
    *first, last = map(printable, cells)
    return "".join(cell.ljust(width - 1) + " " for cell, width in zip(first, EVENT_WIDTHS, strict=True)) + last
