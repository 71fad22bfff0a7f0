"""The live scheduler binds volume claims before their pods, and goes elsewhere if they are not bound in time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kilauea.api.kinds import CLAIMS, STORAGE_CLASSES, VOLUMES
from kilauea.api.ports import ApiError, Key
from kilauea.runtime.inputs.resources import PODS
from support.live_world import Live, live_world

SELECTED = "volume.kubernetes.io/selected-node"
CONF = """
actions: enqueue, allocate
tiers:
- plugins:
  - name: gang
  - name: predicates
    arguments:
      volumebinding.bindTimeoutSeconds: 30
"""


@pytest.fixture
def impatient(tmp_path: Path) -> str:
    """A configuration in which claims have half a minute."""
    path = tmp_path / "scheduler.conf"
    path.write_text(CONF)
    return str(path)


def world(live: Live, *nodes: str, provisioner: str = "kubernetes.io/no-provisioner") -> None:
    for name in nodes:
        live.node(name, metadata={"labels": {"kubernetes.io/hostname": name}})
    live.create(STORAGE_CLASSES, "local", provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer")


def claim(live: Live, name: str, size: str = "1Gi") -> None:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    live.create(CLAIMS, name, spec={**asked, "storageClassName": "local"})


def volume(live: Live, name: str, size: str = "1Gi", node: str = "") -> None:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
    there = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if node else {}
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": "/x"}, **there}
    live.create(VOLUMES, name, spec={**spec, "storageClassName": "local"})
    live.patch(VOLUMES, name, {"status": {"phase": "Available"}}, "status")


def user(live: Live, name: str, *claims: str, **more: Any) -> None:
    live.pod(name, volumes=[{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims], **more)


def bound(live: Live, name: str, to: str) -> None:
    """A claim is bound, as the controller of claims does it."""
    marks = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    live.patch(CLAIMS, name, {"metadata": marks, "spec": {"volumeName": to}})
    live.patch(CLAIMS, name, {"status": {"phase": "Bound"}}, "status")


def owner(live: Live, name: str) -> str:
    """The claim that a volume is reserved for."""
    return str((live.get(VOLUMES, name)["spec"].get("claimRef") or {}).get("name", ""))


def selected(live: Live, name: str) -> str:
    return str((live.get(CLAIMS, name)["metadata"].get("annotations") or {}).get(SELECTED, ""))


def test_a_volume_is_reserved_for_its_claim_and_the_pod_waits_until_it_is_bound() -> None:
    with live_world() as live:
        world(live, "n1")
        volume(live, "large", "9Gi")
        volume(live, "small", "2Gi")
        claim(live, "c")
        user(live, "p", "c")
        live.start()
        live.wait(5)
        reserved = live.get(VOLUMES, "small")
        assert (owner(live, "small"), owner(live, "large"), selected(live, "c")) == ("c", "", "")
        assert reserved["spec"]["claimRef"]["uid"] == live.get(CLAIMS, "c")["metadata"]["uid"]
        assert reserved["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
        assert live.node_of("p") == ""
        bound(live, "c", "small")
        live.wait(2)
        assert live.node_of("p") == "n1"


def test_a_claim_whose_volume_is_made_gets_the_node_and_the_pod_waits() -> None:
    with live_world() as live:
        world(live, "n1", provisioner="csi.example.com")
        claim(live, "c")
        user(live, "p", "c")
        live.start()
        live.wait(5)
        assert (selected(live, "c"), live.node_of("p")) == ("n1", "")
        volume(live, "made")
        bound(live, "c", "made")
        live.wait(2)
        assert live.node_of("p") == "n1"


def test_while_claims_are_being_bound_others_do_not_get_their_volumes() -> None:
    with live_world() as live:
        world(live, "n1")
        volume(live, "v")
        claim(live, "a")
        claim(live, "b")
        user(live, "p", "a")
        live.start()
        live.wait(1)
        volume(live, "tiny", "1Gi")
        user(live, "q", "b")
        live.wait(2)
        assert (owner(live, "v"), owner(live, "tiny")) == ("a", "b")
        user(live, "r", "c")
        claim(live, "c")
        live.wait(2)
        message = live.condition(PODS, "r", "PodScheduled")["message"]
        assert "didn't find available persistent volumes to bind" in message


def test_a_gang_starts_when_each_claim_is_bound_to_its_own_volume(impatient: str) -> None:
    with live_world(impatient) as live:
        world(live, "n1", "n2")
        for name in ("v1", "v2"):
            volume(live, name, node=f"n{name[1]}")
        live.group("g", 2, pods=0)
        for number in (1, 2):
            claim(live, f"c{number}")
            user(live, f"g-{number}", f"c{number}", group="g")
        live.start()
        live.wait(2)
        owners = {owner(live, "v1"): "v1", owner(live, "v2"): "v2"}
        assert sorted(owners) == ["c1", "c2"]
        for name, of in owners.items():
            bound(live, name, of)
        live.wait(3)
        assert {live.node_of("g-1"), live.node_of("g-2")} == {"n1", "n2"}


def test_a_claim_that_is_not_bound_in_time_sends_its_pod_to_another_node(impatient: str) -> None:
    with live_world(impatient) as live:
        world(live, "n1", "n2", provisioner="csi.example.com")
        claim(live, "c")
        live.group("g", 1, pods=0)
        user(live, "p", "c", group="g")
        live.start()
        live.wait(20)
        first = selected(live, "c")
        live.wait(40)
        second = selected(live, "c")
        assert {first, second} == {"n1", "n2"}
        message = "binding volumes: timed out waiting for persistentvolumeclaim"
        assert any(message in text for _, name, _, text in live.events if name == "p")
        volume(live, "made")
        bound(live, "c", "made")
        live.wait(3)
        assert live.node_of("p") == second


def test_a_volume_that_is_not_bound_in_time_is_given_back(impatient: str) -> None:
    with live_world(impatient) as live:
        world(live, "n1", "n2")
        volume(live, "v1", node="n1")
        volume(live, "v2", "2Gi", node="n2")
        claim(live, "c")
        live.group("g", 1, pods=0)
        user(live, "p", "c", group="g")
        live.start()
        live.wait(10)
        assert (owner(live, "v1"), owner(live, "v2")) == ("c", "")
        live.wait(40)
        assert (owner(live, "v1"), owner(live, "v2")) == ("", "c")
        assert "bound-by-controller" not in str(live.get(VOLUMES, "v1")["metadata"].get("annotations"))


def test_where_no_other_node_is_left_the_pod_says_why_and_comes_back(impatient: str) -> None:
    with live_world(impatient) as live:
        world(live, "n1", provisioner="csi.example.com")
        claim(live, "c")
        live.group("g", 1, pods=0)
        user(live, "p", "c", group="g")
        live.start()
        live.wait(45)
        message = live.condition(PODS, "p", "PodScheduled")["message"]
        assert "1 node(s) did not bind the volumes of the pod in time" in message
        assert selected(live, "c") == ""
        live.wait(300)
        assert selected(live, "c") == "n1"


def test_a_provisioner_that_gives_up_on_a_node_is_heard(impatient: str) -> None:
    with live_world(impatient) as live:
        world(live, "n1", "n2", provisioner="csi.example.com")
        claim(live, "c")
        live.group("g", 1, pods=0)
        user(live, "p", "c", group="g")
        live.start()
        live.wait(2)
        first = selected(live, "c")
        live.patch(CLAIMS, "c", {"metadata": {"annotations": {SELECTED: None}}})
        live.wait(10)
        assert {first, selected(live, "c")} == {"n1", "n2"}
        assert any('provisioning failed for PVC "c"' in text for _, name, _, text in live.events if name == "p")


def test_a_claim_that_another_scheduler_gave_a_node_is_not_taken_over() -> None:
    with live_world() as live:
        world(live, "n1", "n2", provisioner="csi.example.com")
        claim(live, "c")
        live.start()

        async def meanwhile(method: str, target: str) -> None:
            if method == "PUT" and target.endswith("/persistentvolumeclaims/c"):
                live.wire.before = None
                marks = {"metadata": {"annotations": {SELECTED: "n2"}}}
                await live.calm.patch(CLAIMS, Key("default", "c"), marks)

        live.wire.before = meanwhile
        user(live, "p", "c")
        live.wait(10)
        assert selected(live, "c") == "n2"
        volume(live, "made")
        bound(live, "c", "made")
        live.wait(3)
        assert live.node_of("p") == "n2"


def test_a_new_scheduler_continues_where_the_last_one_died() -> None:
    with live_world() as live:
        world(live, "n1", "n2")
        volume(live, "v", node="n2")
        claim(live, "c")
        user(live, "p", "c")
        live.start()
        live.wait(1)
        assert owner(live, "v") == "c"
        live.stop()
        bound(live, "c", "v")
        live.restart()
        live.start()
        live.wait(2)
        assert live.node_of("p") == "n2"


def test_a_write_that_fails_is_tried_again() -> None:
    with live_world() as live:
        world(live, "n1")
        volume(live, "v")
        claim(live, "c")
        user(live, "p", "c")
        failures = iter(range(2))

        async def fail(method: str, target: str) -> None:
            if method == "PUT" and "/persistentvolumes/" in target and next(failures, None) is not None:
                raise ApiError(500, "InternalError", "out of order")

        live.wire.before = fail
        live.start()
        live.wait(5)
        assert owner(live, "v") == "c"
        bound(live, "c", "v")
        live.wait(2)
        assert live.node_of("p") == "n1"


def test_a_pod_that_is_deleted_while_it_waits_leaves_the_others_alone() -> None:
    with live_world() as live:
        world(live, "n1", provisioner="csi.example.com")
        claim(live, "c")
        user(live, "p", "c", cpu="3")
        live.start()
        live.wait(1)
        live.delete(PODS, "p")
        live.pod("q", cpu="3")
        live.wait(2)
        assert live.node_of("q") == "n1"


def test_claims_that_are_bound_cost_a_pod_nothing() -> None:
    with live_world() as live:
        world(live, "n1")
        volume(live, "v")
        claim(live, "c")
        bound(live, "c", "v")
        live.start()
        user(live, "p", "c")
        live.wait(1)
        assert live.node_of("p") == "n1"
        assert not [target for method, target in live.wire.sent if "persistentvolume" in target and method == "PUT"]
