"""Endpoints and slices follow services and their pods; replication controllers keep their number of pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import ENDPOINT_SLICES, ENDPOINTS, NAMESPACES, PODS, REPLICATION_CONTROLLERS, SERVICES
from kilauea.api.ports import Key, Obj, Outcome, Together
from kilauea.controllers import endpoints
from kilauea.controllers.endpoints import ITS_SERVICE, PER_SLICE, EndpointsController
from kilauea.controllers.mirrored_endpoints import MirroringController
from kilauea.controllers.replicasets import ReplicaSetController
from support.controlled import Cluster, template

LABELS = {"app": "web"}
PORTED = {"containers": [{"name": "a", "image": "x", "ports": [{"name": "http", "containerPort": 8080}]}]}


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(EndpointsController())


def service(cluster: Cluster, **spec: Any) -> None:
    ports = [{"name": "web", "port": 80, "targetPort": "http"}]
    given = {"selector": LABELS, "ports": ports, **spec}
    cluster.create(SERVICES, {"metadata": {"name": "web", "labels": {"tier": "front"}}, "spec": given})


def pod(cluster: Cluster, name: str, address: str, *, ready: bool = True, spec: Any = PORTED) -> None:
    made = cluster.create(PODS, {"metadata": {"name": name, "labels": LABELS}, "spec": spec})
    cluster.say(made, "Running", ready=ready, podIP=address, podIPs=[{"ip": address}])


def addresses(cluster: Cluster, part: str = "addresses", of: str = "web") -> list[str]:
    subsets = cluster.get(ENDPOINTS, of).get("subsets") or []
    return [each["ip"] for subset in subsets for each in subset.get(part) or []]


def ready_endpoints(cluster: Cluster) -> list[str]:
    slices = cluster.all(ENDPOINT_SLICES)
    return [e["addresses"][0] for s in slices for e in s.get("endpoints") or [] if e["conditions"]["ready"]]


def test_a_service_has_the_addresses_of_its_ready_pods(cluster: Cluster) -> None:
    service(cluster)
    pod(cluster, "a", "10.0.0.1")
    pod(cluster, "b", "10.0.0.2", ready=False)
    cluster.settle()
    assert (addresses(cluster), addresses(cluster, "notReadyAddresses")) == (["10.0.0.1"], ["10.0.0.2"])
    assert cluster.get(ENDPOINTS, "web")["subsets"][0]["ports"] == [{"name": "web", "port": 8080, "protocol": "TCP"}]
    (found,) = cluster.all(ENDPOINT_SLICES)
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert found["metadata"]["labels"]["tier"] == "front"
    assert found["ports"] == [{"name": "web", "port": 8080, "protocol": "TCP"}]
    assert [(each["addresses"], each["conditions"]["ready"]) for each in found["endpoints"]] == [
        (["10.0.0.1"], True),
        (["10.0.0.2"], False),
    ]


def test_each_service_of_a_namespace_has_the_pods_with_all_the_labels_that_it_selects(cluster: Cluster) -> None:
    for name, labels in {"old": {"app": "web", "track": "v1"}, "new": {"app": "web", "track": "v2"}}.items():
        made = cluster.create(PODS, {"metadata": {"name": name, "labels": labels}, "spec": PORTED})
        cluster.say(made, "Running", ready=True, podIP=f"10.0.0.{len(cluster.all(PODS))}")
    selected = {"all": LABELS, "new": {"app": "web", "track": "v2"}, "none": {"app": "web", "track": "v3"}}
    for name, selector in selected.items():
        spec = {"selector": selector, "ports": [{"port": 80}]}
        cluster.create(SERVICES, {"metadata": {"name": name}, "spec": spec})
    cluster.settle()
    late = cluster.create(PODS, {"metadata": {"name": "later", "labels": LABELS}, "spec": PORTED})
    cluster.say(late, "Running", ready=True, podIP="10.0.0.9")
    cluster.settle()
    found = {name: addresses(cluster, of=name) for name in selected}
    assert found == {"all": ["10.0.0.9", "10.0.0.2", "10.0.0.1"], "new": ["10.0.0.2"], "none": []}
    versions = [cluster.get(ENDPOINTS, name)["metadata"]["resourceVersion"] for name in selected]
    other = cluster.create(PODS, {"metadata": {"name": "other", "labels": {"app": "other"}}, "spec": PORTED})
    cluster.say(other, "Running", ready=True, podIP="10.0.0.10")
    cluster.settle()
    assert [cluster.get(ENDPOINTS, name)["metadata"]["resourceVersion"] for name in selected] == versions


def test_a_pod_that_goes_or_ends_leaves_the_endpoints(cluster: Cluster) -> None:
    service(cluster)
    for name, address in (("a", "10.0.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.3")):
        pod(cluster, name, address)
    cluster.settle()
    assert ready_endpoints(cluster) == addresses(cluster) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    cluster.say(cluster.get(PODS, "a"), "Succeeded")
    cluster.delete(PODS, "b", grace=0)
    cluster.settle()
    assert ready_endpoints(cluster) == addresses(cluster) == ["10.0.0.3"]


def test_a_service_without_ready_pods_has_an_empty_slice_and_publishes_unready_ones_on_demand(cluster: Cluster) -> None:
    service(cluster, clusterIP="None", publishNotReadyAddresses=True)
    cluster.settle()
    (found,) = cluster.all(ENDPOINT_SLICES)
    assert "service.kubernetes.io/headless" in found["metadata"]["labels"]
    assert not found.get("endpoints")
    pod(cluster, "a", "10.0.0.1", ready=False)
    cluster.settle()
    assert ready_endpoints(cluster) == addresses(cluster) == ["10.0.0.1"]


def test_endpoints_of_a_service_without_selector_are_left_to_its_user(cluster: Cluster) -> None:
    service(cluster, selector=None)
    cluster.create(ENDPOINTS, {"metadata": {"name": "web"}, "subsets": []})
    pod(cluster, "a", "10.0.0.1")
    cluster.settle()
    assert cluster.all(ENDPOINT_SLICES) == []
    cluster.delete(SERVICES, "web")
    cluster.settle()
    assert cluster.names(ENDPOINTS) == ["web"]


def test_endpoints_go_with_their_service(cluster: Cluster) -> None:
    service(cluster)
    cluster.settle()
    assert cluster.names(ENDPOINTS) == ["web"]
    cluster.delete(SERVICES, "web")
    cluster.settle()
    assert cluster.names(ENDPOINTS) == []


def test_a_slice_has_at_most_a_hundred_endpoints(cluster: Cluster) -> None:
    service(cluster)
    for number in range(PER_SLICE + 1):
        pod(cluster, f"p{number:03}", f"10.0.1.{number}")
    cluster.settle()
    assert sorted(len(each["endpoints"]) for each in cluster.all(ENDPOINT_SLICES)) == [1, PER_SLICE]
    assert len(addresses(cluster)) == PER_SLICE + 1


def test_what_no_service_can_see_of_a_pod_does_not_make_the_controller_look() -> None:
    (matters,) = [each.matters for each in EndpointsController.interests if each.resource == PODS]
    assert matters is not None
    waiting = {"metadata": {"name": "a", "namespace": "n"}, "status": {"phase": "Pending"}}
    running = {"metadata": {"name": "a", "namespace": "n"}, "status": {"phase": "Running", "podIP": "10.0.0.1"}}
    assert not matters(None, waiting)
    assert matters(waiting, running)
    assert not matters(running, {**running, "metadata": {**running["metadata"], "annotations": {"a": "b"}}})


def test_a_replication_controller_keeps_its_number_of_pods(cluster_of: Callable[..., Cluster]) -> None:
    made = cluster_of(ReplicaSetController(REPLICATION_CONTROLLERS, "replicationcontroller-controller"))
    made.create(
        REPLICATION_CONTROLLERS, {"metadata": {"name": "web"}, "spec": {"replicas": 2, "template": template(LABELS)}}
    )
    made.settle()
    made.say_all("Running")
    made.settle()
    state = made.get(REPLICATION_CONTROLLERS, "web")["status"]
    assert (state["replicas"], state["readyReplicas"], state["availableReplicas"]) == (2, 2, 2)
    made.delete(PODS, made.names(PODS)[0], grace=0)
    made.settle()
    assert len(made.names(PODS)) == 2
    owner = made.all(PODS)[0]["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["apiVersion"]) == ("ReplicationController", "v1")


# --- Endpoints that users write


@pytest.fixture
def mirroring(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(EndpointsController(), MirroringController())


def own_endpoints(cluster: Cluster, *subsets: Any, **metadata: Any) -> Any:
    return cluster.create(ENDPOINTS, {"metadata": {"name": "web", **metadata}, "subsets": list(subsets)})


SUBSET = {"addresses": [{"ip": "10.1.2.3"}], "notReadyAddresses": [{"ip": "fd00::1"}], "ports": [{"port": 80}]}


def test_endpoints_that_a_user_writes_are_mirrored_in_slices(mirroring: Cluster) -> None:
    service(mirroring, selector=None)
    own_endpoints(mirroring, SUBSET, labels={"tier": "back"})
    mirroring.settle()
    first, second = sorted(mirroring.all(ENDPOINT_SLICES), key=lambda each: str(each["addressType"]))
    assert (first["addressType"], second["addressType"]) == ("IPv4", "IPv6")
    assert first["endpoints"] == [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}]
    assert second["endpoints"] == [{"addresses": ["fd00::1"], "conditions": {"ready": False}}]
    assert first["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    assert first["metadata"]["labels"] == {
        "tier": "back",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    }
    assert first["metadata"]["ownerReferences"][0]["kind"] == "Endpoints"


def test_the_mirror_follows_changes_and_ends_with_the_endpoints(mirroring: Cluster) -> None:
    service(mirroring, selector=None)
    own_endpoints(mirroring, {"addresses": [{"ip": "10.1.2.3"}], "ports": [{"name": "a", "port": 80}]})
    mirroring.settle()
    address = {"addresses": [{"ip": "10.1.2.4"}]}
    mirroring.patch(ENDPOINTS, "web", {"subsets": [address, {**address, "ports": [{"name": "b", "port": 81}]}]})
    mirroring.settle()
    assert ready_endpoints(mirroring) == ["10.1.2.4", "10.1.2.4"]
    mirroring.delete(ENDPOINTS, "web")
    mirroring.settle()
    assert mirroring.all(ENDPOINT_SLICES) == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}},
    ],
)
def test_endpoints_that_are_not_addresses_of_a_service_are_not_mirrored(
    mirroring: Cluster, metadata: dict[str, Any]
) -> None:
    service(mirroring, selector=None)
    own_endpoints(mirroring, SUBSET, **metadata)
    mirroring.settle()
    assert mirroring.all(ENDPOINT_SLICES) == []


def test_endpoints_without_a_service_have_no_slices_until_there_is_one(mirroring: Cluster) -> None:
    own_endpoints(mirroring, {"addresses": [{"ip": "10.1.2.3"}]})
    mirroring.settle()
    assert mirroring.all(ENDPOINT_SLICES) == []
    service(mirroring, selector=None)
    mirroring.settle()
    assert ready_endpoints(mirroring) == ["10.1.2.3"]


def test_many_services_with_the_same_pods_are_looked_at_in_steps(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "READ_PER_STEP", 2)
    monkeypatch.setattr(endpoints, "LOOKS_PER_STEP", 12)
    for number in range(4):
        pod(cluster, f"p{number}", f"10.0.0.{number}")
        spec = {"selector": LABELS, "ports": [{"port": 80, "targetPort": "http"}]}
        cluster.create(SERVICES, {"metadata": {"name": f"s{number}"}, "spec": spec})
    cluster.refresh()
    steps = EndpointsController().reconcile(Key("default", ""), cluster.cache, cluster.api.now)
    assert not isinstance(steps, Outcome)
    written = [[len(each.chains) for each in operations if isinstance(each, Together)] for operations in steps]
    assert written == [[], [], [2], [2]]  # four pods are read in two steps; then services two by two
    cluster.settle()
    assert len(ready_endpoints(cluster)) == 16


def test_ports_of_a_service_are_gone_through_once_for_pods_that_are_alike() -> None:
    class Ports(list[Any]):
        gone_through = 0

        def __iter__(self) -> Any:
            self.gone_through += 1
            return super().__iter__()

    def at(name: str, number: int) -> Obj:
        ports = [{"name": "http", "containerPort": number}, {"name": "other", "containerPort": int(name)}]
        return {"metadata": {"name": name}, "spec": {"containers": [{"ports": ports}]}}

    given = [{"name": "web", "port": 80, "targetPort": "http"}, {"name": "b", "port": 9, "targetPort": "none"}]
    pods = [at(str(number), 8000 + number % 2) for number in range(100)]
    ports = endpoints.ServicePorts({"spec": {"ports": given}})
    counted = ports.ports = Ports(ports.ports)
    groups = ports.groups(pods)
    assert {each: len(found) for each, found in groups.items()} == {
        (("web", 8000, "TCP"),): 50,
        (("web", 8001, "TCP"),): 50,
    }
    assert counted.gone_through == 2


def test_slices_of_other_namespaces_are_not_read(cluster: Cluster) -> None:
    labels = {"kubernetes.io/service-name": "web"}
    foreign = {"apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4", "metadata": {"name": "x", "labels": labels}}
    cluster.create(NAMESPACES, {"metadata": {"name": "thief"}})
    cluster.create(ENDPOINT_SLICES, {**foreign, "endpoints": [], "ports": []}, "thief")
    service(cluster)
    cluster.settle()
    found = cluster.cache.indexed(ENDPOINT_SLICES, ITS_SERVICE, "default/web")
    assert [each["metadata"]["namespace"] for each in found] == ["default"]
