"""What ends deletions: namespaces are emptied, dependents collected, claims and volumes released."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import pytest

from kilauea.api.kinds import CONFIG_MAPS
from kilauea.api.kinds import PODS as PODS_KIND
from kilauea.api.ports import (
    ApiError,
    Confirm,
    Delete,
    Key,
    Obj,
    Outcome,
    Patch,
    Reference,
    Remaining,
    Resource,
    Together,
    View,
    finished,
)
from kilauea.api.ports import Seen as SeenEvent
from kilauea.api.times import SECOND, parse_time
from kilauea.client.rest import Client
from kilauea.client.view import Cache
from kilauea.controllers import garbage
from kilauea.controllers.garbage import AT_ONCE, FOREGROUND, GarbageCollector
from kilauea.controllers.kinds import DEFINED_KINDS
from kilauea.controllers.namespace_conditions import deletion_conditions
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.cluster.in_process import Definitions, standalone
from kilauea.runtime.manager.operations import carry_out
from support.api_core import MAPS, PODS, Api

T = TypeVar("T", bound=Cache)
MERGE = "application/merge-patch+json"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
A_WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget"}


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


def conditions(api: Api, namespace: str) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of the conditions of a namespace that is being deleted, once it has some."""
    for _ in range(2000):
        found = api.good("GET", f"/api/v1/namespaces/{namespace}")["status"].get("conditions")
        if found:
            return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found}
        api.run(asyncio.sleep(0.01))
    raise AssertionError("no conditions")


