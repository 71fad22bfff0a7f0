"""Discovery and descriptions of what aggregated API servers serve, and the APIServices of the server itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from kilauea.apiserver.documents import openapi
from kilauea.apiserver.protobuf.openapi import encode_definition
from kilauea.apiserver.request import ApiResponse, make_request
from kilauea.apiserver.rest.metrics import METRICS
from support.aggregated_server import API_SERVICES, GROUP, PATH, AggregatedServer, Aggregation, api_service
from support.api_core import ADMIN, named
from support.definitions import serve, trees

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
MERGE = "application/merge-patch+json"


def nested(levels: int) -> dict[str, Any]:
    """A schema in a schema, and so on."""
    return {"items": nested(levels - 1)} if levels else {"type": "string"}


def aggregated(behind: Aggregation) -> dict[str, dict[str, Any]]:
    """The versions of groups in aggregated discovery, by group and version."""
    document = json.loads(json.dumps(behind.api.good("GET", "/apis", accept=AGGREGATED)))
    return {
        f"{each['metadata']['name']}/{version['version']}": version
        for each in document["items"]
        for version in each["versions"]
    }


def test_the_group_stands_where_its_priority_puts_it(behind: Aggregation, server: AggregatedServer) -> None:
    behind.api.backend.registry.add(METRICS[0])
    behind.register(server)
    names = [each["name"] for each in behind.api.good("GET", "/apis")["groups"]]
    assert names.index("apps") < names.index("flowcontrol.apiserver.k8s.io") < names.index(GROUP)
    assert names.index(GROUP) < names.index("metrics.k8s.io")
    assert [each.partition("/")[0] for each in aggregated(behind) if each.startswith((GROUP, "metrics"))] == [
        GROUP,
        "metrics.k8s.io",
    ]
    preferred = {"groupVersion": f"{GROUP}/v1alpha1", "version": "v1alpha1"}
    assert behind.api.good("GET", f"/apis/{GROUP}") == {
        "kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [preferred], "preferredVersion": preferred
    }  # fmt: skip


def test_aggregated_discovery_lists_its_kinds(behind: Aggregation, server: AggregatedServer) -> None:
    behind.register(server)
    kind = {"group": GROUP, "version": "v1alpha1", "kind": "Flunder"}
    assert aggregated(behind)[f"{GROUP}/v1alpha1"] == {
        "version": "v1alpha1",
        "freshness": "Current",
        "resources": [
            {
                "resource": "flunders",
                "responseKind": kind,
                "scope": "Namespaced",
                "singularResource": "flunder",
                "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
                "shortNames": ["fl"],
                "subresources": [{"subresource": "status", "responseKind": kind, "verbs": ["get"]}],
            }
        ],
    }


def test_the_kinds_of_a_server_that_is_away_are_stale(behind: Aggregation, server: AggregatedServer) -> None:
    behind.register(server)
    server.stop_listening()
    behind.wait("False")
    found = aggregated(behind)[f"{GROUP}/v1alpha1"]
    assert found["freshness"] == "Stale"
    assert [each["resource"] for each in found["resources"]] == ["flunders"]
    assert GROUP in [each["name"] for each in behind.api.good("GET", "/apis")["groups"]]


def test_a_server_that_was_never_there_is_stale_without_kinds(behind: Aggregation) -> None:
    behind.api.good("POST", API_SERVICES, api_service())
    assert aggregated(behind)[f"{GROUP}/v1alpha1"] == {"version": "v1alpha1", "freshness": "Stale"}


def test_versions_are_in_order_of_their_priorities(behind: Aggregation) -> None:
    for version, priority in (("v1beta1", 100), ("v1", 200)):
        behind.api.good("POST", API_SERVICES, api_service(version=version, versionPriority=priority))
    versions = [each["version"] for each in behind.api.good("GET", f"/apis/{GROUP}")["versions"]]
    assert versions == ["v1", "v1beta1"]


def test_descriptions_of_its_kinds_are_among_ours(behind: Aggregation, server: AggregatedServer) -> None:
    behind.register(server)
    paths = behind.api.good("GET", "/openapi/v3")["paths"]
    where = f"apis/{GROUP}/v1alpha1"
    assert paths[where]["serverRelativeURL"].startswith(f"/openapi/v3/{where}?hash=")
    assert behind.api.good("GET", f"/openapi/v3/{where}")["info"] == {"title": "wardle"}
    older = behind.api.good("GET", "/openapi/v2")
    assert f"{PATH}/flunders" in older["paths"]
    assert "/apis/other/v1/" not in older["paths"]
    assert "Flunder" in older["definitions"]
    assert "Other" not in older["definitions"]


def test_descriptions_in_protobuf_are_made_once(
    behind: Aggregation, server: AggregatedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a large one takes seconds, so it is made beside the event loop, when the description is read."""
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    behind.register(server)
    made, encode = list[str](), encode_definition

    def counted(name: str, schema: Any) -> bytes:
        made.append(name)
        return encode(name, schema)

    monkeypatch.setattr(openapi, "encode_definition", counted)
    answer = behind.api.run(
        behind.api.server.handle(make_request("GET", "/openapi/v2", {"accept": accept}, user=ADMIN))
    )
    assert isinstance(answer, ApiResponse)
    assert isinstance(answer.body, bytes)
    assert encode("Flunder", behind.api.good("GET", "/openapi/v2")["definitions"]["Flunder"]) in answer.body
    assert "Flunder" not in made
    assert "io.k8s.api.core.v1.Pod" in made


