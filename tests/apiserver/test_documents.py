"""Discovery, OpenAPI, health, version, metrics, and paths that lead nowhere."""

from __future__ import annotations

import dataclasses

import pytest

from kilauea.apiserver.rest.history import HISTORY
from kilauea.apiserver.rest.metrics import METRICS
from support.api_core import MAPS, PODS, Api
from support.controlled import Cluster

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def test_discovery_names_groups_versions_and_kinds(api: Api) -> None:
    assert api.good("GET", "/api")["versions"] == ["v1"]
    groups = {group["name"]: group["preferredVersion"]["groupVersion"] for group in api.good("GET", "/apis")["groups"]}
    assert groups["apps"] == "apps/v1"
    assert api.good("GET", "/apis/batch")["versions"] == [{"groupVersion": "batch/v1", "version": "v1"}]
    entries = {each["name"]: each for each in api.good("GET", "/api/v1")["resources"]}
    assert (entries["pods"]["shortNames"], entries["pods"]["categories"]) == (["po"], ["all"])
    assert entries["pods/eviction"]["group"] == "policy"
    assert entries["nodes"]["namespaced"] is False


def test_aggregated_discovery_says_the_same_in_one_answer(api: Api) -> None:
    found = set()
    for path in ("/api", "/apis"):
        body = api.good("GET", path, accept=AGGREGATED)
        assert body["kind"] == "APIGroupDiscoveryList"
        for group in body["items"]:
            for version in group["versions"]:
                name = group["metadata"].get("name", "")
                found |= {(name, version["version"], each["resource"]) for each in version["resources"]}
    assert found == {(each.group, each.version, each.plural) for each in api.backend.registry}


def test_podgroups_without_a_group_are_those_of_volcano_as_clients_take_the_first() -> None:
    cluster = Cluster(volcano=True)
    items = cluster.api.good("GET", "/apis", accept=AGGREGATED)["items"]
    with_the_kind = [
        group["metadata"]["name"]
        for group in items
        if any(each["resource"] == "podgroups" for version in group["versions"] for each in version["resources"])
    ]
    assert with_the_kind == ["scheduling.volcano.sh", "scheduling.k8s.io"]
    plain = [group["name"] for group in cluster.api.good("GET", "/apis")["groups"]]
    assert plain.index("scheduling.volcano.sh") < plain.index("scheduling.k8s.io")
    cluster.close()


def test_openapi_describes_kinds_that_are_told_and_never_stored(api: Api) -> None:
    for each in (*METRICS, *HISTORY):
        api.backend.registry.add(each)
    for path, kind, field in (
        ("apis/metrics.k8s.io/v1beta1", "io.k8s.metrics.v1beta1.PodMetrics", "containers"),
        ("apis/metrics.k8s.io/v1beta1", "io.k8s.metrics.v1beta1.NodeMetrics", "usage"),
        ("apis/history.kilauea.dev/v1alpha1", "dev.kilauea.history.v1alpha1.JobHistory", "pods"),
        ("api/v1", "io.k8s.api.core.v1.ComponentStatus", "conditions"),
    ):
        assert path in api.good("GET", "/openapi/v3")["paths"]
        schemas = api.good("GET", f"/openapi/v3/{path}")["components"]["schemas"]
        assert schemas[kind]["properties"][field]["description"]
        assert schemas[kind]["properties"]["metadata"]
        assert schemas[f"{kind}List"]["properties"]["items"]["items"] == {"$ref": f"#/components/schemas/{kind}"}
        assert kind in api.good("GET", "/openapi/v2")["definitions"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("HEAD", "/version", 405),
        ("HEAD", "/api", 405),
        ("HEAD", "/api/v1", 405),
        ("HEAD", "/apis/apps/v1", 405),
        ("POST", "/version", 405),
        ("HEAD", "/apis", 200),
        ("HEAD", "/healthz", 200),
        ("OPTIONS", "/readyz", 200),
        ("POST", "/livez", 200),
    ],
)
def test_documents_have_the_methods_of_the_real_server(api: Api, method: str, path: str, code: int) -> None:
    assert api.ask(method, path).code == code


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1"])
def test_discovery_is_refused_in_forms_that_it_does_not_have(api: Api, path: str) -> None:
    assert api.ask("GET", path, accept="text/plain").code == 406
    assert api.ask("GET", path, accept="text/plain, application/json").code == 200
    assert api.ask("GET", path, accept="*/*").code == 200


