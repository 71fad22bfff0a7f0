"""The service `kubernetes` and its endpoints, which name the server itself."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

import pytest

from kilauea.apiserver.own_address import publish_address
from kilauea.runtime.cluster.addresses import advertised_address, local_address, may_listen
from support.api_core import Api, named

CORE = "/api/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


def test_endpoints_and_slices_name_the_server(api: Api) -> None:
    api.run(publish_address(api.server, "192.0.2.7", 6443))
    endpoints = api.good("GET", f"{CORE}/endpoints/kubernetes")
    ports = [{"name": "https", "port": 6443, "protocol": "TCP"}]
    assert endpoints["subsets"] == [{"addresses": [{"ip": "192.0.2.7"}], "ports": ports}]
    assert endpoints["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
    found = api.good("GET", f"{SLICES}?labelSelector=kubernetes.io/service-name=kubernetes")
    assert named(found) == ["kubernetes"]
    (slice,) = found["items"]
    assert (slice["addressType"], slice["ports"]) == ("IPv4", ports)
    assert slice["endpoints"] == [{"addresses": ["192.0.2.7"], "conditions": {"ready": True}}]
    service = api.good("GET", f"{CORE}/services/kubernetes")["spec"]
    assert (service["clusterIP"], service["ports"][0]["targetPort"]) == ("10.96.0.1", 6443)


def test_a_server_that_moves_changes_its_endpoints(api: Api) -> None:
    for address, port in (("192.0.2.7", 6443), ("192.0.2.8", 7443)):
        api.run(publish_address(api.server, address, port))
    (subset,) = api.good("GET", f"{CORE}/endpoints/kubernetes")["subsets"]
    assert (subset["addresses"], subset["ports"][0]["port"]) == ([{"ip": "192.0.2.8"}], 7443)
    assert api.good("GET", f"{SLICES}/kubernetes")["endpoints"][0]["addresses"] == ["192.0.2.8"]
    assert api.good("GET", f"{CORE}/services/kubernetes")["spec"]["ports"][0]["targetPort"] == 7443


def test_a_server_without_an_address_for_others_has_no_endpoints(api: Api) -> None:
    for address in ("192.0.2.7", None):
        api.run(publish_address(api.server, address, 6443))
    assert api.ask("GET", f"{CORE}/endpoints/kubernetes").code == 404
    assert api.ask("GET", f"{SLICES}/kubernetes").code == 404
    assert api.good("GET", f"{CORE}/services/kubernetes")["spec"]["ports"][0]["port"] == 443


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::", "localhost"])
def test_a_server_on_loopback_advertises_the_interface_that_leads_outside(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket.socket, "connect", lambda probe, address: None)
    monkeypatch.setattr(socket.socket, "getsockname", lambda probe: ("192.0.2.9", 1))
    assert advertised_address(host) == "192.0.2.9"
    assert advertised_address("203.0.113.4") == "203.0.113.4"


def test_a_host_without_a_way_outside_advertises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(probe: socket.socket, address: object) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    assert advertised_address("127.0.0.1") is None


def test_a_host_whose_only_way_out_is_loopback_advertises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", lambda probe, address: None)
    monkeypatch.setattr(socket.socket, "getsockname", lambda probe: ("127.0.0.1", 1))
    assert advertised_address("127.0.0.1") is None


def test_a_server_that_moves_to_another_family_of_addresses_has_a_new_slice(api: Api) -> None:
    for address, family in (("192.0.2.7", "IPv4"), ("2001:db8::7", "IPv6"), ("192.0.2.7", "IPv4")):
        api.run(publish_address(api.server, address, 6443))
        found = api.good("GET", f"{SLICES}/kubernetes")
        assert (found["addressType"], found["endpoints"][0]["addresses"]) == (family, [address])


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "192.0.2.9"), ("0.0.0.0", "192.0.2.9"), ("localhost", "192.0.2.9"), ("::1", "2001:db8::9"),
     ("::", "2001:db8::9")],
)  # fmt: skip
def test_the_address_is_of_the_family_at_which_the_server_listens(
    host: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {socket.AF_INET: "192.0.2.9", socket.AF_INET6: "2001:db8::9"}
    monkeypatch.setattr(socket.socket, "connect", lambda probe, address: None)
    monkeypatch.setattr(socket.socket, "getsockname", lambda probe: (own[probe.family], 1))
    assert advertised_address(host) == address


@pytest.mark.parametrize("address", ["169.254.7.7", "fe80::1", "fe80::1%eth0"])
def test_an_address_that_endpoints_may_not_have_is_not_advertised(
    address: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket.socket, "connect", lambda probe, address: None)
    monkeypatch.setattr(socket.socket, "getsockname", lambda probe: (address, 1))
    assert advertised_address("0.0.0.0") is None
    assert advertised_address(address) is None
    api.run(publish_address(api.server, address, 6443))
    assert api.ask("GET", f"{CORE}/endpoints/kubernetes").code == 404


def test_a_host_without_sockets_of_a_family_uses_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = socket.socket

    def only_ipv6(family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
        if family == socket.AF_INET:
            raise OSError("Address family not supported by protocol")
        return whole(family, kind)

    monkeypatch.setattr(whole, "connect", lambda probe, address: None)
    monkeypatch.setattr(whole, "getsockname", lambda probe: ("2001:db8::9", 1))
    monkeypatch.setattr(socket, "socket", only_ipv6)
    assert advertised_address("0.0.0.0") == "2001:db8::9"


ONE_MACHINE = IPv4Network("127.96.16.0/20")


@pytest.fixture
def machine() -> Iterator[Api]:
    """An API whose pods are all on this machine."""
    api = Api(service_range=ONE_MACHINE)
    yield api
    api.close()


def test_services_of_one_machine_have_loopback_addresses_and_so_may_their_endpoints(machine: Api) -> None:
    machine.run(publish_address(machine.server, "127.0.0.1", 6443, 6443))
    service = machine.good("GET", f"{CORE}/services/kubernetes")["spec"]
    assert (service["clusterIP"], service["ports"][0]["port"]) == ("127.96.16.1", 6443)
    assert machine.good("GET", f"{SLICES}/kubernetes")["endpoints"][0]["addresses"] == ["127.0.0.1"]
    web = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    assert IPv4Address(machine.good("POST", f"{CORE}/services", web)["spec"]["clusterIP"]) in ONE_MACHINE
    endpoints = {
        "metadata": {"name": "web"},
        "subsets": [{"addresses": [{"ip": "127.64.0.1"}], "ports": [{"port": 80}]}],
    }
    assert machine.good("POST", f"{CORE}/endpoints", endpoints)["subsets"][0]["addresses"] == [{"ip": "127.64.0.1"}]
    (cidr,) = machine.good("GET", "/apis/networking.k8s.io/v1/servicecidrs")["items"]
    assert cidr["spec"]["cidrs"] == ["127.96.16.0/20"]


def test_the_service_of_the_server_moves_with_the_range(machine: Api) -> None:
    machine.run(publish_address(machine.server, "127.0.0.1", 6443))
    machine.backend.service_range = IPv4Network("10.96.0.0/12")
    machine.run(publish_address(machine.server, "127.0.0.1", 6443))
    assert machine.good("GET", f"{CORE}/services/kubernetes")["spec"]["clusterIP"] == "10.96.0.1"


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::", "::1"),
        ("192.0.2.7", "192.0.2.7"), ("host.example.com", None),
    ],
)  # fmt: skip
def test_pods_of_this_machine_reach_the_server_where_it_listens(host: str, address: str | None) -> None:
    assert local_address(host) == address


def test_a_port_that_needs_a_privilege_is_told_from_one_that_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert may_listen("127.0.0.1", server.getsockname()[1])

    def refuse(probe: socket.socket, address: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    assert not may_listen("127.0.0.1", 443)
