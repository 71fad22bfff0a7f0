"""The official Python client against the server: typed, dynamic and custom objects, patches, watches, leases."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from kubernetes.client.exceptions import ApiException

from cluster.api_process import Server
from kubernetes import client as k8s
from kubernetes import config, dynamic, watch


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[k8s.ApiClient]:
    with config.new_client_from_config(str(server.kubeconfig)) as client:
        yield client


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> k8s.V1ConfigMap:
    return k8s.V1ConfigMap(metadata=k8s.V1ObjectMeta(name=name, labels=labels), data=data)


def pod(name: str) -> k8s.V1Pod:
    container = k8s.V1Container(name="main", image="image", resources=k8s.V1ResourceRequirements(requests={"cpu": "1"}))
    return k8s.V1Pod(metadata=k8s.V1ObjectMeta(name=name), spec=k8s.V1PodSpec(containers=[container]))


def test_an_object_is_created_read_replaced_listed_and_deleted(api: k8s.ApiClient, namespace: str) -> None:
    core = k8s.CoreV1Api(api)
    made = core.create_namespaced_config_map(namespace, config_map("a", one="1"))
    assert made.metadata.uid
    assert made.metadata.creation_timestamp is not None
    assert made.metadata.creation_timestamp <= datetime.datetime.now(datetime.UTC)
    assert made.data is not None
    made.data["two"] = "2"
    replaced = core.replace_namespaced_config_map("a", namespace, made)
    assert replaced.metadata.resource_version != made.metadata.resource_version
    assert core.read_namespaced_config_map("a", namespace).data == {"one": "1", "two": "2"}
    with pytest.raises(ApiException) as raised:
        core.replace_namespaced_config_map("a", namespace, made)
    assert (raised.value.status, raised.value.reason) == (409, "Conflict")
    listed = core.list_namespaced_config_map(namespace, field_selector="metadata.name=a")
    assert [each.metadata.name for each in listed.items] == ["a"]
    assert cast(Any, core.delete_namespaced_config_map("a", namespace))["status"] == "Success"
    with pytest.raises(ApiException) as raised:
        core.read_namespaced_config_map("a", namespace)
    assert raised.value.status == 404


def test_pages_of_a_list_are_the_whole_list(api: k8s.ApiClient, namespace: str) -> None:
    core = k8s.CoreV1Api(api)
    for number in range(7):
        core.create_namespaced_config_map(namespace, config_map(f"page-{number}"))
    names: list[str] = []
    token = None
    versions = set()
    while token != "":
        page = core.list_namespaced_config_map(namespace, limit=3, _continue=token, field_selector="metadata.name!=x")
        found = [str(each.metadata.name) for each in page.items]
        names += [name for name in found if name.startswith("page-")]
        versions.add(page.metadata.resource_version)
        token = page.metadata._continue or ""
        core.create_namespaced_config_map(namespace, config_map(f"later-{len(names)}-{len(token)}"))
    assert names == [f"page-{number}" for number in range(7)]
    assert len(versions) == 1


def test_a_pod_is_bound_and_its_status_reported(api: k8s.ApiClient, namespace: str) -> None:
    core = k8s.CoreV1Api(api)
    core.create_namespaced_pod(namespace, pod("p"))
    target = k8s.V1ObjectReference(api_version="v1", kind="Node", name="n1")
    binding = k8s.V1Binding(metadata=k8s.V1ObjectMeta(name="p"), target=target)
    core.create_namespaced_pod_binding("p", namespace, binding, _preload_content=False)
    bound = core.read_namespaced_pod("p", namespace)
    assert bound.spec.node_name == "n1"
    assert [(each.type, each.status) for each in bound.status.conditions] == [("PodScheduled", "True")]
    with pytest.raises(ApiException) as raised:
        core.create_namespaced_pod_binding("p", namespace, binding, _preload_content=False)
    assert raised.value.status == 409
    core.patch_namespaced_pod_status("p", namespace, {"status": {"phase": "Running"}})
    assert core.read_namespaced_pod_status("p", namespace).status.phase == "Running"
    eviction = k8s.V1Eviction(
        metadata=k8s.V1ObjectMeta(name="p"), delete_options=k8s.V1DeleteOptions(grace_period_seconds=0)
    )
    core.create_namespaced_pod_eviction("p", namespace, eviction)
    with pytest.raises(ApiException) as raised:
        core.read_namespaced_pod("p", namespace)
    assert raised.value.status == 404


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/merge-patch+json", {"data": {"one": None, "two": "2"}}, {"two": "2"}),
        ("application/strategic-merge-patch+json", {"data": {"two": "2"}}, {"one": "1", "two": "2"}),
        ("application/json-patch+json", [{"op": "add", "path": "/data/two", "value": "2"}], {"one": "1", "two": "2"}),
        ("application/apply-patch+yaml", {"data": {"two": "2"}}, {"one": "1", "two": "2"}),
    ],
)
def test_a_patch_does_what_its_content_type_says(
    api: k8s.ApiClient, namespace: str, content_type: str, body: Any, expected: dict[str, str]
) -> None:
    core = k8s.CoreV1Api(api)
    core.create_namespaced_config_map(namespace, config_map("c", one="1"))
    options: dict[str, Any] = {}
    if "apply" in content_type:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}} | dict(body)
        options = {"field_manager": "test"}
    patched = core.patch_namespaced_config_map("c", namespace, body, _content_type=content_type, **options)
    assert patched.data == expected


def test_the_error_of_a_bad_object_names_its_fields(api: k8s.ApiClient, namespace: str) -> None:
    with pytest.raises(ApiException) as raised:
        k8s.CoreV1Api(api).create_namespaced_pod(namespace, pod("Bad_Name"))
    assert raised.value.status == 422
    causes = str(raised.value.body)
    assert '"field":"metadata.name"' in causes


def test_a_watch_goes_on_where_it_was_left(api: k8s.ApiClient, namespace: str) -> None:
    core = k8s.CoreV1Api(api)
    start = core.list_namespaced_config_map(namespace).metadata.resource_version
    for name in ("a", "b", "c"):
        core.create_namespaced_config_map(namespace, config_map(name))
    core.delete_namespaced_config_map("b", namespace)
    seen: list[tuple[str, str]] = []
    for _ in range(4):
        stream = watch.Watch()
        options = {"resource_version": start, "timeout_seconds": 20}
        for event in stream.stream(core.list_namespaced_config_map, namespace, **options):
            seen.append((event["type"], event["object"].metadata.name))
            start = event["object"].metadata.resource_version
            break
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c"), ("DELETED", "b")]


def test_a_watch_ends_after_its_time(api: k8s.ApiClient, namespace: str) -> None:
    core = k8s.CoreV1Api(api)
    core.create_namespaced_config_map(namespace, config_map("a"))
    events = list(watch.Watch().stream(core.list_namespaced_config_map, namespace, timeout_seconds=1))
    assert [each["object"].metadata.name for each in events if each["object"].metadata.name == "a"] == ["a"]


def test_a_lease_has_one_holder_at_a_time(api: k8s.ApiClient, namespace: str) -> None:
    """Two candidates who update what both have read: one wins, the other is told of the conflict."""
    leases = k8s.CoordinationV1Api(api)
    now = datetime.datetime.now(datetime.UTC)
    spec = k8s.V1LeaseSpec(holder_identity="one", lease_duration_seconds=15, acquire_time=now, renew_time=now)
    leases.create_namespaced_lease(namespace, k8s.V1Lease(metadata=k8s.V1ObjectMeta(name="l"), spec=spec))
    first, second = (leases.read_namespaced_lease("l", namespace) for _ in range(2))
    assert first.spec.renew_time == now
    first.spec.renew_time = now + datetime.timedelta(seconds=1, microseconds=7)
    assert leases.replace_namespaced_lease("l", namespace, first).spec.renew_time == first.spec.renew_time
    second.spec.holder_identity = "two"
    with pytest.raises(ApiException) as raised:
        leases.replace_namespaced_lease("l", namespace, second)
    assert raised.value.status == 409
    assert leases.read_namespaced_lease("l", namespace).spec.holder_identity == "one"


def widget_definition(group: str) -> Any:
    properties = {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1, "minimum": 0}}}}
    schema = {"type": "object", "properties": properties}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def established(definitions: k8s.ApiextensionsV1Api, name: str) -> bool:
    status = definitions.read_custom_resource_definition(name).status
    return any(each.type == "Established" and each.status == "True" for each in status.conditions or ())


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, and fail if it never does."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def code_of(call: Callable[[], object]) -> int:
    """The status code of a call."""
    try:
        call()
    except ApiException as error:
        return int(error.status)
    return 200


def test_custom_objects_are_served_once_their_kind_is_established(api: k8s.ApiClient, namespace: str) -> None:
    group = "python.example.com"
    definitions = k8s.ApiextensionsV1Api(api)
    custom: Any = k8s.CustomObjectsApi(api)
    definitions.create_custom_resource_definition(widget_definition(group))
    until(lambda: established(definitions, f"widgets.{group}"))
    body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    assert custom.create_namespaced_custom_object(group, "v1", namespace, "widgets", body)["spec"] == {"size": 1}
    with pytest.raises(ApiException) as raised:
        custom.patch_namespaced_custom_object(group, "v1", namespace, "widgets", "w", {"spec": {"size": -1}})
    assert raised.value.status == 422
    patched = custom.patch_namespaced_custom_object(group, "v1", namespace, "widgets", "w", {"spec": {"size": 5}})
    assert (patched["spec"], patched["metadata"]["generation"]) == ({"size": 5}, 2)
    items = custom.list_cluster_custom_object(group, "v1", "widgets")["items"]
    assert [each["metadata"]["name"] for each in items] == ["w"]
    definitions.delete_custom_resource_definition(f"widgets.{group}")
    until(lambda: code_of(lambda: custom.list_cluster_custom_object(group, "v1", "widgets")) == 404)


def test_a_job_of_volcano_is_a_kind_like_others(api: k8s.ApiClient, namespace: str) -> None:
    custom: Any = k8s.CustomObjectsApi(api)
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    body = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"minAvailable": 2, "queue": "default", "tasks": [{"name": "t", "replicas": 2, "template": template}]},
    }
    place = ("batch.volcano.sh", "v1alpha1", namespace, "jobs")
    made = custom.create_namespaced_custom_object(*place, body)
    assert made["spec"]["tasks"][0]["template"] == template
    state = {"status": {"state": {"phase": "Running"}, "running": 2}}
    reported = custom.patch_namespaced_custom_object_status(*place, "j", state)
    assert reported["status"]["state"]["phase"] == "Running"
    assert reported["metadata"]["generation"] == made["metadata"]["generation"]
    custom.delete_namespaced_custom_object(*place, "j")


def test_the_dynamic_client_finds_kinds_by_discovery(api: k8s.ApiClient, namespace: str) -> None:
    found = dynamic.DynamicClient(api)
    deployments = found.resources.get(api_version="apps/v1", kind="Deployment")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    deployments.create(body=body, namespace=namespace)
    scale = deployments.scale.patch(
        name="d", namespace=namespace, body={"spec": {"replicas": 4}}, content_type="application/merge-patch+json"
    )
    assert scale.spec.replicas == 4
    assert deployments.get(name="d", namespace=namespace).spec.replicas == 4
    applied = deployments.server_side_apply(
        body=body, namespace=namespace, name="d", field_manager="m", force_conflicts=True
    )
    assert applied.spec.replicas == 2
    config_maps = found.resources.get(api_version="v1", kind="ConfigMap")
    config_maps.create(body={"metadata": {"name": "x"}}, namespace=namespace)
    events = config_maps.watch(namespace=namespace, timeout=1)
    assert "x" in [each["object"].metadata.name for each in events]
