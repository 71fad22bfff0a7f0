"""Owners are in the namespace of what they own: a reference from another namespace is a name that anyone may write."""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.api.kinds import DEPLOYMENTS, NODES, PODS, REPLICA_SETS, VC_JOBS
from kilauea.api.ports import Obj, Resource
from kilauea.client.view import Cache
from kilauea.controllers import pods
from kilauea.controllers.deployments import revisions
from kilauea.controllers.objects import ORPHANS, orphans_of, owned_by
from kilauea.controllers.vcjobs.members import Members
from kilauea.controllers.vcjobs.roster import ROSTER, ROSTERS
from kilauea.controllers.vcjobs.work import Work

UID = "5d0e"
LABELS = {"app": "shop"}


def owner(resource: Resource, **spec: Any) -> Obj:
    """The object that is to have no dependents in other namespaces."""
    metadata = {"name": "m", "namespace": "team", "uid": UID, "resourceVersion": "1"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def view_of(resource: Resource, *namespaces: str, of: Resource) -> Cache:
    """A view with an object in each of these namespaces, each of which says that the owner controls it."""
    reference = {"apiVersion": of.api_version, "kind": of.kind, "name": "m", "uid": UID, "controller": True}
    marks = {"volcano.sh/job-name": "m", "volcano.sh/task-spec": "a", "volcano.sh/job-version": "0"}
    items = [
        {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                "name": "m-a-0",
                "namespace": namespace,
                "uid": namespace,
                "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": LABELS,
                "annotations": marks,
                "ownerReferences": [reference],
            },
            "spec": {},
            "status": {"phase": "Failed"},
        }
        for namespace in namespaces
    ]
    cache = Cache()
    indexer = cache.declare(resource, (), {ORPHANS: orphans_of}, aggregates={ROSTER: ROSTERS})
    indexer.on_relist([*map(msgspec.json.encode, items)], "1")
    return cache


def test_a_volcano_job_counts_no_pod_of_another_namespace() -> None:
    view = view_of(PODS, "team", "thief", of=VC_JOBS)
    members = Members(Work(owner(VC_JOBS)), view)
    assert [each.key.namespace for each in members.where(lambda state: True)] == ["team"]


def test_a_workload_counts_and_lets_go_no_pod_of_another_namespace() -> None:
    view = view_of(PODS, "team", "thief", of=REPLICA_SETS)
    mine, operations = pods.claim(view, REPLICA_SETS, owner(REPLICA_SETS, selector={"matchLabels": LABELS}))
    assert ([each["metadata"]["namespace"] for each in mine], operations) == (["team"], [])
    other = view_of(PODS, "thief", of=REPLICA_SETS)
    assert pods.claim(other, REPLICA_SETS, owner(REPLICA_SETS, selector={"matchLabels": {"app": "x"}})) == ([], [])


def test_a_deployment_counts_no_replica_set_of_another_namespace() -> None:
    view = view_of(REPLICA_SETS, "team", "thief", of=DEPLOYMENTS)
    mine, _ = revisions.claim(view, owner(DEPLOYMENTS, selector={"matchLabels": LABELS}))
    assert [each["metadata"]["namespace"] for each in mine] == ["team"]


def test_an_object_of_the_cluster_may_own_objects_of_any_namespace() -> None:
    node = {"metadata": {"name": "m", "uid": UID}}
    assert len(owned_by(view_of(PODS, "a", "b", of=NODES), PODS, node)) == 2
