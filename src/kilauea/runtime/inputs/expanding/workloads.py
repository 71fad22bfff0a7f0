"""Expands a new Kubernetes Deployment, StatefulSet or Job into its pods and their pod group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kilauea.api.kinds import JOBS, POD_GROUPS, PODS, REPLICA_SETS, STATEFUL_SETS
from kilauea.api.meta import Object
from kilauea.api.ports import Create, Key, Obj, Resource
from kilauea.api.wellknown import DEFAULT_SCHEDULER, GROUP_NAME
from kilauea.apiserver.patch.values import copied
from kilauea.apiserver.schema.builtin import definition
from kilauea.apiserver.schema.reading import DecodeError, read_builtin
from kilauea.controllers.objects import spec_of
from kilauea.controllers.podgroups import PodGroupController
from kilauea.controllers.pods import from_template
from kilauea.engine.model.kubernetes_groups import key_of
from kilauea.runtime.inputs.expanding.creation import Creation
from kilauea.runtime.inputs.expanding.objects import Known, made_group, made_pod
from kilauea.runtime.inputs.expanding.refusing import Refused
from kilauea.runtime.inputs.expanding.states import state_of_job
from kilauea.simulator.scenario import NotCreated

OWNERS = {"Deployment": REPLICA_SETS, "StatefulSet": STATEFUL_SETS, "Job": JOBS}
"""Owners of the pods of a kind."""
SCHEMAS = {
    "Deployment": "io.k8s.api.apps.v1.Deployment",
    "StatefulSet": "io.k8s.api.apps.v1.StatefulSet",
    "Job": "io.k8s.api.batch.v1.Job",
}
"""Fields of a kind."""
GANGS = ("volcano", "kilauea")
"""Schedulers whose pods get groups."""


def expand_workload(workload: Obj, known: Known, creation: Creation) -> tuple[str, list[Object], NotCreated | None]:
    """The key of a workload's group (empty if it has none), its new group and pods, and the pods that are not created.

    An existing Deployment gets its missing replicas, in the group of the existing ones.

    Raises:
        Refused: the API server would reject the workload.
    """
    resource = OWNERS[workload["kind"]]
    complete = copied(workload)
    try:
        read_builtin(definition(SCHEMAS[workload["kind"]]), complete)
    except DecodeError as error:
        raise Refused(str(error)) from error
    owner = {**complete, "apiVersion": resource.api_version, "kind": resource.kind}
    spec = spec_of(complete)
    count = spec.get("parallelism" if resource == JOBS else "replicas", 1)
    there = known.replicas(complete) if workload["kind"] == "Deployment" else ()
    bodies = [_pod(owner, resource, number) for number in range(len(there), 0 if state_of_job(complete) else count)]
    if not bodies:
        return "", [], None
    group = _group(bodies[0], owner, resource)
    made: list[Object] = []
    joined = next((name for each in there if (name := each.annotations.get(GROUP_NAME))), "")
    if group is not None and joined:
        group["metadata"]["name"] = joined
    elif group is not None:
        made.append(made_group(group, owner))
    refused, missing = creation.refusals(bodies)
    for body in (body for place, body in enumerate(bodies) if place not in refused):
        if group is not None:
            body["metadata"].setdefault("annotations", {})[GROUP_NAME] = group["metadata"]["name"]
        made.append(made_pod(body, owner))
    return _group_key(owner, group, bodies[0]), made, missing


def _group_key(owner: Obj, group: Obj | None, pod: Obj) -> str:
    """The key of the group that is created for the pods, or of the Kubernetes group that they name; or empty."""
    namespace = owner["metadata"]["namespace"]
    if group is not None:
        return f"{namespace}/{group['metadata']['name']}"
    named = (spec_of(pod).get("schedulingGroup") or {}).get("podGroupName")
    return key_of(namespace, named) if named else ""


def _pod(owner: Obj, resource: Resource, number: int) -> dict[str, Any]:
    """One of the pods; the actual names of pods of Deployments and Jobs are not known yet."""
    template = spec_of(owner).get("template") or {}
    name = f"{owner['metadata']['name']}-{number}"
    pod = from_template(template, resource, owner, name)
    pod["metadata"]["uid"] = f"{owner['metadata']['uid']}-{number}"
    pod["spec"] = {**pod["spec"], "schedulerName": pod["spec"].get("schedulerName") or DEFAULT_SCHEDULER}
    return pod


def _group(pod: dict[str, Any], owner: Obj, resource: Resource) -> dict[str, Any] | None:
    """The group that the podgroup controller would create."""
    controller = PodGroupController(GANGS)
    key = Key(pod["metadata"]["namespace"], pod["metadata"]["name"])
    view = _One(owner, resource, pod)
    for operation in controller.reconcile(key, view, 0).operations:
        if isinstance(operation, Create) and operation.resource == POD_GROUPS:
            return dict(operation.body)
    return None


class _One:
    """A view of one owner and one of its pods."""

    def __init__(self, owner: Obj, resource: Resource, pod: Obj) -> None:
        self._objects = {resource: owner, PODS: pod}

    def get(self, resource: Resource, key: Key) -> Obj | None:
        """The owner or the pod."""
        found = self._objects.get(resource)
        return found if found is not None and found["metadata"]["name"] == key.name else None

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Obj]:
        """The owner or the pod, alone."""
        return [self._objects[resource]] if resource in self._objects else []

    def owned(self, resource: Resource, uid: str, namespace: str, most: int | None = None) -> Sequence[Obj]:
        """The pod, of its owner."""
        return self.list(resource) if resource == PODS else []

    def labelled(self, resource: Resource, label: str, value: str) -> Sequence[Obj]:
        """None."""
        return []

    def indexed(self, resource: Resource, index: str, value: str) -> Sequence[Obj]:
        """None."""
        return []

    def count_indexed(self, resource: Resource, index: str, value: str) -> int:
        """Return the number of these objects."""
        return len(self.indexed(resource, index, value))

    def aggregate(self, resource: Resource, name: str, value: str) -> None:
        """None: nothing is aggregated."""
