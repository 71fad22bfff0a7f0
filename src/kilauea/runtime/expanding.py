"""What becomes of jobs that are planned for: admission completes or refuses them, and their group and pods are made.

All of it by the functions that do so in a cluster, so that a plan is about the same pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kilauea.admission.registry import HOOKS
from kilauea.admission.review import Denied, Review, Settings
from kilauea.api.core import Pod
from kilauea.api.meta import Object
from kilauea.api.ports import Key, Obj, Resource, View
from kilauea.api.scheduling import PodGroup, PriorityClass
from kilauea.api.times import format_time
from kilauea.api.wellknown import SYSTEM_CLASSES
from kilauea.apiserver.patch.json_patch import json_patch
from kilauea.apiserver.patch.values import copied
from kilauea.controllers.kinds import POD_GROUPS, PODS, QUEUES, VC_JOBS
from kilauea.controllers.vcjobs.groups import group_of
from kilauea.controllers.vcjobs.plugins import PluginFault, active
from kilauea.controllers.vcjobs.pods import new_pod
from kilauea.runtime.template_rules import check_template

FINISHED = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
"""Phases of jobs that make no more pods."""
ENDING = frozenset({"Aborting", "Completing", "Terminating"})
"""Phases of jobs on their way there."""


@dataclass
class Expansion:
    """What was made of jobs, and which were left out and why."""

    objects: list[Object] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    """By job (`namespace/name`): its group."""
    warnings: list[str] = field(default_factory=list)


def expand(jobs: Sequence[Obj], objects: Sequence[Object], now: int) -> Expansion:
    """Groups and pods of jobs that they do not have yet.

    Args:
        jobs: Volcano's jobs, as they are written or stored.
        objects: what else is there.
        now: when jobs that say nothing of it are made, in microseconds since 1970; 0 to leave it open.
    """
    out = Expansion()
    known = _Queues(objects)
    priorities = {obj.name: obj.value for obj in objects if isinstance(obj, PriorityClass)} | dict(SYSTEM_CLASSES)
    have = {(type(obj), obj.key) for obj in objects if isinstance(obj, Pod | PodGroup)}
    for written in jobs:
        job = _stored(written, now)
        label = f"Job {job['metadata']['namespace']}/{job['metadata']['name']}"
        try:
            if not _phase(job):
                job = _admitted(job, known)
            out.groups[label.removeprefix("Job ")] = _group_key(job, have)
            if _phase(job) in FINISHED | ENDING:
                continue
            made = _made(job, lambda name: priorities.get(name, 0))
        except Denied as denied:
            out.warnings.append(f"{label}: admission refuses it: {denied.message}; left out")
        except PluginFault as fault:
            out.warnings.append(f"{label}: {fault}; left out")
        else:
            out.objects += [obj for obj in made if (type(obj), obj.key) not in have]
    return out


def _group_key(job: Obj, have: Collection[tuple[type, str]]) -> str:
    """The group of a job; in old clusters it has the name of the job."""
    metadata = job["metadata"]
    old = f"{metadata['namespace']}/{metadata['name']}"
    return old if (PodGroup, old) in have else f"{old}-{metadata['uid']}"


def _phase(job: Obj) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "")


def _stored(job: Obj, now: int) -> dict[str, Any]:
    """A job as a server would store it."""
    metadata = dict(job["metadata"])
    metadata["namespace"] = metadata.get("namespace") or "default"
    metadata.setdefault("uid", f"{metadata['namespace']}-{metadata['name']}")
    if now:
        metadata.setdefault("creationTimestamp", format_time(now))
    spec = {"queue": "default", "maxRetry": 3, **(job.get("spec") or {})}
    return {**job, "metadata": metadata, "spec": spec}


def _admitted(job: dict[str, Any], known: View) -> dict[str, Any]:
    """A new job with its defaults.

    Raises:
        Denied: it would be refused.
    """
    settings = Settings(check_template=check_template)
    metadata = job["metadata"]
    for hook in HOOKS:
        if hook.resource[:3] != VC_JOBS[:3] or "CREATE" not in hook.operations:
            continue
        review = Review("CREATE", VC_JOBS, metadata["namespace"], metadata["name"], job, None)
        if hook.mutate is not None:
            job = json_patch(copied(job), hook.mutate(review, known, settings))
        if hook.validate is not None:
            hook.validate(review, known, settings)
    return job


def _made(job: Obj, priorities: Callable[[str], int]) -> list[Object]:
    """The group of a job and all its pods.

    Raises:
        PluginFault: a plugin of the job cannot be used.
    """
    plugins = active(job)
    group = group_of(job, priorities)
    made: list[Object] = [msgspec.convert(_dated(group, job, POD_GROUPS), PodGroup)]
    for task in job["spec"].get("tasks") or ():
        for index in range(task.get("replicas") or 0):
            pod = new_pod(job, task, index)
            for plugin in plugins:
                plugin.on_pod(pod, task, index)
            made.append(msgspec.convert(_dated(pod, job, PODS), Pod))
    return made


def _dated(body: dict[str, Any], job: Obj, resource: Resource) -> dict[str, Any]:
    """A new object with its kind, as old as its job."""
    metadata = dict(body["metadata"])
    if "creationTimestamp" in job["metadata"]:
        metadata["creationTimestamp"] = job["metadata"]["creationTimestamp"]
    return {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


class _Queues:
    """The queues that are there, as a view."""

    def __init__(self, objects: Sequence[Object]) -> None:
        plain = (msgspec.to_builtins(obj) for obj in objects if obj.kind == "Queue")
        self._queues: Mapping[str, Obj] = {queue["metadata"]["name"]: queue for queue in plain}

    def get(self, resource: Resource, key: Key) -> Obj | None:
        """One object."""
        return self._queues.get(key.name) if resource == QUEUES else None

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Obj]:
        """All objects of a kind."""
        return [self._queues[name] for name in sorted(self._queues)] if resource == QUEUES else []

    def owned(self, resource: Resource, uid: str) -> Sequence[Obj]:
        """None: queues have no owners."""
        return []

    def labelled(self, resource: Resource, label: str, value: str) -> Sequence[Obj]:
        """None: nobody looks for queues by labels."""
        return []

    def indexed(self, resource: Resource, index: str, value: str) -> Sequence[Obj]:
        """Queues by their parent."""
        return [queue for queue in self.list(resource) if (queue.get("spec") or {}).get("parent") == value]
