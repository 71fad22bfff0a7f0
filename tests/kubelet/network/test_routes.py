"""Routes of services: which ports are forwarded, and to which endpoints."""

from __future__ import annotations

import pytest

from kilauea.kubelet.network.balancing import MOST_CLIENTS, Balancer
from kilauea.kubelet.network.routes import Listen, Route, routes_of
from support.network_objects import Object, endpoint, endpoint_slice, service

HTTP, DNS = {"port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}
ADDRESS = "127.96.0.9"
READY = [endpoint("127.64.0.2"), endpoint("127.64.0.1"), endpoint("127.64.0.3", ready=False)]
TARGETS = (("127.64.0.1", 8080), ("127.64.0.2", 8080))
WEB = Listen(ADDRESS, 80, "TCP")
SECOND = 1_000_000


def table(of: Object, *slices: Object) -> dict[Listen, tuple[tuple[str, int], ...]]:
    """The targets of each route."""
    return {listen: tuple(route.targets) for listen, route in routes_of(of, slices)}


@pytest.mark.parametrize(
    ("of", "slices", "routes"),
    [
        (service("web", ADDRESS, ports=[HTTP]), [endpoint_slice("web", READY, [{"port": 8080}])], {WEB: TARGETS}),
        (service("web", ADDRESS, ports=[HTTP]), [], {}),
        (service("web", "None", ports=[HTTP]), [endpoint_slice("web", READY, [{"port": 8080}])], {}),
        (
            service("web", ADDRESS, ports=[{**HTTP, "name": "http"}, DNS]),
            [endpoint_slice("web", READY[:1], [{"name": "http", "port": 8080}, {**DNS, "port": 5353}])],
            {WEB: TARGETS[1:], Listen(ADDRESS, 53, "UDP"): (("127.64.0.2", 5353),)},
        ),
        (
            service("web", ADDRESS, ports=[HTTP]),
            [endpoint_slice("web", READY[:1], [{"port": 8080}]), endpoint_slice("web", READY[1:], [{"port": 9090}])],
            {WEB: (("127.64.0.1", 9090), ("127.64.0.2", 8080))},
        ),
        (
            service("web", ADDRESS, ports=[{**HTTP, "nodePort": 30080}], type="NodePort"),
            [endpoint_slice("web", READY, [{"port": 8080}])],
            {WEB: TARGETS, Listen("127.0.0.1", 30080, "TCP"): TARGETS},
        ),
        (
            service("web", ADDRESS, ports=[{"port": 80, "protocol": "SCTP"}]),
            [endpoint_slice("web", READY, [{"port": 8080, "protocol": "SCTP"}])],
            {},
        ),
    ],
    ids=[
        "ready endpoints", "no endpoints", "headless", "ports by name", "named ports that differ between pods",
        "node port", "protocol that is not forwarded",
    ],
)  # fmt: skip
def test_a_port_leads_to_the_endpoints_that_are_ready(
    of: Object, slices: list[Object], routes: dict[Listen, tuple[tuple[str, int], ...]]
) -> None:
    assert table(of, *slices) == routes


def conditions(address: str, **said: bool) -> Object:
    """An endpoint with exactly these conditions."""
    return {"addresses": [address], "conditions": said}


@pytest.mark.parametrize(
    ("endpoints", "addresses"),
    [
        (
            [
                conditions("127.64.0.1", ready=False, serving=True, terminating=True),
                conditions("127.64.0.2", ready=False, serving=False, terminating=True),
                conditions("127.64.0.3", ready=False, serving=False, terminating=False),
            ],
            {"127.64.0.1"},
        ),
        (
            [
                conditions("127.64.0.1", ready=False, serving=True, terminating=True),
                conditions("127.64.0.2", ready=True, serving=True, terminating=False),
            ],
            {"127.64.0.2"},
        ),
        ([conditions("127.64.0.1")], {"127.64.0.1"}),
    ],
    ids=["none is ready", "one is ready", "nothing is said"],
)
def test_endpoints_that_terminate_serve_as_long_as_none_is_ready(endpoints: list[Object], addresses: set[str]) -> None:
    found = table(service("web", ADDRESS, ports=[HTTP]), endpoint_slice("web", endpoints, [{"port": 8080}]))
    assert {address for address, _ in found[WEB]} == addresses


def test_a_service_of_another_proxy_has_no_routes() -> None:
    web, endpoints = service("web", ADDRESS, ports=[HTTP]), endpoint_slice("web", READY, [{"port": 8080}])
    web["metadata"]["labels"] = {"service.kubernetes.io/service-proxy-name": "mesh"}
    assert table(web, endpoints) == {}


def test_a_slice_marked_as_headless_gets_no_connections() -> None:
    web, marked = service("web", ADDRESS, ports=[HTTP]), endpoint_slice("web", READY, [{"port": 8080}])
    marked["metadata"]["labels"]["service.kubernetes.io/headless"] = ""
    assert table(web, marked) == {}
    assert table(web, marked, endpoint_slice("web", READY[:1], [{"port": 9090}])) == {WEB: (("127.64.0.2", 9090),)}


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 0),
        ({"sessionAffinity": "None"}, 0),
        ({"sessionAffinity": "ClientIP"}, 10800),
        ({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}, 5),
    ],
)
def test_affinity_lasts_as_long_as_the_service_says(spec: Object, seconds: int) -> None:
    of = service("web", ADDRESS, ports=[HTTP], **spec)
    ((_, route),) = routes_of(of, [endpoint_slice("web", READY, [{"port": 8080}])])
    assert route.affinity == seconds


def test_connections_go_to_the_endpoints_in_turn() -> None:
    balancer = Balancer(Route("default/web", TARGETS))
    firsts = [balancer.order("c", 0)[0] for _ in range(4)]
    assert firsts[0] != firsts[1]
    assert firsts[:2] == firsts[2:]
    assert sorted(balancer.order("c", 0)) == sorted(TARGETS)


def test_a_client_with_affinity_keeps_its_endpoint_until_it_was_idle_too_long() -> None:
    balancer = Balancer(Route("default/web", TARGETS, affinity=5))
    balancer.used("c", TARGETS[1], 0)
    assert [balancer.order("c", 4 * SECOND)[0] for _ in range(3)] == [TARGETS[1]] * 3
    assert {balancer.order("c", 6 * SECOND)[0] for _ in range(3)} == set(TARGETS)
    assert {balancer.order("other", 4 * SECOND)[0] for _ in range(3)} == set(TARGETS)


def test_a_client_whose_endpoint_is_gone_gets_another() -> None:
    balancer = Balancer(Route("default/web", TARGETS, affinity=5))
    balancer.used("c", TARGETS[1], 0)
    balancer.route = Route("default/web", TARGETS[:1], affinity=5)
    assert balancer.order("c", 0) == [TARGETS[0]]


def test_clients_are_remembered_up_to_a_limit() -> None:
    balancer = Balancer(Route("default/web", TARGETS, affinity=5))
    balancer.used("first", TARGETS[1], 0)
    for number in range(MOST_CLIENTS):
        balancer.used(str(number), TARGETS[0], 0)
    assert {balancer.order("first", 0)[0] for _ in range(3)} == set(TARGETS)
