"""What is refused in network policies, in the words of the real server."""

from __future__ import annotations

from typing import Any

import pytest

from support.api_core import Api

PATH = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
SUBSET = "must be a strict subset of `cidr`"


def create(api: Api, spec: dict[str, Any]) -> Any:
    return api.ask("POST", PATH, {"metadata": {"name": "p"}, "spec": {"podSelector": {}, **spec}})


def ports(**port: Any) -> dict[str, Any]:
    return {"egress": [{"ports": [port]}]}


def peer(**fields: Any) -> dict[str, Any]:
    return {"ingress": [{"from": [fields]}]}


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (ports(endPort=9), "ports[0].endPort", "Invalid value: 9: may not be specified when `port` is not specified"),
        (
            ports(port="a", endPort=9),
            "ports[0].endPort",
            "Invalid value: 9: may not be specified when `port` is non-num",
        ),
        (ports(port=3, endPort=2), "ports[0].endPort", "Invalid value: 3: must be greater than or equal to `port`"),
        (ports(port=3, endPort=70000), "ports[0].endPort", "Invalid value: 70000: must be between 1 and 65535, inclu"),
        (ports(port=0), "ports[0].port", "Invalid value: 0: must be between 1 and 65535, inclusive"),
        (ports(port="x_"), "ports[0].port", 'Invalid value: "x_": must contain only alpha-numeric characters'),
        (
            ports(protocol="ICMP"),
            "ports[0].protocol",
            'Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"',
        ),
        (peer(), "from[0]", "Required value: must specify a peer"),
        (
            peer(podSelector={}, ipBlock={"cidr": "10.0.0.0/8"}),
            "from[0]",
            "Forbidden: may not specify both ipBlock and",
        ),
        (peer(ipBlock={"cidr": "10.0.0.0"}), "from[0].ipBlock.cidr", f'Invalid value: "10.0.0.0": {CIDR}'),
        (peer(ipBlock={"cidr": ""}), "from[0].ipBlock.cidr", "Required value"),
        (
            peer(ipBlock={"cidr": "10.0.0.0/8", "except": ["x"]}),
            "from[0].ipBlock.except[0]",
            f'Invalid value: "x": {CIDR}',
        ),
        (
            peer(ipBlock={"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "11.0.0.0/16"]}),
            "from[0].ipBlock.except[1]",
            f'Invalid value: "11.0.0.0/16": {SUBSET}',
        ),
        (
            peer(ipBlock={"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}),
            "from[0].ipBlock.except[0]",
            f'Invalid value: "10.0.0.0/8": {SUBSET}',
        ),
        (peer(namespaceSelector={"matchLabels": {"a b": "c"}}), "namespaceSelector.matchLabels", "Invalid value: "),
        ({"policyTypes": ["Ingress", "Egress", "Ingress"]}, "policyTypes", "may not specify more than two policyTypes"),
        (
            {"policyTypes": ["Both"]},
            "policyTypes[0]",
            'Unsupported value: "Both": supported values: "Ingress", "Egress"',
        ),
    ],
)
def test_a_policy_that_nothing_could_enforce_is_refused(
    api: Api, spec: dict[str, Any], field: str, message: str
) -> None:
    answer = create(api, spec)
    assert answer.code == 422
    (cause,) = answer.body["details"]["causes"]
    assert cause["field"].endswith(field)
    assert message in cause["message"]


def test_a_policy_with_a_range_of_ports_and_all_kinds_of_peers_is_kept(api: Api) -> None:
    block = {"cidr": "fd00::/8", "except": ["fd01::/16"]}
    rule = {"ports": [{"port": 80, "endPort": 80, "protocol": "TCP"}, {"port": "web"}], "to": [{"ipBlock": block}]}
    assert create(api, {"policyTypes": ["Egress"], "egress": [rule]}).code == 201
