"""The check of names that objects refer to: schedulers, queues, priority classes and job plugins that do not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from kilauea.api.job_plugins import ARGUMENTS
from kilauea.api.kinds import POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, VC_JOBS
from kilauea.api.numbers import plural
from kilauea.api.ports import Obj
from kilauea.api.times import SECOND, parse_time
from kilauea.api.wellknown import GROUP_NAME, QUEUE_NAME
from kilauea.runtime.doctor.facts import Facts, name_of
from kilauea.runtime.doctor.findings import ERROR, WARNING, Check, Finding, check_of, unread
from kilauea.runtime.doctor.running import is_served, scheduler_names

DEFAULT_SCHEDULER = "default-scheduler"
ENDED = ("Completed", "Aborted", "Terminated", "Failed")
"""Phases of jobs whose names do not matter any more."""
GROUP_ENDED = "Completed"
OTHER_GROUP_NAME = "scheduling.volcano.sh/group-name"
"""An annotation that is often mistaken for the one that puts a pod into a group."""
SEEN_SECONDS = 15
"""Seconds after which a pod without any sign of a scheduler waits for one that does not run."""


def check_names(facts: Facts) -> Check:
    """Check the names that pods, pod groups and jobs refer to."""
    found = [*_schedulers(facts), *_queues(facts), *_groups(facts), *_classes(facts), *_plugins(facts), *_unread(facts)]
    return check_of("names", "all schedulers, queues, priority classes and job plugins exist", found)


def _unread(facts: Facts) -> Iterator[Finding]:
    """Yield the kinds whose names could not be checked; those that are not served are left to another check."""
    for kind in (PODS, POD_GROUPS, QUEUES, PRIORITY_CLASSES, VC_JOBS):
        error = facts.refused.get(kind)
        if error is not None and error.code != 404:
            full = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
            yield unread(kind.plural, error, f"grant your user list on {full}")


def _schedulers(facts: Facts) -> Iterator[Finding]:
    """Yield names of schedulers for which pods wait, once each."""
    served = scheduler_names(facts)
    known = served | {DEFAULT_SCHEDULER}
    waiting: dict[str, list[Obj]] = {}
    for pod in facts.all(PODS):
        spec = pod["spec"]
        name = spec.get("schedulerName") or DEFAULT_SCHEDULER
        pending = not spec.get("nodeName") and (pod.get("status") or {}).get("phase", "Pending") == "Pending"
        if pending and name not in known and not is_served(pod) and _waits(pod, facts.now):
            waiting.setdefault(name, []).append(pod)
    for name, pods in sorted(waiting.items()):
        first = min(pods, key=name_of)
        message = f"{plural(len(pods), 'pod')} wait for the scheduler {name}, which does not run"
        if served:
            fix = f"use schedulerName: {_nearest(name, served)}, or start a scheduler with --scheduler-name={name}"
        else:
            fix = f"start a scheduler: `kilauea scheduler --scheduler-name={name}`"
        yield Finding(ERROR, name_of(first), "spec.schedulerName", name, message, fix)


def _waits(pod: Obj, now: int) -> bool:
    """Return True if a pod has waited for so long that a scheduler would have processed it."""
    created = pod["metadata"].get("creationTimestamp")
    return not created or now - parse_time(created) > SEEN_SECONDS * SECOND


def _nearest(name: str, known: Collection[str]) -> str:
    return (get_close_matches(name, sorted(known), 1) or sorted(known))[0]


def _queues(facts: Facts) -> Iterator[Finding]:
    """Yield queues that do not exist, once for each object that names one."""
    if QUEUES in facts.refused:
        return
    known = {each["metadata"]["name"] for each in facts.all(QUEUES)}
    for obj in _unfinished(facts):
        name = (obj.get("spec") or {}).get("queue") or "default"
        if name not in known and not _owned(obj):
            message = f"queue {name} does not exist"
            yield Finding(ERROR, name_of(obj), "spec.queue", name, message, _other_queue(name, known))
    yield from _queues_of_pods(facts, known)
    yield from _parents(facts, known)


def _queues_of_pods(facts: Facts, known: Collection[str]) -> Iterator[Finding]:
    """Yield queues that pods name and that do not exist, once each: the pods get no pod group."""
    without: dict[str, list[Obj]] = {}
    for pod in facts.all(PODS):
        annotations = pod["metadata"].get("annotations") or {}
        name = annotations.get(QUEUE_NAME)
        if name and name not in known and not annotations.get(GROUP_NAME) and not pod["spec"].get("nodeName"):
            without.setdefault(name, []).append(pod)
    for name, pods in sorted(without.items()):
        first = min(pods, key=name_of)
        message = (
            f"queue {name} does not exist, so {plural(len(pods), 'pod')} {'get' if pods[1:] else 'gets'} no pod group"
        )
        place = f"metadata.annotations.{QUEUE_NAME}"
        yield Finding(ERROR, name_of(first), place, name, message, _other_queue(name, known))


def _groups(facts: Facts) -> Iterator[Finding]:
    """Yield groups that pods name with an annotation that only devices read, once each: the pods are in another one."""
    known = {name_of(each).partition(" ")[2] for each in facts.all(POD_GROUPS)}
    elsewhere: dict[str, list[Obj]] = {}
    for pod in facts.all(PODS):
        annotations = pod["metadata"].get("annotations") or {}
        name = annotations.get(OTHER_GROUP_NAME)
        group = f"{pod['metadata']['namespace']}/{name}"
        if name and annotations.get(GROUP_NAME) != name and group in known:
            elsewhere.setdefault(group, []).append(pod)
    for group, pods in sorted(elsewhere.items()):
        first, field = min(pods, key=name_of), f"metadata.annotations.{OTHER_GROUP_NAME}"
        message = f"{plural(len(pods), 'pod')} {'are' if pods[1:] else 'is'} not in pod group {group}"
        fix = f"use annotation {GROUP_NAME} in the template of the pods"
        yield Finding(WARNING, name_of(first), field, group.partition("/")[2], message, fix)


def _other_queue(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, sorted(known), 1)
    create = f"create the queue: `vcctl queue create --name {name}`"
    return f"use queue {near[0]}, or {create}" if near else create


def _parents(facts: Facts, known: Collection[str]) -> Iterator[Finding]:
    for queue in facts.all(QUEUES):
        parent = (queue.get("spec") or {}).get("parent")
        if parent and parent not in known:
            fix = f"create the queue: `vcctl queue create --name {parent}`, or name another parent"
            yield Finding(ERROR, name_of(queue), "spec.parent", parent, f"queue {parent} does not exist", fix)


def _unfinished(facts: Facts) -> Iterator[Obj]:
    """Yield the jobs and pod groups that are not at their end."""
    for job in facts.all(VC_JOBS):
        phase = ((job.get("status") or {}).get("state") or {}).get("phase", "")
        if phase not in ENDED:
            yield job
    for group in facts.all(POD_GROUPS):
        if (group.get("status") or {}).get("phase") != GROUP_ENDED:
            yield group


def _owned(obj: Obj) -> bool:
    """Return True for a pod group of a job: the job itself is named."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(each.get("kind") == VC_JOBS.kind for each in owners)


