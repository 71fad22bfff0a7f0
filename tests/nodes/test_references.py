"""Pods that name ConfigMaps, Secrets, claims or accounts which do not exist, on simulated nodes."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.kinds import CLAIMS, CONFIG_MAPS, NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from kilauea.api.ports import Resource
from kilauea.nodes.pods import Pods
from support.simulated import World, node, pod

SEEN = 2.0
"""Seconds after which a node is sure that it has seen what was there before the pod."""


def world(**spec: Any) -> World:
    made = World(Pods())
    made.put(NODES, node())
    made.put(PODS, pod(**spec))
    return made


def obj(resource: Resource, name: str, **parts: Any) -> dict[str, Any]:
    return {"kind": resource.kind, "metadata": {"name": name, "namespace": "default"}, **parts}


def container(name: str = "c", **parts: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:1.36", **parts}


def waiting(w: World, number: int = 0, part: str = "containerStatuses") -> Any:
    return w.pod()["status"][part][number]["state"]["waiting"]


CLAIM = {"persistentVolumeClaim": {"claimName": "data"}}
UNMOUNTED = (
    "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: "
    "error processing PVC default/"
)
VOLUMES: list[tuple[dict[str, Any], str, Resource, dict[str, Any]]] = [
    (
        {"configMap": {"name": "a"}},
        'MountVolume.SetUp failed for volume "v" : configmap "a" not found',
        CONFIG_MAPS,
        obj(CONFIG_MAPS, "a"),
    ),
    (
        {"secret": {"secretName": "a"}},
        'MountVolume.SetUp failed for volume "v" : secret "a" not found',
        SECRETS,
        obj(SECRETS, "a"),
    ),
    (
        {"projected": {"sources": [{"configMap": {"name": "a", "optional": True}}, {"secret": {"name": "b"}}]}},
        'MountVolume.SetUp failed for volume "v" : secret "b" not found',
        SECRETS,
        obj(SECRETS, "b"),
    ),
    (
        {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        'MountVolume.SetUp failed for volume "v" : failed to fetch token: serviceaccounts "default" not found',
        SERVICE_ACCOUNTS,
        obj(SERVICE_ACCOUNTS, "default"),
    ),
    (
        CLAIM,
        f'{UNMOUNTED}data: failed to fetch PVC from API server: persistentvolumeclaims "data" not found',
        CLAIMS,
        obj(CLAIMS, "data", spec={"volumeName": "pv"}, status={"phase": "Bound"}),
    ),
    (
        {"ephemeral": {"volumeClaimTemplate": {}}},
        f'{UNMOUNTED}p-v: failed to fetch PVC from API server: persistentvolumeclaims "p-v" not found',
        CLAIMS,
        obj(CLAIMS, "p-v", spec={"volumeName": "pv"}, status={"phase": "Bound"}),
    ),
]


@pytest.mark.parametrize(("volume", "message", "resource", "found"), VOLUMES)
def test_a_pod_waits_for_what_its_volume_is_made_of(
    volume: dict[str, Any], message: str, resource: Resource, found: dict[str, Any]
) -> None:
    w = world(volumes=[{"name": "v", **volume}])
    w.run(SEEN)
    assert waiting(w) == {"reason": "ContainerCreating"}
    assert w.records == [f"Warning FailedMount: {message}"]
    w.run(60)
    assert (w.phases["p"], len(w.written), len(w.records)) == (["Pending"], 1, 1)
    w.put(resource, found)
    w.run(10)
    assert w.phases["p"] == ["Pending", "Running"]


VARIABLES: list[tuple[dict[str, Any], str, Resource, dict[str, Any]]] = [
    (
        {"envFrom": [{"configMapRef": {"name": "a"}}]},
        'configmap "a" not found',
        CONFIG_MAPS,
        obj(CONFIG_MAPS, "a"),
    ),
    (
        {"envFrom": [{"secretRef": {"name": "a"}}]},
        'secret "a" not found',
        SECRETS,
        obj(SECRETS, "a"),
    ),
    (
        {"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}}]},
        'configmap "a" not found',
        CONFIG_MAPS,
        obj(CONFIG_MAPS, "a", data={"k": "v"}),
    ),
    (
        {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "a", "key": "k"}}}]},
        'secret "a" not found',
        SECRETS,
        obj(SECRETS, "a", data={"k": "dg=="}),
    ),
]


@pytest.mark.parametrize(("parts", "message", "resource", "found"), VARIABLES)
def test_a_container_waits_for_the_source_of_a_variable(
    parts: dict[str, Any], message: str, resource: Resource, found: dict[str, Any]
) -> None:
    w = world(containers=[container(**parts)])
    w.run(SEEN)
    assert waiting(w) == {"reason": "CreateContainerConfigError", "message": message}
    assert w.pod()["status"]["phase"] == "Pending"
    assert w.records == [f"Warning Failed: Error: {message}"]
    w.run(60)
    assert (len(w.written), len(w.records)) == (1, 1)
    w.put(resource, found)
    w.run(15)
    assert w.phases["p"] == ["Pending", "Running"]


@pytest.mark.parametrize(("resource", "field"), [(CONFIG_MAPS, "configMapKeyRef"), (SECRETS, "secretKeyRef")], ids=str)
def test_an_object_without_the_key_does_not_do(resource: Resource, field: str) -> None:
    w = world(containers=[container(env=[{"name": "X", "valueFrom": {field: {"name": "a", "key": "k"}}}])])
    w.put(resource, obj(resource, "a", data={"other": "dg=="}))
    w.run(SEEN)
    assert waiting(w)["message"] == f"couldn't find key k in {resource.kind} default/a"


@pytest.mark.parametrize(
    ("resource", "source", "message"),
    [
        (CONFIG_MAPS, {"configMap": {"name": "a"}}, "configmap references non-existent config key: k"),
        (SECRETS, {"secret": {"secretName": "a"}}, "references non-existent secret key: k"),
    ],
)
def test_a_volume_needs_the_keys_that_it_names(resource: Resource, source: dict[str, Any], message: str) -> None:
    (parts,) = source.values()
    parts = {**parts, "items": [{"key": "k", "path": "k"}]}
    w = world(volumes=[{"name": "v", **dict.fromkeys(source, parts)}])
    w.put(resource, obj(resource, "a", data={"other": "dg=="}))
    w.run(SEEN)
    assert w.records == [f'Warning FailedMount: MountVolume.SetUp failed for volume "v" : {message}']
    w.put(resource, obj(resource, "a", data={"k": "dg=="}))
    w.run(10)
    assert w.phases["p"] == ["Pending", "Running"]


def test_what_is_optional_may_be_missing() -> None:
    optional = {"name": "none", "optional": True}
    variables = [
        {"name": "X", "valueFrom": {"configMapKeyRef": {**optional, "key": "k"}}},
        {"name": "Y", "valueFrom": {"secretKeyRef": {**optional, "key": "k"}}},
    ]
    sources = [{"configMap": optional}, {"secret": optional}]
    w = world(
        containers=[container(env=variables, envFrom=[{"configMapRef": optional}, {"secretRef": optional}])],
        volumes=[
            {"name": "a", "configMap": optional},
            {"name": "b", "secret": {"secretName": "none", "optional": True}},
            {"name": "c", "projected": {"sources": sources}},
        ],
    )
    w.run()
    assert (w.phases["p"], w.records) == (["Pending", "Running"], [])


def test_an_object_that_comes_a_moment_after_the_pod_costs_no_write() -> None:
    w = world(volumes=[{"name": "v", "configMap": {"name": "a"}}])
    w.run(1)
    assert w.written == []
    w.put(CONFIG_MAPS, obj(CONFIG_MAPS, "a"))
    w.run(0.2)
    assert (w.pod()["status"]["phase"], w.records, len(w.written)) == ("Running", [], 1)


def test_a_claim_that_is_not_bound_is_not_mounted() -> None:
    w = world(volumes=[{"name": "v", **CLAIM}])
    w.put(CLAIMS, obj(CLAIMS, "data", spec={}, status={"phase": "Pending"}))
    w.run(SEEN)
    assert w.records == [f"Warning FailedMount: {UNMOUNTED}data: PVC is not bound"]


def test_each_volume_is_told_of_and_the_volume_of_the_cluster_is_not() -> None:
    volumes: list[dict[str, Any]] = [{"name": name, "configMap": {"name": name}} for name in "ab"]
    volumes.append(
        {"name": "kube-api-access-x", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}}
    )
    w = world(volumes=volumes)
    w.run(SEEN)
    assert w.records == [
        f'Warning FailedMount: MountVolume.SetUp failed for volume "{name}" : configmap "{name}" not found'
        for name in "ab"
    ]


def test_an_init_container_without_its_variable_holds_up_the_others() -> None:
    first = container("first", command=["sh", "-c", "exit 0"], envFrom=[{"secretRef": {"name": "a"}}])
    w = world(initContainers=[first])
    w.run(SEEN)
    assert waiting(w, part="initContainerStatuses")["reason"] == "CreateContainerConfigError"
    assert waiting(w) == {"reason": "PodInitializing"}
    w.put(SECRETS, obj(SECRETS, "a"))
    w.run(5)
    assert w.phases["p"] == ["Pending", "Running"]


def test_a_container_beside_one_that_waits_runs_already() -> None:
    w = world(containers=[container("a"), container("b", envFrom=[{"secretRef": {"name": "a"}}])])
    w.run(SEEN)
    assert "running" in w.pod()["status"]["containerStatuses"][0]["state"]
    assert waiting(w, 1)["reason"] == "CreateContainerConfigError"
    assert w.pod()["status"]["phase"] == "Pending"


def test_a_pod_that_runs_does_not_miss_what_is_deleted() -> None:
    w = world(containers=[container(envFrom=[{"secretRef": {"name": "a"}}])])
    w.put(SECRETS, obj(SECRETS, "a"))
    w.run()
    w.remove(SECRETS, "a", "default")
    w.run(60)
    assert (w.phases["p"], w.records) == (["Pending", "Running"], [])


@pytest.mark.parametrize(
    ("of_pod", "own", "refused"),
    [
        ({"runAsNonRoot": True}, {"runAsUser": 0}, True),
        ({"runAsUser": 0}, {"runAsNonRoot": True}, True),
        ({"runAsNonRoot": True, "runAsUser": 0}, {"runAsUser": 1000}, False),
        ({"runAsUser": 0}, {}, False),
        ({"runAsNonRoot": True}, {}, False),  # nodes that pull no images do not know their users
    ],
)
def test_a_container_that_must_not_be_root_does_not_start_as_root(
    of_pod: dict[str, Any], own: dict[str, Any], refused: bool
) -> None:
    w = world(containers=[container(securityContext=own)], securityContext=of_pod)
    w.run(SEEN)
    if not refused:
        assert w.pod()["status"]["phase"] == "Running"
        return
    named = f'(pod: "p_default({w.pod()["metadata"]["uid"]})", container: c)'
    message = f"container's runAsUser breaks non-root policy {named}"
    assert waiting(w) == {"reason": "CreateContainerConfigError", "message": message}
    assert w.records == [f"Warning Failed: Error: {message}"]


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ("/tmp", "$(WHERE)", "error SubPath `/tmp` must not be an absolute path"),
        ("", "$(WHERE)/a", "error SubPath `/a` must not be an absolute path"),
        ("..", "a/$(WHERE)", "unable to provision SubPath `a/..`: must not contain '..'"),
    ],
)
def test_a_container_waits_while_an_expression_leads_out_of_its_volume(value: str, path: str, message: str) -> None:
    where = {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['where']"}}}
    mount = {"name": "v", "mountPath": "/data", "subPathExpr": path}
    w = world(containers=[container(env=[where], volumeMounts=[mount])], volumes=[{"name": "v", "emptyDir": {}}])
    w.change(PODS, "p", {"metadata": {"annotations": {"where": value}}}, "default")
    w.run(SEEN)
    assert waiting(w) == {"reason": "CreateContainerConfigError", "message": message}
    w.change(PODS, "p", {"metadata": {"annotations": {"where": "inside"}}}, "default")
    w.run(60)
    assert w.pod()["status"]["phase"] == "Running"


def test_a_pod_that_waits_can_be_deleted() -> None:
    w = world(volumes=[{"name": "v", "configMap": {"name": "a"}}])
    w.run(SEEN)
    w.begin_delete("p")
    w.run(30)
    assert w.list(PODS) == []


def test_nodes_beside_other_clusters_read_no_secrets_and_start_pods_anyway() -> None:
    pods = Pods(waits_for_objects=False)
    assert [each.resource for each in pods.interests] == [PODS, NODES]
    w = World(pods)
    w.put(NODES, node())
    w.put(PODS, pod(volumes=[{"name": "v", "secret": {"secretName": "missing"}}]))
    w.run()
    assert w.pod()["status"]["phase"] == "Running"