FINE = {
    "NamespaceDeletionDiscoveryFailure": ("False", "ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("False", "ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "False",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}
"""What Kubernetes says of a namespace whose content is gone."""


def test_pods_of_a_namespace_go_before_all_else(kept: Api) -> None:
    kept.good("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    metadata = {"name": "p", "finalizers": ["example.com/wait"]}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    kept.good("POST", "/api/v1/namespaces/team/pods", pod)
    kept.good("POST", "/api/v1/namespaces/team/configmaps", {"metadata": {"name": "a"}})
    kept.good("DELETE", "/api/v1/namespaces/team")
    assert conditions(kept, "team") == FINE | {
        "NamespaceContentRemaining": (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: pods. has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/wait in 1 resource instances",
        ),
    }
    assert "deletionTimestamp" in kept.good("GET", "/api/v1/namespaces/team/pods/p")["metadata"]
    assert "deletionTimestamp" not in kept.good("GET", "/api/v1/namespaces/team/configmaps/a")["metadata"]
    kept.good("PATCH", "/api/v1/namespaces/team/pods/p", {"metadata": {"finalizers": None}}, content_type=MERGE)
    wait_until_gone(kept, "/api/v1/namespaces/team", "/api/v1/namespaces/team/configmaps/a")


def test_a_namespace_tells_why_its_content_cannot_be_deleted(kept: Api) -> None:
    kept.good("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    for kind in ("configmaps", "secrets"):
        kept.good("POST", f"/api/v1/namespaces/team/{kind}", {"metadata": {"name": "a"}})
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["DELETE"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "oldObject.metadata.name != 'a'", "message": "stays"}],
    }
    kept.good("POST", policies, {"metadata": {"name": "hold"}, "spec": spec})
    binding = {"policyName": "hold", "validationActions": ["Deny"]}
    kept.good("POST", f"{policies[:-3]}ybindings", {"metadata": {"name": "hold"}, "spec": binding})
    kept.good("DELETE", "/api/v1/namespaces/team")
    status, reason, message = conditions(kept, "team")["NamespaceDeletionContentFailure"]
    assert (status, reason) == ("True", "ContentDeletionFailed")
    assert message.startswith("Failed to delete all resource types, 1 remaining: ")
    assert message.endswith("ValidatingAdmissionPolicy 'hold' with binding 'hold' denied request: stays")
    wait_until_gone(kept, "/api/v1/namespaces/team/secrets/a")
    kept.good("DELETE", f"{policies}/hold")
    wait_until_gone(kept, "/api/v1/namespaces/team")


def test_pods_that_are_ending_are_no_failure_before_their_grace_period_ends() -> None:
    namespace = {"metadata": {"name": "team", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    deleted = parse_time("2026-01-01T00:00:00Z")
    ending = [Remaining(PODS_KIND, 3, {}, 30)]
    early, late = (deletion_conditions(namespace, ending, deleted + each * SECOND) for each in (29, 30))
    assert early is not None
    assert late is not None
    assert [each["status"] for each in early] == ["False", "False", "False", "True", "False"]
    assert late[2]["message"] == (
        "Failed to delete all resource types, 1 remaining: "
        "unexpected items still remain in namespace: team for gvr: /v1, Resource=pods"
    )


def test_conditions_of_a_namespace_keep_their_time_while_they_stay_the_same() -> None:
    deleted = parse_time("2026-01-01T00:00:00Z")
    namespace: dict[str, Any] = {"metadata": {"name": "team", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    first = deletion_conditions(namespace, [Remaining(PODS_KIND, 2, {"a/b": 2})], deleted)
    assert first is not None
    namespace["status"] = {"conditions": first}
    assert deletion_conditions(namespace, [Remaining(PODS_KIND, 2, {"a/b": 2})], deleted + SECOND) is None
    second = deletion_conditions(namespace, [Remaining(PODS_KIND, 1, {"a/b": 1})], deleted + SECOND)
    assert second is not None
    assert [each["lastTransitionTime"] for each in second] == [each["lastTransitionTime"] for each in first]
    last = deletion_conditions(namespace, [], deleted + SECOND)
    assert last is not None
    assert [each["lastTransitionTime"][-3:] for each in last] == ["00Z", "00Z", "00Z", "01Z", "01Z"]
    assert {each["type"]: (each["status"], each["reason"], each["message"]) for each in last} == FINE


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


def test_an_owner_named_by_the_wrong_name_does_not_exist(kept: Api) -> None:
    """Kubernetes looks for an owner by its name, and compares the uid."""
    owner = kept.create_map("owner")
    own(kept, "child", {"metadata": {"name": "other", "uid": owner["metadata"]["uid"]}})
    wait_until_gone(kept, f"{MAPS}/child")
    assert kept.ask("GET", f"{MAPS}/owner").code == 200


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


OWNERS = 12_000


def absent_owners(count: int) -> list[dict[str, Any]]:
    """References to objects that never were."""
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    return [{**kind, "name": f"none-{number}", "uid": f"u{number}"} for number in range(count)]


def test_an_object_with_thousands_of_owners_costs_no_more_than_their_number(kept: Api) -> None:
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": f"none-{each}", "uid": f"u{each}"} for each in range(5000)
    ]
    start = time.thread_time()
    kept.good("POST", MAPS, {"metadata": {"name": "child", "ownerReferences": owners}})
    wait_until_gone(kept, f"{MAPS}/child")
    assert time.thread_time() - start < 3.0


def test_of_many_owners_those_that_exist_stay(kept: Api) -> None:
    there = kept.create_map("there")["metadata"]
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": f"none-{each}", "uid": f"u{each}"} for each in range(40)
    ]
    owners.insert(20, {"apiVersion": "v1", "kind": "ConfigMap", "name": "there", "uid": there["uid"]})
    kept.good("POST", MAPS, {"metadata": {"name": "child", "ownerReferences": owners}})
    left: list[Any] = []
    for _ in range(2000):
        left = kept.good("GET", f"{MAPS}/child")["metadata"]["ownerReferences"]
        if len(left) == 1:
            break
        kept.run(asyncio.sleep(0.01))
    assert left == [owners[20]]
    kept.good("DELETE", f"{MAPS}/there")
    wait_until_gone(kept, f"{MAPS}/child")


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
def test_an_object_of_another_namespace_does_not_hold_up_a_deletion(kept: Api, policy: str) -> None:
    """Who has rights in one namespace cannot keep objects of another from going."""
    owner = kept.create_map("owner")["metadata"]
    kept.good("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["uid"],
        "blockOwnerDeletion": True,
    }
    held = {"name": "held", "ownerReferences": [reference], "finalizers": ["example.com/wait"]}
    kept.good("POST", "/api/v1/namespaces/team/configmaps", {"metadata": held})
    kept.good("DELETE", f"{MAPS}/owner?propagationPolicy={policy}")
    wait_until_gone(kept, f"{MAPS}/owner")


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
    owner = kept.good("POST", WIDGETS, {**A_WIDGET, "metadata": {"name": "w"}})
    own(kept, "child", owner, apiVersion="example.com/v1", kind="Widget")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "0"}
    kept.good("POST", WIDGETS, {**A_WIDGET, "metadata": {"name": "owned", "ownerReferences": [reference]}})
    wait_until_gone(kept, f"{WIDGETS}/owned")
    assert kept.ask("GET", f"{MAPS}/child").code == 200
    kept.good("DELETE", f"{WIDGETS}/w")
    wait_until_gone(kept, f"{MAPS}/child")


def test_a_namespace_takes_its_custom_resources_with_it(kept: Api) -> None:
    define_widgets(kept)
    kept.good("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    path = "/apis/example.com/v1/namespaces/team/widgets"
    kept.good("POST", path, {**A_WIDGET, "metadata": {"name": "w"}})
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


@pytest.mark.parametrize("placed", ["before", "after"])
def test_a_claim_is_held_for_a_pod_that_gets_its_node_before_or_after_the_controllers_start(
    api: Api, placed: str
) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1G"}}}
    api.good("POST", CLAIMS, {"metadata": {"name": "used"}, "spec": spec})
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "used"}}
    api.create_pod("p", volumes=[volume], terminationGracePeriodSeconds=0)
    api.create_pod("stranger", nodeName="n1", volumes=[{"name": "v", "emptyDir": {}}])

    def place() -> None:
        binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
        api.good("POST", f"{PODS}/p/binding", binding)

    if placed == "before":
        place()
    beside = standalone(api.server)
    api.run(beside.__aenter__())
    api.run(asyncio.sleep(0.3))
    try:
        if placed == "after":
            place()
            api.run(asyncio.sleep(0.3))
        api.good("DELETE", f"{CLAIMS}/used")
        api.run(asyncio.sleep(0.5))
        assert api.good("GET", f"{CLAIMS}/used")["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        api.good("PATCH", f"{PODS}/p/status", {"status": {"phase": "Succeeded"}}, content_type=MERGE)
        wait_until_gone(api, f"{CLAIMS}/used")
    finally:
        api.run(beside.__aexit__(None, None, None))


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


class Seen(list[Obj]):
    """Objects that count how many of them are looked at."""

    seen = 0

    def __getitem__(self, index: Any) -> Any:
        self.seen += 1
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[Obj]:
        for each in super().__iter__():
            self.seen += 1
            yield each


def test_one_dependent_tells_that_the_owner_of_thousands_is_there() -> None:
    owner = {"metadata": {"name": "owner", "namespace": "default", "uid": "u"}}
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u"}
    pods = Seen(
        {"metadata": {"name": f"p-{number}", "namespace": "default", "ownerReferences": [reference]}}
        for number in range(1000)
    )

    class Owned:
        def get(self, resource: Resource, key: Key) -> Obj | None:
            return owner if (resource, key) == (CONFIG_MAPS, Key("default", "owner")) else None

        head = get

        def owned(self, resource: Resource, uid: str, namespace: str, most: int | None = None) -> Sequence[Obj]:
            return pods if resource == PODS_KIND else ()

        def list(self, resource: Resource, namespace: str = "") -> Sequence[Obj]:
            return ()

        def labelled(self, resource: Resource, label: str, value: str) -> Sequence[Obj]:
            return ()

        indexed = labelled

        def count_indexed(self, resource: Resource, index: str, value: str) -> int:
            return 0

        def aggregate(self, resource: Resource, name: str, value: str) -> None:
            return None

    outcome = reconcile(Key("", "u"), Owned(), 0)
    assert not outcome.operations
    assert 1 <= pods.seen < 5


def reconcile(key: Key, view: View, now: int) -> Outcome:
    """All steps of a reconciliation."""
    return finished(GarbageCollector().reconcile(key, view, now))


def collected_cache(cache: T) -> T:
    """A cache with the indexes of the garbage collector."""
    indexes = GarbageCollector.interests[0].indexes

    def declare(resource: Resource) -> None:
        cache.declare(resource, indexes=indexes)

    cache.on_every_kind(declare)
    cache.declare(DEFINED_KINDS.resource, aggregates=DEFINED_KINDS.aggregates)
    return cache


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("owners", [1, 2])
def test_thousands_of_dependents_are_deleted_in_parts(waits: bool, owners: int) -> None:
    cache = collected_cache(Cache())
    about = {"namespace": "default", "resourceVersion": "1"}
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u", "blockOwnerDeletion": True}
    references = [reference, {**reference, "name": "gone", "uid": "v"}][:owners]
    pods: dict[Key, dict[str, Any]] = {
        Key("default", name): {"metadata": {**about, "name": name, "uid": name, "ownerReferences": references}}
        for name in (f"p-{number}" for number in range(2 * AT_ONCE + 7))
    }
    indexer = cache.declare(PODS_KIND)
    indexer.on_relist([msgspec.json.encode(pod) for pod in pods.values()], "1")
    if waits:
        meta = {**about, "name": "owner", "uid": "u", "finalizers": [FOREGROUND], "deletionTimestamp": "t"}
        cache.declare(CONFIG_MAPS).on_relist([msgspec.json.encode({"metadata": meta})], "1")
    parts: list[int] = []
    for version in range(2, 5):
        outcome = reconcile(Key("", "u"), cache, 0)
        assert (outcome.again == 0.0) is (version < 4)
        (together,) = [each for each in outcome.operations if isinstance(each, Together)]
        parts.append(len(together.chains))
        for delete in (chain[-1] for chain in together.chains):
            assert isinstance(delete, Delete)
            meta = {**pods[delete.key]["metadata"], "deletionTimestamp": "t", "resourceVersion": str(version)}
            indexer.on_events([SeenEvent("MODIFIED", msgspec.json.encode({"metadata": meta}), str(version))])
    assert parts == [AT_ONCE, AT_ONCE, 7]
    assert not reconcile(Key("", "u"), cache, 0).operations


@pytest.mark.parametrize("waits", [False, True])
def test_objects_that_only_claim_an_owner_hold_up_none_of_its_dependents(waits: bool) -> None:
    cache = collected_cache(Cache())
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u", "blockOwnerDeletion": True}
    claimed = {**reference, "kind": "Unserved"}
    pods = [
        *(("a", f"c-{number}", claimed) for number in range(AT_ONCE + 1)),
        *(("default", f"p-{number}", reference) for number in range(3)),
    ]
    metas = [
        {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1", "ownerReferences": [owner]}
        for namespace, name, owner in pods
    ]
    cache.declare(PODS_KIND).on_relist([msgspec.json.encode({"metadata": meta}) for meta in metas], "1")
    if waits:
        going = {"finalizers": [FOREGROUND], "deletionTimestamp": "t"}
        meta = {"namespace": "default", "name": "owner", "uid": "u", "resourceVersion": "1", **going}
        cache.declare(CONFIG_MAPS).on_relist([msgspec.json.encode({"metadata": meta})], "1")
    outcome = reconcile(Key("", "u"), cache, 0)
    (together,) = [each for each in outcome.operations if isinstance(each, Together)]
    deleted = [each.key for chain in together.chains for each in chain if isinstance(each, Delete)]
    assert deleted == [Key("default", f"p-{number}") for number in range(3)]
    assert outcome.again is None


def test_thousands_of_dependents_forget_their_owner_in_parts() -> None:
    cache = collected_cache(Cache())
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u"}
    about = {"namespace": "default", "resourceVersion": "1"}
    names = [f"p-{number}" for number in range(AT_ONCE + 7)]
    indexer = cache.declare(PODS_KIND)
    metas = [{**about, "name": name, "uid": name, "ownerReferences": [reference]} for name in names]
    indexer.on_relist([msgspec.json.encode({"metadata": meta}) for meta in metas], "1")
    meta: dict[str, Any] = {**about, "name": "owner", "uid": "u", "finalizers": ["orphan"], "deletionTimestamp": "t"}
    cache.declare(CONFIG_MAPS).on_relist([msgspec.json.encode({"metadata": meta})], "1")
    parts: list[tuple[int, int, float | None]] = []
    for _ in range(2):
        outcome = reconcile(Key("", "u"), cache, 0)
        together, *released = outcome.operations
        assert isinstance(together, Together)
        parts.append((len(together.chains), len(released), outcome.again))
        for (patch,) in together.chains:
            assert isinstance(patch, Patch)
            meta = metas[names.index(patch.key.name)]
            indexer.on_events([SeenEvent("DELETED", msgspec.json.encode({"metadata": meta}), "2")])
    assert parts == [(AT_ONCE, 0, 0.0), (7, 1, None)]


@pytest.mark.parametrize("waits", [None, FOREGROUND, "orphan"])
def test_dependents_with_many_owners_are_processed_few_at_a_time(waits: str | None) -> None:
    """Each owner is looked up, and the others are kept in patches: 500 objects with 500 owners each fill the memory."""
    cache = collected_cache(Cache())
    about = {"namespace": "default", "resourceVersion": "1"}
    reference = {"apiVersion": "v1", "kind": "ConfigMap"}
    there = [{**reference, "name": f"o{number}", "uid": f"u{number}"} for number in range(500)]
    owners = [{**reference, "name": "owner", "uid": "u"}, *there]
    metas = [{**about, "name": f"p{number}", "uid": f"p{number}", "ownerReferences": owners} for number in range(100)]
    maps: list[dict[str, Any]] = [{**about, "name": f"o{number}", "uid": f"u{number}"} for number in range(500)]
    if waits:
        maps.append({**about, "name": "owner", "uid": "u", "finalizers": [waits], "deletionTimestamp": "t"})
    cache.declare(CONFIG_MAPS).on_relist([msgspec.json.encode({"metadata": meta}) for meta in maps], "1")
    pods = cache.declare(PODS_KIND)
    pods.on_relist([msgspec.json.encode({"metadata": meta}) for meta in metas], "1")
    parts = []
    for version in range(2, 100):
        outcome = reconcile(Key("", "u"), cache, 0)
        patches = [chain[-1] for each in outcome.operations if isinstance(each, Together) for chain in each.chains]
        parts.append(len(patches))
        for patch in patches:
            assert isinstance(patch, Patch)
            assert patch.patch == {"metadata": {"ownerReferences": there}}
            meta = {**about, "name": patch.key.name, "uid": patch.key.name, "ownerReferences": there}
            meta["resourceVersion"] = str(version)
            pods.on_events([SeenEvent("MODIFIED", msgspec.json.encode({"metadata": meta}), str(version))])
        if outcome.again is None:
            break
    assert sum(parts) == 100
    assert max(parts) * len(owners) < 2 * garbage.REFERENCES_AT_ONCE


def test_all_dependents_are_read_in_steps_if_the_first_ones_need_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "AT_ONCE", 10)
    cache = collected_cache(Cache())
    claimed = {"apiVersion": "v1", "kind": "Unserved", "name": "owner", "uid": "u"}
    about = {"namespace": "default", "resourceVersion": "1", "ownerReferences": [claimed]}
    metas = [{**about, "name": f"p{number}", "uid": f"p{number}"} for number in range(95)]
    cache.declare(PODS_KIND).on_relist([msgspec.json.encode({"metadata": meta}) for meta in metas], "1")
    steps = GarbageCollector().reconcile(Key("", "u"), cache, 0)
    assert not isinstance(steps, Outcome)
    assert len(list(steps)) == 10


def test_a_missing_owner_of_many_is_asked_for_once(api: Api) -> None:
    class Counting(Client):
        asked = 0

        async def get(self, resource: Resource, key: Key, subresource: str = "") -> dict[str, Any]:
            self.asked += 1
            return await super().get(resource, key, subresource)

    client = Counting(DirectTransport(api.server, "tester"))
    there = api.good("POST", MAPS, {"metadata": {"name": "a"}})
    missing = Confirm([Reference(CONFIG_MAPS, Key("default", name), f"u-{name}") for name in ("a", "b")])
    absent: set[Reference] = set()
    for _ in range(3):
        api.run(carry_out(client, missing, "test", absent))
    assert client.asked == 2
    present = Confirm([*missing.absent, Reference(CONFIG_MAPS, Key("default", "a"), there["metadata"]["uid"])])
    for _ in range(2):
        with pytest.raises(ApiError, match="exists"):
            api.run(carry_out(client, present, "test", absent))
    anything = Confirm([Reference(CONFIG_MAPS, Key("default", "c"), "")])
    api.run(carry_out(client, anything, "test", absent))
    api.good("POST", MAPS, {"metadata": {"name": "c"}})
    with pytest.raises(ApiError, match="exists"):
        api.run(carry_out(client, anything, "test", absent))


class Looked(Cache):
    """A view that counts look-ups of objects by any index."""

    looks = 0

    def get(self, resource: Resource, key: Key) -> Obj | None:
        self.looks += 1
        return super().get(resource, key)

    def indexed(self, resource: Resource, index: str, value: str) -> Sequence[Obj]:
        self.looks += 1
        return super().indexed(resource, index, value)


@pytest.mark.parametrize(("depth", "ancestors"), [(10, 10), (40, 20)])
def test_owners_of_owners_are_looked_up_once_each_and_not_without_end(
    monkeypatch: pytest.MonkeyPatch, depth: int, ancestors: int
) -> None:
    monkeypatch.setattr(garbage, "MOST_ANCESTORS", 20)
    cache = collected_cache(Looked())
    metas: list[dict[str, Any]] = []
    for number in range(depth + 2):
        above = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"n{number - 1}", "uid": f"u{number - 1}"}
        owners = [{**above, "blockOwnerDeletion": True}] if number else []
        meta = {"namespace": "default", "name": f"n{number}", "uid": f"u{number}", "resourceVersion": "1"}
        metas.append({**meta, "finalizers": [FOREGROUND], "deletionTimestamp": "t", "ownerReferences": owners})
    cache.declare(CONFIG_MAPS).on_relist([msgspec.json.encode({"metadata": meta}) for meta in metas], "1")
    kinds = len(list(cache))
    outcome = reconcile(Key("", f"u{depth}"), cache, 0)
    assert not outcome.operations  # its dependent is being deleted, and does not own it
    assert cache.looks <= 3 * kinds + ancestors + 2
