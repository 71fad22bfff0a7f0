"""The condition Available of APIServices."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from kilauea.apiserver import decoding
from kilauea.apiserver.aggregator import openapi
from kilauea.apiserver.aggregator.services import RemoteService
from kilauea.apiserver.api_services import availability
from kilauea.apiserver.api_services.availability import Availability
from kilauea.apiserver.dynamic import remote
from kilauea.apiserver.dynamic.remote import SERVICE_NAME
from kilauea.apiserver.storage import Store
from support.aggregated_server import (
    API_SERVICES,
    GROUP,
    NAME,
    PATH,
    VERSION,
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


@pytest.fixture
def patient(behind: Aggregation, monkeypatch: pytest.MonkeyPatch) -> Aggregation:
    """One whose checks are not repeated, unless something changes."""
    monkeypatch.setattr(availability, "SOON_SECONDS", 1000.0)
    monkeypatch.setattr(behind.availability, "_again", 1000.0)
    return behind


def settle(behind: Aggregation) -> None:
    """Let changes gather, and the checks that follow from them end."""
    behind.api.run(asyncio.sleep(3 * availability.GATHER_SECONDS))


def test_only_changes_of_its_own_service_and_endpoints_concern_an_api_service(
    patient: Aggregation, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, looked, read = patient.api, list[str](), list[str]()
    for number in range(30):
        other = {"name": f"other-{number % 3}", "namespace": "default"}
        api.good("POST", API_SERVICES, api_service(group=f"g{number}.example.com", service=other))
    api.good("POST", API_SERVICES, api_service())
    api.good("POST", SERVICES, service())
    for number in range(40):
        labels = {"kubernetes.io/service-name": f"busy-{number}"}
        api.good("POST", SLICES, {**piece(1), "metadata": {"name": f"busy-{number}", "labels": labels}})
    patient.wait("False", "EndpointsNotFound")
    settle(patient)
    facts_of, slices_of = Availability._facts, remote.slices_of

    def look(checks: Availability, service: RemoteService) -> object:
        looked.append(service.name)
        return facts_of(checks, service)

    def read_slices(store: Store, namespace: str, name: str) -> Iterator[Any]:
        read.append(name)
        return slices_of(store, namespace, name)

    monkeypatch.setattr(Availability, "_facts", look)
    monkeypatch.setattr(availability, "slices_of", read_slices)
    for number in range(40):
        api.good("PATCH", f"{SLICES}/busy-{number}", {"endpoints": []}, content_type=MERGE)
    api.good("POST", SERVICES, {"metadata": {"name": "another"}, "spec": {"ports": [{"port": 80}]}})
    settle(patient)
    assert (looked, read) == ([], [])
    api.good("POST", SLICES, {**piece(1), "endpoints": []})
    patient.wait("False", "MissingEndpoints")
    assert (looked, read) == ([NAME], ["api"])
    api.good("PATCH", f"{SLICES}/api-1", {"metadata": {"labels": {SERVICE_NAME: "another"}}}, content_type=MERGE)
    patient.wait("False", "EndpointsNotFound")
    assert (looked, read) == ([NAME] * 2, ["api"] * 2)


def test_slices_of_other_services_are_not_decoded(patient: Aggregation, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    decode = decoding.decode

    def count(value: bytes) -> dict[str, Any]:
        found = decode(value)
        decoded.append(found["metadata"]["name"])
        return found

    monkeypatch.setattr(remote, "decode", count)
    for number in range(20):
        labels = {SERVICE_NAME: "busy"}
        patient.api.good("POST", SLICES, {**piece(1), "metadata": {"name": f"busy-{number}", "labels": labels}})
    patient.api.good("POST", SLICES, {**piece(1), "endpoints": []})
    patient.api.good("POST", SERVICES, service())
    patient.api.good("POST", API_SERVICES, api_service())
    patient.wait("False", "MissingEndpoints")
    assert not [each for each in decoded if each.startswith("busy")]


def test_answers_are_decoded_beside_the_event_loop(
    behind: Aggregation, server: AggregatedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    described = openapi.described

    def note(document: bytes, path: str) -> Any:
        threads.append(threading.get_ident())
        return described(document, path)

    monkeypatch.setattr(availability, "described", note)
    behind.register(server)
    assert threads
    assert threading.get_ident() not in threads


async def hang(request: web.Request) -> web.StreamResponse:
    """Answer never."""
    await asyncio.sleep(600)
    return web.Response()


def test_servers_that_never_answer_do_not_hold_up_the_checks_of_others(
    behind: Aggregation, server: AggregatedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(availability, "SLOW_SECONDS", 0.1)
    behind.service(server.port)
    dead = [f"g{number}.example.com" for number in range(2 * availability.AT_A_TIME)]
    for group in dead:
        server.handlers[f"/apis/{group}/v1alpha1"] = hang
        behind.api.good("POST", API_SERVICES, api_service(server.bundle, group=group))
    for group in dead:
        behind.wait("False", "FailedDiscoveryCheck", name=f"v1alpha1.{group}")
    monkeypatch.setattr(availability, "CHECK_SECONDS", 600.0)  # from now on they wait forever
    while behind.availability._slow_turns._value:
        behind.api.run(asyncio.sleep(0.01))
    behind.api.good("POST", API_SERVICES, api_service(server.bundle))
    behind.wait("True")


def test_a_server_is_available_while_its_descriptions_do_not_come(
    behind: Aggregation, server: AggregatedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "CHECK_SECONDS", 600.0)
    server.handlers[f"/openapi/v3{PATH}"] = hang
    behind.register(server, described=False)
    while (GROUP, VERSION) not in behind.aggregator.found:
        behind.api.run(asyncio.sleep(0.01))
    kinds = behind.aggregator.found[GROUP, VERSION].resources
    assert kinds is not None
    assert kinds[0]["name"] == "flunders"


def test_descriptions_outlast_a_time_in_which_none_comes(
    behind: Aggregation, server: AggregatedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind.register(server)
    known, before = behind.aggregator.found[GROUP, VERSION], len(server.checks)
    monkeypatch.setattr(availability, "CHECK_SECONDS", 0.1)
    server.handlers |= {f"/openapi/v3{PATH}": hang, "/openapi/v2": hang}
    while len(server.checks) < before + 10:
        behind.api.run(asyncio.sleep(0.01))
    assert behind.aggregator.found[GROUP, VERSION] == known