def test_kinds_that_make_no_sense_are_not_shown(behind: Aggregation, server: AggregatedServer) -> None:
    async def strange(request: web.Request) -> web.StreamResponse:
        return web.json_response({"resources": [{"name": 1}]})

    server.handlers[PATH] = strange
    behind.register(server, described=False)
    assert aggregated(behind)[f"{GROUP}/v1alpha1"] == {"version": "v1alpha1", "freshness": "Stale"}


def test_resource_metrics_of_another_server_take_the_place_of_ours(
    behind: Aggregation, server: AggregatedServer
) -> None:
    for each in METRICS:
        behind.api.backend.registry.add(each)
    server.handlers["/apis/metrics.k8s.io/v1beta1"] = _metrics
    behind.service(server.port)
    theirs = api_service(server.bundle, "metrics.k8s.io", "v1beta1", groupPriorityMinimum=100, versionPriority=100)
    behind.api.good("POST", API_SERVICES, theirs)
    behind.wait("True", name="v1beta1.metrics.k8s.io")
    resources = aggregated(behind)["metrics.k8s.io/v1beta1"]["resources"]
    assert [each["resource"] for each in resources] == ["nodes"]
    assert len([each for each in aggregated(behind) if each.startswith("metrics.k8s.io")]) == 1


async def _metrics(request: web.Request) -> web.StreamResponse:
    kinds = [{"name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics", "verbs": ["get"]}]
    return web.json_response({"resources": kinds})


def test_built_in_groups_are_never_handed_on(behind: Aggregation, server: AggregatedServer) -> None:
    behind.service(server.port)
    for group in ("apps", "rbac.authorization.k8s.io"):
        behind.api.good("POST", API_SERVICES, api_service(server.bundle, group, "v1"))
    assert behind.aggregator.services == {}
    assert behind.api.good("GET", "/apis/apps/v1/deployments")["items"] == []


def test_what_the_server_serves_itself_has_api_services(behind: Aggregation) -> None:
    for each in METRICS:
        behind.api.backend.registry.add(each)
    behind.api.run(behind.registration.write())
    found = behind.api.good("GET", API_SERVICES)
    assert {"v1.", "v1.apps", "v2.autoscaling"} <= set(named(found))
    assert "v1.apiregistration.k8s.io" not in named(found)  # Kubernetes has none either
    assert "v1beta1.metrics.k8s.io" not in named(found)
    apps = next(each for each in found["items"] if each["metadata"]["name"] == "v1.apps")
    assert apps["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
    assert apps["spec"] == {"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15}
    assert apps["status"]["conditions"][0]["reason"] == "Local"


def test_an_api_service_of_the_server_is_made_again_and_mended(behind: Aggregation, server: AggregatedServer) -> None:
    behind.api.run(behind.registration.write())
    behind.api.good("DELETE", f"{API_SERVICES}/v1.apps")
    spec = api_service(server.bundle, "batch", "v1")["spec"]
    behind.api.good("PATCH", f"{API_SERVICES}/v1.batch", {"spec": spec}, content_type=MERGE)
    behind.api.run(behind.registration.write())
    assert behind.api.good("GET", f"{API_SERVICES}/v1.apps")["spec"]["group"] == "apps"
    assert "service" not in behind.api.good("GET", f"{API_SERVICES}/v1.batch")["spec"]
    before = behind.api.backend.store.revision
    behind.api.run(behind.registration.write())
    assert behind.api.backend.store.revision == before


def test_definitions_have_api_services_as_long_as_they_are_served(behind: Aggregation) -> None:
    serve(behind.api, trees({"type": "object"}))
    behind.api.run(behind.registration.write())
    found = behind.api.good("GET", f"{API_SERVICES}/v1.example.com")
    assert found["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
    assert (found["spec"]["groupPriorityMinimum"], found["spec"]["versionPriority"]) == (1000, 100)
    behind.api.backend.registry.remove("example.com", "v1", "trees")
    behind.api.run(behind.registration.write())
    assert behind.api.ask("GET", f"{API_SERVICES}/v1.example.com").code == 404


@pytest.mark.parametrize(
    "wrong", [{"shortNames": 5}, {"singularName": {}}, {"categories": "all"}, {"group": [1]}, {"verbs": None}]
)
def test_kinds_that_clients_cannot_read_are_not_shown(
    behind: Aggregation, server: AggregatedServer, wrong: dict[str, Any]
) -> None:
    server.resources = [{**server.resources[0], **wrong}]
    behind.register(server, described=False)
    assert aggregated(behind)[f"{GROUP}/v1alpha1"] == {"version": "v1alpha1", "freshness": "Stale"}


@pytest.mark.parametrize("form", ["application/json", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"])
@pytest.mark.parametrize(
    "definition",
    [5, {"type": 5}, {"type": "array", "required": 3}, {"properties": [1]}, nested(300)],
    ids=["number", "type", "required", "properties", "deep"],
)
def test_a_description_that_cannot_be_read_takes_nothing_from_others(
    behind: Aggregation, server: AggregatedServer, form: str, definition: Any
) -> None:
    async def describe(request: web.Request) -> web.StreamResponse:
        operation = {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/Flunder"}}}}}
        return web.json_response({"paths": {f"{PATH}/flunders": operation}, "definitions": {"Flunder": definition}})

    server.handlers["/openapi/v2"] = describe
    behind.register(server)
    answer = behind.api.run(behind.api.server.handle(make_request("GET", "/openapi/v2", {"accept": form}, b"", ADMIN)))
    assert isinstance(answer, ApiResponse)
    assert (answer.status, b"Flunder" in answer.body) == (200, False)