def _classes(facts: Facts) -> Iterator[Finding]:
    if PRIORITY_CLASSES in facts.refused:
        return
    known = {each["metadata"]["name"] for each in facts.all(PRIORITY_CLASSES)}
    for obj in _unfinished(facts):
        for field, name in _priorities(obj):
            if name not in known and not _owned(obj):
                near = get_close_matches(name, sorted(known), 1)
                create = f"create the PriorityClass: `kubectl create priorityclass {name} --value=1000`"
                fix = f"use {near[0]}, or {create}" if near else create
                message = f"PriorityClass {name} does not exist"
                yield Finding(ERROR, name_of(obj), field, name, message, fix)


def _priorities(obj: Obj) -> Iterable[tuple[str, str]]:
    """Yield the fields of a job or pod group that name a priority class."""
    spec: Mapping[str, Any] = obj.get("spec") or {}
    name = spec.get("priorityClassName")
    if name:
        yield "spec.priorityClassName", str(name)
    for number, task in enumerate(spec.get("tasks") or ()):
        name = ((task.get("template") or {}).get("spec") or {}).get("priorityClassName")
        if name:
            yield f"spec.tasks[{number}].template.spec.priorityClassName", str(name)


def _plugins(facts: Facts) -> Iterator[Finding]:
    for job in _unfinished(facts):
        for name in sorted((job.get("spec") or {}).get("plugins") or {}):
            if name in ARGUMENTS or job["kind"] != VC_JOBS.kind:
                continue
            near = get_close_matches(name, ARGUMENTS, 1)
            fix = f"use {near[0]}" if near else f"use one of {', '.join(ARGUMENTS)}"
            field = f"spec.plugins.{name}"
            yield Finding(WARNING, name_of(job), field, name, f"the job plugin {name} does not exist", fix)
