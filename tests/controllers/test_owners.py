"""Owners are in the namespace of what they own: a reference from another namespace is a name that anyone may write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kilauea.api.kinds import DEPLOYMENTS, NODES, PODS, REPLICA_SETS, VC_JOBS
from kilauea.api.ports import Key, Obj, Operation, Resource
from kilauea.client.view import Cache
from kilauea.controllers import pods
from kilauea.controllers.deployments import revisions
from kilauea.controllers.objects import MOST_LABELS, OF_ORPHANS, owned_by
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
    indexer = cache.declare(resource, aggregates={**OF_ORPHANS, ROSTER: ROSTERS})
    indexer.on_relist([*map(msgspec.json.encode, items)], "1")
    return cache


def test_a_volcano_job_counts_no_pod_of_another_namespace() -> None:
    view = view_of(PODS, "team", "thief", of=VC_JOBS)
    members = Members(Work(owner(VC_JOBS)), view)
    assert [each.key.namespace for each in members.where(lambda state: True)] == ["team"]


def test_a_workload_counts_and_lets_go_no_pod_of_another_namespace() -> None:
    view = view_of(PODS, "team", "thief", of=REPLICA_SETS)
    mine, operations = claimed(pods.claim(view, REPLICA_SETS, owner(REPLICA_SETS, selector={"matchLabels": LABELS})))
    assert ([each["metadata"]["namespace"] for each in mine], operations) == (["team"], [])
    other = view_of(PODS, "thief", of=REPLICA_SETS)
    assert claimed(pods.claim(other, REPLICA_SETS, owner(REPLICA_SETS, selector={"matchLabels": {"app": "x"}}))) == (
        [],
        [],
    )


def test_a_deployment_counts_no_replica_set_of_another_namespace() -> None:
    view = view_of(REPLICA_SETS, "team", "thief", of=DEPLOYMENTS)
    mine, _ = revisions.claim(view, owner(DEPLOYMENTS, selector={"matchLabels": LABELS}))
    assert [each["metadata"]["namespace"] for each in mine] == ["team"]


def test_an_object_of_the_cluster_may_own_objects_of_any_namespace() -> None:
    node = {"metadata": {"name": "m", "uid": UID}}
    assert len(owned_by(view_of(PODS, "a", "b", of=NODES), PODS, node)) == 2


def claimed(steps: pods.Claimed) -> tuple[list[Obj], list[Operation]]:
    """What an owner claims, at the end of all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: tuple[list[Obj], list[Operation]] = end.value
            return found


class Unread(Cache):
    """A view of pods that notes of which more than the labels is read."""

    def __init__(self, pods: list[dict[str, Any]]) -> None:
        super().__init__()
        self.read: list[str] = []
        self.declare(PODS, aggregates=OF_ORPHANS).on_relist([*map(msgspec.json.encode, pods)], "1")

    def get(self, resource: Resource, key: Key) -> Obj | None:
        self.read.append(key.name)
        return super().get(resource, key)


def pod_of(name: str, labels: dict[str, str], **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team", "uid": name, "resourceVersion": "1"} | {"labels": labels, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": "Running"}}


def test_an_owner_reads_no_pod_but_those_that_it_adopts() -> None:
    strangers = [pod_of(f"p{number}", {"app": "other", "n": str(number % 7)}) for number in range(100)]
    finished = {**pod_of("over", LABELS), "status": {"phase": "Failed"}}
    going = pod_of("going", LABELS, deletionTimestamp="2026-01-01T00:00:00Z")
    view = Unread([*strangers, finished, going, pod_of("b", {**LABELS, "x": "y"}), pod_of("a", LABELS)])
    mine, operations = claimed(pods.claim(view, REPLICA_SETS, owner(REPLICA_SETS, selector={"matchLabels": LABELS})))
    assert ([each["metadata"]["name"] for each in mine], view.read) == (["a", "b"], ["a", "b"])
    assert len(operations) == 2


def test_a_pod_with_very_many_labels_is_not_adopted() -> None:
    more = {f"l{number}": "" for number in range(MOST_LABELS)}
    view = Unread([pod_of("a", {**LABELS, **more})])
    assert claimed(pods.claim(view, REPLICA_SETS, owner(REPLICA_SETS, selector={"matchLabels": LABELS}))) == ([], [])


def test_a_pod_that_changes_its_labels_is_adopted_by_them() -> None:
    view = Unread([pod_of("a", LABELS), pod_of("b", {"app": "other"})])
    changed = [
        msgspec.json.encode(each)
        for each in (pod_of("a", {"app": "other"}, resourceVersion="2"), pod_of("b", LABELS, resourceVersion="2"))
    ]
    view.declare(PODS).on_relist(changed, "2")
    mine, _ = claimed(pods.claim(view, REPLICA_SETS, owner(REPLICA_SETS, selector={"matchLabels": LABELS})))
    assert [each["metadata"]["name"] for each in mine] == ["b"]
    view.declare(PODS).on_relist([], "3")
    assert claimed(pods.claim(view, REPLICA_SETS, owner(REPLICA_SETS, selector={"matchLabels": LABELS}))) == ([], [])


def test_the_pods_of_an_owner_are_read_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "READ_PER_STEP", 2)
    steps = pods.claim(
        view_of(PODS, "team", of=REPLICA_SETS), REPLICA_SETS, owner(REPLICA_SETS, selector={"matchLabels": LABELS})
    )
    assert list(steps) == []
    controlled = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "m", "uid": UID}]}
    view = Unread([pod_of(name, LABELS, **controlled) for name in "abcde"])
    assert len(list(pods.claim(view, REPLICA_SETS, owner(REPLICA_SETS, selector={"matchLabels": LABELS})))) == 2
