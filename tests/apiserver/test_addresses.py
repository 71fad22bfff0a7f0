"""Addresses and ranges: their forms, as errors and warnings of many kinds have them, and those that services get."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.apiserver.strategies.addresses import (
    ADDRESS_FORM,
    CIDR_FORM,
    address_problems,
    address_warnings,
    canonical_address_problems,
    canonical_cidr_problems,
    cidr_problems,
    cidr_warnings,
    parse_address,
)
from kilauea.apiserver.strategies.network import Services
from support.api_core import Api

SERVICES = "/api/v1/namespaces/default/services"
NODES = "/api/v1/nodes"
MERGE = "application/merge-patch+json"
USUAL = ["10.9.8.7", "0.0.0.0", "255.255.255.255", "::1", "2001:db8::ffff"]
ZEROS, MAPPED = "must not have leading 0s", "must not be an IPv4-mapped IPv6 address"
UNUSUAL = {
    "10.9.8.07": (ZEROS, "10.9.8.7"),
    "010.09.008.7": (ZEROS, "10.9.8.7"),
    "00.0.0.0": (ZEROS, "0.0.0.0"),
    "::ffff:10.9.8.7": (MAPPED, "10.9.8.7"),
    "::ffff:10.9.8.07": (ZEROS, "10.9.8.7"),
}
NONE = ["", "10.9.8", "10.9.8.256", "10.9.8.0256", "10.9.8.7.6", "10.9.8.7/32", " 10.9.8.7", "10.9.8.7\0", "node"]
NONE += ["\u06610.9.8.7", "fe80::1%eth0", "0x10.9.8.7", "1::2::3"]


@pytest.mark.parametrize("text", USUAL)
def test_usual_addresses_have_no_errors_and_no_warnings(text: str) -> None:
    assert str(parse_address(text)) == text
    assert (address_problems(text), canonical_address_problems(text), address_warnings("ip", text)) == ((), (), [])


@pytest.mark.parametrize("text", UNUSUAL)
def test_unusual_addresses_are_rejected_in_new_objects_and_warned_of_elsewhere(text: str) -> None:
    problem, usual = UNUSUAL[text]
    assert address_problems(text) == canonical_address_problems(text) == (problem,)
    assert address_warnings("ip", text) == [f'ip: non-standard IP address "{text}" is invalid: use "{usual}"']


@pytest.mark.parametrize("text", NONE)
def test_other_texts_are_rejected_without_a_warning(text: str) -> None:
    assert parse_address(text) is None
    assert address_problems(text) == canonical_address_problems(text) == (ADDRESS_FORM,)
    assert address_warnings("ip", text) == []


@pytest.mark.parametrize("text", ["2001:DB8::1", "2001:db8:0::1", "2001:0db8::1"])
def test_an_address_that_is_not_in_canonical_form_is_warned_of(text: str) -> None:
    assert address_problems(text) == ()
    assert canonical_address_problems(text) == ('must be in canonical form ("2001:db8::1")',)
    told = f'ip: IPv6 address "{text}" should be in RFC 5952 canonical format ("2001:db8::1")'
    assert address_warnings("ip", text) == [told]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("10.0.0.0/8", ()),
        ("2001:DB8::/32", ()),
        ("10.0.0.0", (CIDR_FORM,)),
        ("10.0.0.0/33", (CIDR_FORM,)),
        ("fe80::%a/64", (CIDR_FORM,)),
        ("010.0.0.0/8", ("must not have leading 0s in IP or prefix length",)),
        ("10.0.0.0/08", ("must not have leading 0s in IP or prefix length",)),
        ("10.0.0.1/8", ("must not have bits set beyond the prefix length",)),
        ("::ffff:10.0.0.0/104", ("must not have an IPv4-mapped IPv6 address",)),
        ("::ffff:10.0.0.1/104", ("must not have an IPv4-mapped IPv6 address",)),
    ],
)
def test_a_range_has_its_errors(text: str, problems: tuple[str, ...]) -> None:
    assert cidr_problems(text) == problems


def test_a_range_that_is_not_in_canonical_form_is_warned_of() -> None:
    assert canonical_cidr_problems("2001:DB8::/32") == ('must be in canonical form ("2001:db8::/32")',)
    assert (canonical_cidr_problems("2001:db8::/32"), cidr_warnings("c", "2001:db8::/32")) == ((), [])
    told = 'c: IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")'
    assert cidr_warnings("c", "2001:DB8::/32") == [told]


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}}


@pytest.mark.parametrize("query", ["", "?dryRun=All"])
def test_a_service_may_not_have_an_address_outside_the_range(query: str, api: Api) -> None:
    answer = api.ask("POST", SERVICES + query, service(clusterIP="10.0.0.9"))
    assert answer.code == 422
    assert answer.body["message"] == (
        'Service "s" is invalid: spec.clusterIPs: Invalid value: ["10.0.0.9"]: failed to allocate IP 10.0.0.9: the '
        "provided IP (10.0.0.9) is not in the valid range. The range of valid IPs is 10.96.0.0/12"
    )
    assert api.good("POST", SERVICES, service(clusterIP="10.96.0.9"))["spec"]["clusterIPs"] == ["10.96.0.9"]


def test_a_service_keeps_an_address_outside_the_range_that_it_has(api: Api) -> None:
    api.good("POST", SERVICES, service(clusterIP="10.96.0.9"))
    api.backend.service_range = type(api.backend.service_range)("10.0.0.0/24")
    changed = api.good("PATCH", f"{SERVICES}/s", {"spec": {"ports": [{"port": 81}]}}, content_type=MERGE)
    assert changed["spec"]["clusterIP"] == "10.96.0.9"


def test_a_service_with_addresses_in_an_unusual_form_has_warnings() -> None:
    asked = service(type="LoadBalancer", loadBalancerIP="01.2.3.4", loadBalancerSourceRanges=["2001:DB8::/32"])
    assert [each.partition(":")[0] for each in Services().warnings(asked)] == [
        "spec.loadBalancerIP",
        "spec.loadBalancerSourceRanges[0]",
    ]


def test_a_service_with_external_addresses_has_a_policy_for_traffic_from_outside(api: Api) -> None:
    spec = api.good("POST", SERVICES, service(externalIPs=["1.2.3.4"]))["spec"]
    assert spec["externalTrafficPolicy"] == "Cluster"


def test_a_node_whose_older_field_changes_changes_its_ranges(api: Api) -> None:
    made = api.good("POST", NODES, {"metadata": {"name": "n"}, "spec": {"podCIDR": "10.1.0.0/24"}})
    assert made["spec"]["podCIDRs"] == ["10.1.0.0/24"]
    answer = api.ask("PATCH", f"{NODES}/n", {"spec": {"podCIDR": "10.2.0.0/24"}}, content_type=MERGE)
    assert answer.code == 422
    assert answer.body["message"].endswith('node updates may not change podCIDR except from "" to valid')
