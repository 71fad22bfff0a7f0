"""Namespaces that are deleted while aggregated API servers are there, or away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from kilauea.runtime.cluster.in_process import standalone
from support.aggregated_server import API_SERVICES, NAME, PATH, AggregatedServer, Aggregation, api_service

TEAM = "/api/v1/namespaces/team"
FLUNDERS = f"{PATH}/namespaces/team/flunders"


@pytest.fixture
def kept(behind: Aggregation) -> Iterator[Aggregation]:
    """An API whose controllers end deletions."""
    beside = standalone(behind.api.server)
    behind.api.run(beside.__aenter__())
    behind.api.good("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    yield behind
    behind.api.run(beside.__aexit__(None, None, None))


def until_gone(behind: Aggregation) -> None:
    """Wait until the namespace is gone."""
    for _ in range(3000):
        if behind.api.ask("GET", TEAM).code == 404:
            return
        behind.api.run(asyncio.sleep(0.01))
    raise AssertionError(behind.api.good("GET", TEAM))


def test_objects_of_other_servers_go_with_their_namespace(kept: Aggregation, server: AggregatedServer) -> None:
    items: list[dict[str, Any]] = [{"metadata": {"name": "a", "namespace": "team"}}]

    async def flunders(request: web.Request) -> web.StreamResponse:
        if request.method == "DELETE":
            items.clear()
        body = {"kind": "FlunderList", "apiVersion": "wardle.example.com/v1alpha1", "metadata": {}, "items": items}
        return web.json_response(body)

    server.handlers[FLUNDERS] = flunders
    kept.register(server)
    kept.api.ask("DELETE", TEAM)
    until_gone(kept)
    assert items == []


def test_a_namespace_stays_while_a_server_is_away(kept: Aggregation, server: AggregatedServer) -> None:
    kept.api.good("POST", API_SERVICES, api_service(server.bundle))
    kept.wait("False")
    kept.api.good("POST", f"{TEAM}/configmaps", {"metadata": {"name": "a"}})
    kept.api.ask("DELETE", TEAM)
    conditions: list[dict[str, Any]] = []
    for _ in range(3000):
        conditions = kept.api.good("GET", TEAM)["status"].get("conditions") or []
        if conditions:
            break
        kept.api.run(asyncio.sleep(0.01))
    failing = [(each["type"], each["reason"], each["message"]) for each in conditions if each["status"] == "True"]
    assert failing == [
        (
            "NamespaceDeletionDiscoveryFailure",
            "DiscoveryFailed",
            "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: "
            "wardle.example.com/v1alpha1: stale GroupVersion discovery: wardle.example.com/v1alpha1",
        )
    ]
    assert kept.api.ask("GET", f"{TEAM}/configmaps/a").code == 404
    kept.api.good("DELETE", f"{API_SERVICES}/{NAME}")
    until_gone(kept)


def test_kinds_of_other_servers_are_no_concern_of_the_garbage_collector(
    kept: Aggregation, server: AggregatedServer
) -> None:
    kept.register(server)
    kept.api.good("POST", f"{TEAM}/configmaps", {"metadata": {"name": "owner"}})
    kept.api.good("DELETE", f"{TEAM}/configmaps/owner")
    kept.api.run(asyncio.sleep(0.2))
    assert [each for each in server.requests if "flunders" in each[1]] == []
