"""What ends deletions: namespaces are emptied, dependents collected, claims and volumes released."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kilauea.api.kinds import CONFIG_MAPS
from kilauea.api.ports import ApiError, Confirm, Key, Reference
from kilauea.client.rest import Client
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.cluster.in_process import Definitions, standalone
from kilauea.runtime.manager.operations import carry_out
from support.api_core import MAPS, PODS, Api

MERGE = "application/merge-patch+json"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


@pytest.fixture
def api() -> Iterator[Api]:
    """A server alone."""
    made = Api()
    yield made
    made.close()


@pytest.fixture
def kept() -> Iterator[Api]:
    """A server that runs the controllers that end deletions, as `kilauea apiserver` does."""
    api = Api()
    definitions = Definitions(api.server)
    api.run(definitions.start())
    beside = standalone(api.server)
    api.run(beside.__aenter__())
    yield api
    api.run(beside.__aexit__(None, None, None))
    api.run(definitions.stop())
    api.close()


def wait_until_gone(api: Api, *paths: str) -> None:
    """Let the controllers work until nothing is at these paths."""
    for _ in range(2000):
        if all(api.ask("GET", path).code == 404 for path in paths):
            return
        api.run(asyncio.sleep(0.01))
    raise AssertionError(f"still there: {[path for path in paths if api.ask('GET', path).code != 404]}")


def own(api: Api, name: str, owner: dict[str, Any], **more: Any) -> None:
    """A ConfigMap that another one owns."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], **more}
    reference["uid"] = owner["metadata"]["uid"]
    api.good("POST", MAPS, {"metadata": {"name": name, "ownerReferences": [reference]}})


def test_a_namespace_is_emptied_before_it_goes(kept: Api) -> None:
    kept.good("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    kept.good("POST", "/api/v1/namespaces/team/configmaps", {"metadata": {"name": "a"}})
    going = kept.good("DELETE", "/api/v1/namespaces/team")
    assert going["status"]["phase"] == "Terminating"
    wait_until_gone(kept, "/api/v1/namespaces/team", "/api/v1/namespaces/team/configmaps/a")


def test_dependents_go_after_their_owner(kept: Api) -> None:
    owner = kept.create_map("owner")
    own(kept, "child", owner)
    kept.good("DELETE", f"{MAPS}/owner")
    wait_until_gone(kept, f"{MAPS}/child")


def test_an_owner_that_waits_goes_after_its_dependents(kept: Api) -> None:
    owner = kept.create_map("owner")
    own(kept, "child", owner, blockOwnerDeletion=True)
    kept.good("PATCH", f"{MAPS}/child", {"metadata": {"finalizers": ["example.com/wait"]}}, content_type=MERGE)
    going = kept.good("DELETE", f"{MAPS}/owner?propagationPolicy=Foreground")
    assert going["metadata"]["finalizers"] == ["foregroundDeletion"]
    for _ in range(10):
        kept.run(asyncio.sleep(0.01))
    assert kept.ask("GET", f"{MAPS}/owner").code == 200
    kept.good("PATCH", f"{MAPS}/child", {"metadata": {"finalizers": None}}, content_type=MERGE)
    wait_until_gone(kept, f"{MAPS}/owner", f"{MAPS}/child")


@pytest.mark.parametrize("size", [1, 2, 3])
def test_objects_that_own_one_another_in_a_circle_go_in_the_foreground_too(kept: Api, size: int) -> None:
    made = [kept.create_map(f"m{number}") for number in range(size)]
    for number, obj in enumerate(made):
        owner = made[number - 1]["metadata"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["name"], "uid": owner["uid"]}
        change = {"metadata": {"ownerReferences": [{**reference, "blockOwnerDeletion": True}]}}
        kept.good("PATCH", f"{MAPS}/{obj['metadata']['name']}", change, content_type=MERGE)
    kept.good("DELETE", f"{MAPS}/m0?propagationPolicy=Foreground")
    wait_until_gone(kept, *(f"{MAPS}/m{number}" for number in range(size)))


def test_orphans_forget_their_owner(kept: Api) -> None:
    owner = kept.create_map("owner")
    own(kept, "child", owner)
    kept.good("DELETE", f"{MAPS}/owner?propagationPolicy=Orphan")
    wait_until_gone(kept, f"{MAPS}/owner")
    assert "ownerReferences" not in kept.good("GET", f"{MAPS}/child")["metadata"]


def test_an_object_whose_owner_never_was_is_collected(kept: Api) -> None:
    own(kept, "child", {"metadata": {"name": "none", "uid": "0"}})
    wait_until_gone(kept, f"{MAPS}/child")


def test_a_dependent_of_two_owners_stays_as_long_as_one_of_them_does(kept: Api) -> None:
    references = []
    for name in ("first", "second"):
        uid = kept.create_map(name)["metadata"]["uid"]
        references.append({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
    kept.good("POST", MAPS, {"metadata": {"name": "child", "ownerReferences": references}})
    kept.good("DELETE", f"{MAPS}/first")
    left = None
    for _ in range(2000):
        left = kept.good("GET", f"{MAPS}/child")["metadata"]["ownerReferences"]
        if left == references[1:]:
            break
        kept.run(asyncio.sleep(0.01))
    assert left == references[1:]
    kept.good("DELETE", f"{MAPS}/second")
    wait_until_gone(kept, f"{MAPS}/child")


def test_a_dependent_with_another_owner_survives_one_that_waits_for_its_dependents(kept: Api) -> None:
    """The other owner stays, so the dependent forgets the one that goes, and is not deleted with it."""
    going, staying = kept.create_map("going"), kept.create_map("staying")
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]}
        for each in (going, staying)
    ]
    shared = {"name": "shared", "ownerReferences": [{**owners[0], "blockOwnerDeletion": True}, owners[1]]}
    kept.good("POST", MAPS, {"metadata": shared})
    own(kept, "alone", going, blockOwnerDeletion=True)
    kept.good("DELETE", f"{MAPS}/going", {"propagationPolicy": "Foreground"})
    wait_until_gone(kept, f"{MAPS}/going", f"{MAPS}/alone")
    left = kept.good("GET", f"{MAPS}/shared")["metadata"]
    assert [each["name"] for each in left["ownerReferences"]] == ["staying"]
    assert "deletionTimestamp" not in left


