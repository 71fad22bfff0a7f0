"""Expands a new Kubernetes Deployment, StatefulSet or Job into its pods and their pod group."""

from __future__ import annotations

from typing import Any

from kilauea.api.kinds import JOBS, REPLICA_SETS, STATEFUL_SETS
from kilauea.api.meta import Object
from kilauea.api.ports import Obj, Resource
from kilauea.api.wellknown import DEFAULT_SCHEDULER, GROUP_NAME
from kilauea.apiserver.patch.values import copied
from kilauea.apiserver.schema.builtin import definition
from kilauea.apiserver.schema.reading import DecodeError, read_builtin
from kilauea.controllers.objects import spec_of
from kilauea.controllers.pods import from_template
from kilauea.engine.model.kubernetes_groups import key_of
from kilauea.runtime.inputs.expanding.creation import Creation
from kilauea.runtime.inputs.expanding.groups import group_for
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
MOST_PODS = 100_000
"""Maximum pods of a workload: all of them are in memory."""


def expand_workload(workload: Obj, known: Known, creation: Creation) -> tuple[str, list[Object], NotCreated | None]:
    """The key of a workload's group (empty if it has none), its new group and pods, and the pods that are not created.

    An existing Deployment gets its missing replicas, in the group of the existing ones. A StatefulSet that creates one
    pod after another has only the first one as long as its group has too few pods to start.

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
    size = "parallelism" if resource == JOBS else "replicas"
    count = spec.get(size, 1)
    if count > MOST_PODS:
        raise Refused(f"spec.{size}: {count} pods are requested, and a plan takes {MOST_PODS} of a workload: set fewer")
    there = known.replicas(complete) if workload["kind"] == "Deployment" else ()
    if resource == STATEFUL_SETS and spec.get("podManagementPolicy") != "Parallel" and count > 1:
        first = group_for(_pod(owner, resource, 0), (resource, owner))
        count = 1 if first is not None and first["spec"]["minMember"] > 1 else count
    bodies = [_pod(owner, resource, number) for number in range(len(there), 0 if state_of_job(complete) else count)]
    if not bodies:
        return "", [], None
    group = group_for(bodies[0], (resource, owner))
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