def test_openapi_names_the_forms_of_patches_that_a_kind_takes() -> None:
    cluster = Cluster(volcano=True)
    for path, kind, strategic in (
        ("/apis/scheduling.volcano.sh/v1beta1", "queues", False),
        ("/apis/apps/v1", "namespaces/{namespace}/deployments", True),
    ):
        paths = cluster.api.good("GET", f"/openapi/v3{path}")["paths"]
        forms = paths[f"{path}/{kind}/{{name}}"]["patch"]["requestBody"]["content"]
        assert ("application/strategic-merge-patch+json" in forms) == strategic
        assert "application/merge-patch+json" in forms
    cluster.close()


def test_a_kind_can_come_and_go_at_run_time(api: Api) -> None:
    pods = api.backend.registry.find("", "v1", "pods")
    assert pods is not None
    api.backend.registry.add(dataclasses.replace(pods, group="example.com", plural="gadgets"))
    assert "example.com" in [each["name"] for each in api.good("GET", "/apis")["groups"]]
    assert api.good("GET", "/apis/example.com/v1/namespaces/default/gadgets")["items"] == []
    api.backend.registry.remove("example.com", "v1", "gadgets")
    assert api.ask("GET", "/apis/example.com/v1").code == 404
    assert "example.com" not in [each["name"] for each in api.good("GET", "/apis")["groups"]]


def test_openapi_describes_every_kind_and_what_clients_may_ask(api: Api) -> None:
    paths = api.good("GET", "/openapi/v3")["paths"]
    assert "api/v1" in paths
    assert "apis/apps/v1" in paths
    url = paths["api/v1"]["serverRelativeURL"]
    assert url.startswith("/openapi/v3/api/v1?hash=")
    document = api.good("GET", url)
    patch = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    schema = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert schema["x-kubernetes-patch-merge-key"] == "name"
    old = api.good("GET", "/openapi/v2")
    assert "description" not in old["definitions"]["io.k8s.api.core.v1.Container"]["properties"]["args"]
    assert (old["swagger"], "io.k8s.api.core.v1.Pod" in old["definitions"]) == ("2.0", True)


def test_openapi_is_not_sent_twice(api: Api) -> None:
    tag = api.ask("GET", "/openapi/v2").headers["Etag"]
    again = api.ask("GET", "/openapi/v2", if_none_match=tag)
    assert (again.code, again.headers["Etag"]) == (304, tag)


def test_health_tells_its_parts_on_demand(api: Api) -> None:
    assert api.ask("GET", "/readyz").body == "ok"
    whole = api.ask("GET", "/readyz?verbose").body
    assert whole.startswith("[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]informer-sync ok\n")
    assert whole.endswith("[+]shutdown ok\nreadyz check passed\n")
    assert "[+]poststarthook/crd-informer-synced ok\n" in api.ask("GET", "/healthz?verbose=1").body
    assert api.ask("GET", "/livez/ping").body == "ok"
    assert api.ask("GET", "/livez/poststarthook/rbac/bootstrap-roles").body == "ok"
    assert api.ask("GET", "/livez/informer-sync").code == 404
    assert api.ask("GET", "/livez/other").code == 404


def test_checks_of_health_are_left_out_as_asked(api: Api) -> None:
    lines = api.ask("GET", "/livez?verbose&exclude=etcd&exclude=none").body.splitlines()
    assert lines[3] == "[+]etcd excluded: ok"
    assert lines[-2:] == [
        'warn: some health checks cannot be excluded: no matches for "none"',
        "livez check passed",
    ]


def test_the_results_of_checks_are_metrics_of_their_own(api: Api) -> None:
    api.ask("GET", "/livez/ping")
    api.ask("GET", "/livez?exclude=log")
    found = api.ask("GET", "/metrics/slis").body
    assert 'kubernetes_healthcheck{name="ping",type="livez"} 1.0\n' in found
    assert 'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 2.0\n' in found
    assert 'kubernetes_healthchecks_total{name="log"' not in found
    assert 'kubernetes_healthcheck{name="log",type="readyz"} 1.0\n' in found


def test_version_and_metrics(api: Api) -> None:
    version = api.good("GET", "/version")
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.")
    assert "python_info" in api.ask("GET", "/metrics").body


