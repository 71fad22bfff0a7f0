"""A tree of queues is deleted as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kilauea.api.kinds import COMMANDS, POD_GROUPS, PODS, QUEUES
from kilauea.api.ports import ApiError, Key, Resource
from kilauea.cli.vcctl.command import CommandError
from kilauea.cli.vcctl.queue_deletion import delete_tree
from kilauea.client.rest import Client
from kilauea.runtime.cluster.direct import DirectTransport
from support.controlled import Cluster
from support.vcctl_runs import Console, Objects

ORDER = ("leaf", "mid-a", "mid-b", "top")


def plant(objects: Objects, prefix: str) -> list[str]:
    """A tree of queues; their names from the leaves on."""
    for name, parent in (("top", "root"), ("mid-a", "top"), ("leaf", "mid-a"), ("mid-b", "top")):
        above = parent if parent == "root" else f"{prefix}-{parent}"
        objects.put(QUEUES, {"metadata": {"name": f"{prefix}-{name}"}, "spec": {"weight": 1, "parent": above}})
    return [f"{prefix}-{name}" for name in ORDER]


def names(objects: Objects) -> set[str]:
    return {each["metadata"]["name"] for each in objects.all(QUEUES)}


def put_pod(objects: Objects, namespace: str, queue: str, *, phase: str = "Running", node: str = "n1") -> None:
    """A pod in a group of a queue."""
    group = {"metadata": {"name": "g", "namespace": namespace}, "spec": {"queue": queue, "minMember": 1}}
    objects.put(POD_GROUPS, group)
    metadata = {"name": "p", "namespace": namespace, "annotations": {"scheduling.k8s.io/group-name": "g"}}
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]} | ({"nodeName": node} if node else {})
    objects.put(PODS, {"metadata": metadata, "spec": spec}, {"phase": phase})


def test_nothing_is_deleted_while_pods_hold_room_unless_forced(
    console: Console, objects: Objects, namespace: str
) -> None:
    order = plant(objects, "held")
    put_pod(objects, namespace, "held-leaf")
    for words in (["--cascade"], ["--cascade", "--dry-run"]):
        said = console.failed("vcctl", "queue", "delete", "-n", "held-top", *words)
        assert said == (
            "Failed to delete queue: pods hold resources: 1 of queue held-leaf: wait until they have ended, delete "
            "their jobs, or use --force; nothing was deleted\n"
        )
    assert names(objects) >= set(order)
    console.good("vcctl", "queue", "delete", "-n", "held-top", "--cascade", "--force")
    assert not names(objects) & set(order)


@pytest.mark.parametrize(("phase", "node"), [("Succeeded", "n1"), ("Failed", "n1"), ("Pending", "")])
def test_pods_that_hold_no_room_hold_up_nothing(
    console: Console, objects: Objects, namespace: str, phase: str, node: str
) -> None:
    order = plant(objects, namespace)
    put_pod(objects, namespace, order[0], phase=phase, node=node)
    console.good("vcctl", "queue", "delete", "-n", order[-1], "--cascade")
    assert not names(objects) & set(order)


@pytest.mark.parametrize("top", ["root", "default"])
def test_root_and_default_are_refused_before_anything_is_deleted(console: Console, objects: Objects, top: str) -> None:
    order = plant(objects, f"below-{top}")
    objects.patch(QUEUES, "", order[-1], {"spec": {"parent": top}})
    said = console.failed("vcctl", "queue", "delete", "-n", top, "--cascade")
    words = f"queue {top} cannot be deleted: choose a queue without it below; nothing was deleted"
    assert said == f"Failed to delete queue: {words}\n"
    assert names(objects) >= {top, *order}


def test_a_dry_run_without_cascade_says_what_is_below(console: Console, objects: Objects) -> None:
    plant(objects, "dry")
    said = console.failed("vcctl", "queue", "delete", "-n", "dry-top", "--dry-run")
    assert said.endswith(
        "dry-top has queues below it: dry-leaf, dry-mid-a, dry-mid-b: use --cascade to delete them first\n"
    )
    assert console.good("vcctl", "queue", "delete", "dry-leaf", "--dry-run") == "queue dry-leaf would be deleted\n"


class Refusing(Client):
    """A client to whom the server refuses to delete one queue."""

    refused = "back-mid-b"

    async def delete(self, resource: Resource, key: Key, **more: Any) -> None:
        """Delete an object, unless it is the one."""
        if key.name == self.refused:
            raise ApiError(403, "Forbidden", f"{key.name} stays")
        await super().delete(resource, key, **more)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(volcano=True)
    for resource in (QUEUES, COMMANDS):
        made.cache.declare(resource)
    yield made
    made.close()


def test_what_is_gone_is_put_back_when_the_server_refuses_the_rest(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, parent in (("top", "root"), ("mid-a", "top"), ("leaf", "mid-a"), ("mid-b", "top")):
        above = parent if parent == "root" else f"back-{parent}"
        metadata = {"name": f"back-{name}", "labels": {"a": name}}
        cluster.create(QUEUES, {"metadata": metadata, "spec": {"parent": above, "deserved": {"cpu": "2"}}})
    cluster.patch(QUEUES, "back-mid-a", {"status": {"state": "Closed"}}, "status")
    before = {each["metadata"]["name"]: (each["metadata"]["labels"], each["spec"]) for each in cluster.all(QUEUES)}
    api = Refusing(DirectTransport(cluster.api.server, "user"))
    options: dict[str, Any] = {"cascade": True, "dry_run": False, "force": False, "wait": False, "timeout": 1}
    with pytest.raises(CommandError) as error:
        cluster.api.run(delete_tree(api, "back-top", **options))
    assert str(error.value) == "back-mid-b stays\nrestored: back-mid-a, back-leaf"
    assert capsys.readouterr().out == "queue back-leaf deleted\nqueue back-mid-a deleted\n"
    after = {each["metadata"]["name"]: (each["metadata"]["labels"], each["spec"]) for each in cluster.all(QUEUES)}
    assert after == before
    (command,) = cluster.all(COMMANDS)
    assert (command["target"]["name"], command["action"]) == ("back-mid-a", "CloseQueue")
