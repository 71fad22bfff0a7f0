"""The base of all plugins of jobs: their arguments, their additions to pods, and the objects that they maintain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from kilauea.api.job_plugins import PluginFault
from kilauea.api.kinds import VC_JOBS
from kilauea.api.ports import Create, Delete, Key, Obj, Operation, Patch, Resource, View, key_of
from kilauea.controllers.objects import controller_of, name_of, owner_reference, spec_of, uid_of
from kilauea.controllers.vcjobs.names import pod_name, task_name
from kilauea.controllers.vcjobs.refusals import PLUGIN_REFUSED

Task = Mapping[str, Any]
Pod = dict[str, Any]


def _as_it_is(found: Obj) -> None:
    """Change nothing."""


@dataclass(frozen=True, slots=True)
class Belonging:
    """An object that a plugin maintains for its job.

    Attributes:
        resource: its kind.
        name: its name, in the namespace of the job.
        content: builds everything but kind and metadata.
        refresh: returns the merge patch that updates an existing one, or None if it is current.
        labels: labels at its creation.
        annotations: annotations at its creation.
    """

    resource: Resource
    name: str
    content: Callable[[], dict[str, Any]]
    refresh: Callable[[Obj], dict[str, Any] | None] = _as_it_is
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


class JobPlugin:
    """A plugin for one job.

    Args:
        job: the job.
        arguments: the plugin's value in `spec.plugins` of the job.

    Raises:
        PluginFault: the arguments or the job are invalid for it.
    """

    name: ClassVar[str] = ""

    def __init__(self, job: Obj, arguments: Sequence[str]) -> None:
        self.job = job

    @property
    def controlled(self) -> tuple[str, str] | None:
        """The entry in `controlledResources` of the status that shows that this plugin has run, if any."""
        return f"plugin-{self.name}", self.name

    def on_pod(self, pod: Pod, task: Task, index: int) -> None:
        """Extend a new pod; extended lists must be replaced by new ones."""

    @property
    def belongings(self) -> Sequence[Belonging]:
        """The objects that must exist while the job is active."""
        return ()

    def objects(self, view: View) -> Sequence[Operation]:
        """Operations that create or update all belongings; empty if they are current.

        Raises:
            PluginFault: an object with the same name does not belong to the job, and lacks content that pods need.
        """
        return [*self._missing(view)]

    def _missing(self, view: View) -> Iterator[Operation]:
        for each in self.belongings:
            found = view.get(each.resource, self._key(each))
            if found is None:
                yield Create(each.resource, self._made(each), self.job, PLUGIN_REFUSED)
                continue
            patch = each.refresh(found)
            if patch is None:
                continue
            if self._is_of_the_job(found):
                yield Patch(each.resource, key_of(found), patch)
            else:
                self._accept(each, found, patch)

    def _is_of_the_job(self, found: Obj) -> bool:
        """Return True if an object was created for this job, or for an earlier one with its name."""
        owner = controller_of(found)
        kind = (VC_JOBS.api_version, VC_JOBS.kind, name_of(self.job))
        return owner is not None and (owner["apiVersion"], owner["kind"], owner["name"]) == kind

    def _accept(self, belonging: Belonging, found: Obj, patch: Mapping[str, Any]) -> None:
        """Accept an object of others unchanged, such as a Secret with their own keys.

        It is not changed: permission to create jobs must not include permission to write any ConfigMap or Secret with
        such a name.
        """
        data = found.get("data") or {}
        lacking = sorted(name for name, value in patch["data"].items() if value is not None and name not in data)
        if lacking:
            what = f"{belonging.resource.kind} {belonging.name}"
            way_out = f"rename the job, or delete the {belonging.resource.kind}"
            why = f"{what} was not created for this job and lacks {', '.join(lacking)}: {way_out}"
            raise PluginFault(self.name, why)

    def removal(self, view: View) -> Sequence[Operation]:
        """Operations that remove all belongings of the job."""
        operations = []
        for each in self.belongings:
            found = view.get(each.resource, self._key(each))
            owner = controller_of(found) if found is not None else None
            if found is not None and owner is not None and owner["uid"] == uid_of(self.job):
                operations.append(Delete(each.resource, key_of(found), uid_of(found)))
        return operations

    def _key(self, belonging: Belonging) -> Key:
        return Key(self.job["metadata"]["namespace"], belonging.name)

    def _made(self, belonging: Belonging) -> dict[str, Any]:
        resource = belonging.resource
        metadata = {
            "name": belonging.name,
            "namespace": self.job["metadata"]["namespace"],
            "ownerReferences": [owner_reference(VC_JOBS, self.job)],
        }
        if belonging.labels:
            metadata["labels"] = dict(belonging.labels)
        if belonging.annotations:
            metadata["annotations"] = dict(belonging.annotations)
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            **belonging.content(),
        }

    # --- the job

    @cached_property
    def tasks(self) -> Mapping[str, Task]:
        """The tasks of the job by name, in order."""
        return {task_name(each): each for each in spec_of(self.job).get("tasks") or ()}

    def replicas(self, task: str) -> int:
        """Return the number of pods of a task; 0 if there is no such task."""
        return int(self.tasks.get(task, {}).get("replicas") or 0)

    def hosts(self, task: str) -> list[tuple[str, str]]:
        """Host name and domain of each pod of a task; if its template fixes the host name, there is only one."""
        given = self.tasks[task]
        spec = (given.get("template") or {}).get("spec") or {}
        domain, fixed = spec.get("subdomain") or name_of(self.job), spec.get("hostname")
        if fixed:
            return [(fixed, domain)] if self.replicas(task) else []
        return [(pod_name(self.job, given, index), domain) for index in range(self.replicas(task))]

    def addresses(self, task: str) -> list[str]:
        """`<host>.<domain>` of each pod of a task, its address for the others."""
        return [f"{host}.{domain}" for host, domain in self.hosts(task)]