def test_metrics_count_requests_watches_and_objects_by_kind(api: Api) -> None:
    for name in ("a", "b"):
        api.good("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})
    api.ask("GET", "/api/v1/namespaces/default/configmaps/none")
    api.ask("GET", "/apis/made.up/v1/of-a-client")
    resource = api.backend.registry.find("", "v1", "configmaps")
    assert resource is not None
    watcher = api.backend.store.watch(resource.root, api.backend.store.revision)
    text = api.ask("GET", "/metrics").body
    kind = 'group="",{}resource="configmaps",subresource="",verb="{}",version="v1"'
    for line in (
        f'apiserver_request_total{{code="201",{kind.format("", "POST")}}} 2.0',
        f'apiserver_request_total{{code="404",{kind.format("", "GET")}}} 1.0',
        f"apiserver_request_duration_seconds_count{{{kind.format('', 'POST')}}} 2.0",
        'apiserver_resource_objects{group="",resource="configmaps"} 2.0',
        'apiserver_longrunning_requests{group="",resource="configmaps",verb="WATCH"} 1.0',
        'apiserver_current_inflight_requests{request_kind="readOnly"} 1.0',
        'apiserver_current_inflight_requests{request_kind="mutating"} 0.0',
    ):
        assert line in text
    assert "made.up" not in text
    watcher.close()


@pytest.mark.parametrize("path", ["/nowhere", "/apis/none.example.com/v1", "/apis/none/v1/things"])
def test_paths_that_lead_nowhere_are_not_found(api: Api, path: str) -> None:
    answer = api.ask("GET", path)
    assert (answer.code, answer.body) == (404, "404 page not found\n")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/things",
        f"{PODS}/a/nothing",
        "/api/v1/pods/a",
        "/api/v1/namespaces/x/nodes",
        "/api/v1/bindings",
        "/api/v2",
        "/api/v9/pods",
        "/apis/apps/v9",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews/a",
    ],
)
def test_resources_that_a_group_does_not_have_are_not_found(api: Api, path: str) -> None:
    answer = api.ask("GET", path)
    assert (answer.code, answer.body["reason"]) == (404, "NotFound")
    assert answer.body["message"] == "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/pods"),
        ("PUT", PODS),
        ("PATCH", MAPS),
        ("POST", f"{MAPS}/a"),
        ("DELETE", "/api/v1/configmaps"),
        ("BREW", MAPS),
        ("POST", "/version"),
    ],
)
def test_methods_that_a_path_does_not_have(api: Api, method: str, path: str) -> None:
    answer = api.ask(method, path)
    assert (answer.code, answer.body["reason"]) == (405, "MethodNotAllowed")


JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


def test_methods_of_custom_resources_are_those_of_the_real_server() -> None:
    cluster = Cluster(volcano=True)
    everywhere = JOBS.replace("/namespaces/default", "")
    for method, path in (
        ("DELETE", everywhere),
        ("POST", everywhere),
        ("GET", f"{everywhere}/a"),
        ("GET", "/apis/scheduling.volcano.sh/v1beta1/namespaces/x/queues"),
        ("GET", "/apis/batch.volcano.sh/v1alpha1/things"),
    ):
        answer = cluster.api.ask(method, path)
        assert (answer.code, answer.body) == (404, "404 page not found\n"), path
    for method in ("PUT", "PATCH"):
        answer = cluster.api.ask(method, JOBS, {})
        assert (answer.code, answer.body["message"]) == (400, "name must be provided")
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "a"}}
    made = cluster.api.ask("POST", "/apis/scheduling.volcano.sh/v1beta1/queues/b", queue)
    assert (made.code, made.body["metadata"]["name"]) == (201, "a")
    cluster.close()


def test_the_core_group_lists_its_kinds_without_a_version_of_the_list(api: Api) -> None:
    assert "apiVersion" not in api.good("GET", "/api/v1")
    assert api.good("GET", "/apis/apps/v1")["apiVersion"] == "v1"


def test_openapi_describes_built_in_kinds_and_their_fields(api: Api) -> None:
    """As `kubectl explain` shows them."""
    schemas = api.good("GET", "/openapi/v3/api/v1")["components"]["schemas"]
    container = schemas["io.k8s.api.core.v1.Container"]
    assert container["description"] == "A single application container that you want to run within a pod."
    assert container["properties"]["args"]["description"].startswith("Arguments to the entrypoint.")
    metadata = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]
    assert metadata["creationTimestamp"]["description"].startswith("CreationTimestamp is a timestamp")


def test_openapi_has_no_empty_lists(api: Api) -> None:
    """Clients written in Go leave them out when they write what they read, and compare."""
    paths = api.good("GET", "/openapi/v3/apis/apps/v1")["paths"].values()
    assert all(path.get("parameters", True) for path in paths)
    operations = [each for path in paths for name, each in path.items() if name != "parameters"]
    assert operations
    assert all(each.get("parameters", True) for each in operations)