def test_many_dependents_go_with_their_owner(kept: Api) -> None:
    owner = kept.create_map("owner")
    for number in range(50):
        own(kept, f"child-{number}", owner)
    kept.good("DELETE", f"{MAPS}/owner")
    wait_until_gone(kept, *(f"{MAPS}/child-{number}" for number in range(50)))


def define_widgets(api: Api) -> None:
    """Serve a custom kind."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    api.good("POST", DEFINITIONS, {"metadata": {"name": "widgets.example.com"}, "spec": spec})
    for _ in range(2000):
        if api.ask("GET", WIDGETS).code == 200:
            return
        api.run(asyncio.sleep(0.01))
    raise AssertionError("the kind is not served")


def test_objects_of_a_kind_that_was_defined_later_are_collected_too(kept: Api) -> None:
    define_widgets(kept)
    owner = kept.good("POST", WIDGETS, {"metadata": {"name": "w"}})
    own(kept, "child", owner, apiVersion="example.com/v1", kind="Widget")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "0"}
    kept.good("POST", WIDGETS, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    wait_until_gone(kept, f"{WIDGETS}/owned")
    assert kept.ask("GET", f"{MAPS}/child").code == 200
    kept.good("DELETE", f"{WIDGETS}/w")
    wait_until_gone(kept, f"{MAPS}/child")


def test_a_namespace_takes_its_custom_resources_with_it(kept: Api) -> None:
    define_widgets(kept)
    kept.good("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    path = "/apis/example.com/v1/namespaces/team/widgets"
    kept.good("POST", path, {"metadata": {"name": "w"}})
    kept.good("DELETE", "/api/v1/namespaces/team")
    wait_until_gone(kept, "/api/v1/namespaces/team", f"{path}/w")


def test_a_namespace_waits_for_what_finalizers_hold(kept: Api) -> None:
    kept.good("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    path = "/api/v1/namespaces/team/configmaps"
    kept.good("POST", path, {"metadata": {"name": "held", "finalizers": ["example.com/wait"]}})
    kept.good("DELETE", "/api/v1/namespaces/team")
    for _ in range(20):
        kept.run(asyncio.sleep(0.01))
    assert kept.good("GET", f"{path}/held")["metadata"]["deletionTimestamp"]
    assert kept.ask("GET", "/api/v1/namespaces/team").code == 200
    kept.good("PATCH", f"{path}/held", {"metadata": {"finalizers": None}}, content_type=MERGE)
    wait_until_gone(kept, "/api/v1/namespaces/team")


def test_an_owner_that_the_controller_has_not_seen_yet_keeps_its_dependents(kept: Api) -> None:
    """Watches of two kinds run apart from each other, so that a dependent can be seen before its owner."""
    for number in range(30):
        pod = kept.create_pod(f"p{number}")
        own(kept, f"child-{number}", pod, kind="Pod")
    kept.run(asyncio.sleep(0.1))
    assert all(kept.ask("GET", f"{MAPS}/child-{number}").code == 200 for number in range(30))


def test_the_server_has_the_last_word_on_whether_an_owner_exists(api: Api) -> None:
    owner = api.create_map("owner")["metadata"]
    client = Client(DirectTransport(api.server, "tester"))
    key = Key("default", "owner")
    with pytest.raises(ApiError, match="configmaps default/owner exists"):
        api.run(carry_out(client, Confirm([Reference(CONFIG_MAPS, key, owner["uid"])]), "tester"))
    api.run(carry_out(client, Confirm([Reference(CONFIG_MAPS, key, "that of one before")]), "tester"))
    api.run(carry_out(client, Confirm([Reference(CONFIG_MAPS, Key("default", "none"), owner["uid"])]), "tester"))


def test_a_claim_is_held_as_long_as_a_pod_on_a_node_uses_it(kept: Api) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1G"}}}
    for name in ("used", "free"):
        kept.good("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "used"}}
    kept.create_pod("p", nodeName="n1", volumes=[volume], terminationGracePeriodSeconds=0)
    kept.good("DELETE", CLAIMS)
    wait_until_gone(kept, f"{CLAIMS}/free")
    assert kept.good("GET", f"{CLAIMS}/used")["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    kept.good("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    wait_until_gone(kept, f"{CLAIMS}/used")
