"""The condition Available of APIServices."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from kilauea.apiserver.aggregator import availability
from support.aggregated_server import (
    API_SERVICES,
    NAME,
    PATH,
    AggregatedServer,
    Aggregation,
    api_service,
    piece,
    service,
)

SERVICES = "/api/v1/namespaces/default/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
MERGE = "application/merge-patch+json"


def test_the_condition_follows_the_service_and_its_endpoints(behind: Aggregation, server: AggregatedServer) -> None:
    api = behind.api
    api.good("POST", API_SERVICES, api_service(server.bundle))
    found = behind.wait("False")
    assert (found["reason"], found["message"]) == ("ServiceNotFound", 'service/api in "default" is not present')
    api.good("POST", SERVICES, service(ports=[{"port": 80}]))
    found = behind.wait("False", "ServicePortError")
    assert found["message"] == 'service/api in "default" is not listening on port 443'
    api.good("PATCH", f"{SERVICES}/api", {"spec": {"ports": [{"port": 443}]}}, content_type=MERGE)
    found = behind.wait("False", "EndpointsNotFound")
    assert found["message"] == 'cannot find endpointslices for service/api in "default"'
    api.good("POST", SLICES, {**piece(server.port), "endpoints": []})
    found = behind.wait("False", "MissingEndpoints")
    assert found["message"] == 'endpointslices for service/api in "default" have no addresses with port name ""'
    api.good("PATCH", f"{SLICES}/api-1", {"endpoints": piece(server.port)["endpoints"]}, content_type=MERGE)
    found = behind.wait("True")
    assert (found["reason"], found["message"]) == ("Passed", "all checks passed")


def test_a_server_is_asked_as_the_aggregator(behind: Aggregation, server: AggregatedServer) -> None:
    behind.register(server)
    method, path, headers = server.checks[0]
    assert (method, path) == ("GET", PATH)
    assert ("x-remote-group", "system:masters") in headers
    assert server.clients[0] == "front-proxy-client"


def test_a_wrong_authority_is_told(behind: Aggregation, server: AggregatedServer) -> None:
    other = AggregatedServer()
    try:
        behind.service(server.port)
        behind.api.good("POST", API_SERVICES, api_service(other.bundle))
        found = behind.wait("False", "FailedDiscoveryCheck")
    finally:
        other.close()
    assert found["message"].startswith(
        f'failing or missing response from https://127.0.0.1:{server.port}{PATH}: Get "https://127.0.0.1:{server.port}'
        f'{PATH}": tls: failed to verify certificate: x509: '
    )


def test_any_certificate_is_accepted_where_that_is_said(behind: Aggregation, server: AggregatedServer) -> None:
    behind.service(server.port)
    behind.api.good("POST", API_SERVICES, api_service())
    behind.wait("True")


def test_a_code_that_is_no_success_fails(behind: Aggregation, server: AggregatedServer) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.Response(status=403)

    server.handlers[PATH] = refuse
    behind.service(server.port)
    behind.api.good("POST", API_SERVICES, api_service(server.bundle))
    where = f"https://127.0.0.1:{server.port}{PATH}"
    found = behind.wait("False", "FailedDiscoveryCheck")
    assert found["message"] == f"failing or missing response from {where}: bad status from {where}: 403"


def test_a_server_that_never_answers_fails_and_holds_up_nothing(
    behind: Aggregation, server: AggregatedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "CHECK_SECONDS", 0.2)

    async def hang(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    server.handlers[PATH] = hang
    behind.service(server.port)
    behind.api.good("POST", API_SERVICES, api_service(server.bundle))
    assert "context deadline exceeded" in behind.wait("False", "FailedDiscoveryCheck")["message"]


def test_of_an_endless_answer_only_so_much_is_read(
    behind: Aggregation, server: AggregatedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "LARGEST_DISCOVERY", 100_000)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(50):
            await response.write(b"x" * 10_000)
        await asyncio.sleep(60)
        return response

    server.handlers[PATH] = endless
    behind.service(server.port)
    behind.api.good("POST", API_SERVICES, api_service(server.bundle))
    assert "the answer is larger than 100000 bytes" in behind.wait("False", "FailedDiscoveryCheck")["message"]


def test_time_of_the_condition_changes_with_its_status_only(behind: Aggregation, server: AggregatedServer) -> None:
    behind.api.good("POST", API_SERVICES, api_service(server.bundle))
    first = behind.wait("False", "ServiceNotFound")
    behind.api.now += 60_000_000
    behind.api.good("POST", SERVICES, service())
    assert behind.wait("False", "EndpointsNotFound")["lastTransitionTime"] == first["lastTransitionTime"]
    behind.api.good("POST", SLICES, piece(server.port))
    assert behind.wait("True")["lastTransitionTime"] > first["lastTransitionTime"]


def test_an_external_name_is_followed(behind: Aggregation, server: AggregatedServer) -> None:
    port = {"name": "api", "namespace": "default", "port": server.port}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    behind.api.good("POST", SERVICES, {"metadata": {"name": "api"}, "spec": spec})
    behind.api.good("POST", API_SERVICES, api_service(server.bundle, service=port))
    behind.wait("True")


def test_a_service_of_simulated_pods_is_told(behind: Aggregation, server: AggregatedServer) -> None:
    pod: dict[str, Any] = behind.api.create_pod("serving", labels={"app": "api"})
    behind.api.good("POST", SERVICES, service(selector={"app": "api"}))
    endpoint = {**piece(1, "127.0.0.9")["endpoints"][0], "targetRef": {"kind": "Pod", "name": pod["metadata"]["name"]}}
    behind.api.good("POST", SLICES, {**piece(1), "endpoints": [endpoint]})
    behind.api.good("POST", API_SERVICES, api_service(server.bundle))
    assert "pod default/serving is simulated" in behind.wait("False", "FailedDiscoveryCheck")["message"]


def test_an_api_service_that_goes_is_checked_no_longer(behind: Aggregation, server: AggregatedServer) -> None:
    behind.register(server)
    behind.api.good("DELETE", f"{API_SERVICES}/{NAME}")
    assert behind.aggregator.of_path(PATH) is None
    assert behind.api.ask("GET", PATH).code == 404
