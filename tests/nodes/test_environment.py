"""The variables of containers, and the references to them in commands."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kilauea.api.kinds import CONFIG_MAPS, SECRETS
from kilauea.api.ports import Key, Obj, Resource
from kilauea.nodes.environment import (
    ConfigError,
    PodFacts,
    command_of,
    container_environment,
    expand,
    service_variables,
)

POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "uid": "u-1",
        "labels": {"app": "web"},
        "annotations": {"note": 'a "b"'},
    },
    "spec": {
        "nodeName": "n",
        "serviceAccountName": "robot",
        "containers": [
            {"name": "main", "resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": "250m"}}},
            {"name": "beside", "resources": {"limits": {"cpu": "1500m"}}},
        ],
    },
}
FACTS = PodFacts(POD, ("10.0.0.1",), ("127.64.0.2",), {"cpu": "4", "memory": "8Gi"})
OBJECTS = {
    (CONFIG_MAPS, "settings"): {"kind": "ConfigMap", "data": {"MODE": "fast", "LEVEL": "3"}},
    (SECRETS, "keys"): {"kind": "Secret", "data": {"ID": base64.b64encode(b"s3cret").decode()}},
}


def lookup(resource: Resource, key: Key) -> Obj | None:
    return OBJECTS.get((resource, key.name)) if key.namespace == "ns" else None


def variables(*env: Obj, **fields: Any) -> dict[str, str]:
    return container_environment({"name": "main", "env": list(env), **fields}, FACTS, lookup, {"DB_SERVICE_HOST": "x"})


def value_of(source: Obj) -> str:
    return variables({"name": "A", "valueFrom": source})["A"]


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("$(A)-$(B)", "1-$(B)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A $ ${A}", "$A $ ${A}"),
        ("$(A", "$(A"),
        ("100$", "100$"),
        ('$(a(b)-$(!"#$%&)', "2-3"),
        ("$(B $(A)", "$(B $(A)"),
    ],
)
def test_references_are_replaced_as_kubernetes_does(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "a(b": "2", '!"#$%&': "3"}) == expanded


def test_variables_refer_to_earlier_ones_and_to_services() -> None:
    found = variables({"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)$(DB_SERVICE_HOST)"}, {"name": "C"})
    assert (found["B"], found["C"]) == ("1$(C)x", "")


def test_listed_variables_win_over_whole_objects() -> None:
    sources = [{"configMapRef": {"name": "settings"}}, {"prefix": "S_", "secretRef": {"name": "keys"}}]
    found = variables({"name": "MODE", "value": "slow"}, envFrom=sources)
    assert found == {"DB_SERVICE_HOST": "x", "MODE": "slow", "LEVEL": "3", "S_ID": "s3cret"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app']", "web"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "n"),
        ("spec.serviceAccountName", "robot"),
        ("status.hostIP", "10.0.0.1"),
        ("status.podIP", "127.64.0.2"),
        ("status.podIPs", "127.64.0.2"),
    ],
)
def test_fields_of_the_pod(path: str, value: str) -> None:
    assert value_of({"fieldRef": {"fieldPath": path}}) == value


def test_all_annotations_are_quoted_in_a_file() -> None:
    assert FACTS.field("metadata.annotations") == 'note="a \\"b\\""'


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.memory"}, "67108864"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "64"),
        ({"resource": "requests.cpu"}, "1"),
        ({"resource": "requests.cpu", "divisor": "1m"}, "250"),
        ({"resource": "limits.cpu"}, "4"),
        ({"resource": "limits.cpu", "containerName": "beside"}, "2"),
        ({"resource": "requests.memory"}, "0"),
    ],
)
def test_amounts_of_resources(reference: Obj, value: str) -> None:
    source = {"resourceFieldRef": reference}
    found = container_environment(
        {**POD["spec"]["containers"][0], "env": [{"name": "A", "valueFrom": source}]}, FACTS, lookup, {}
    )
    assert found["A"] == value


def test_limits_of_a_pod_stand_in_for_those_of_a_container() -> None:
    spec = {**POD["spec"], "resources": {"limits": {"cpu": "3", "memory": "1Gi"}}}
    facts = PodFacts({**POD, "spec": spec}, allocatable={"cpu": "4"})
    main, beside = POD["spec"]["containers"]
    assert facts.resource({"resource": "limits.cpu"}, main) == "3"
    assert facts.resource({"resource": "limits.memory"}, main) == "67108864"
    assert facts.resource({"resource": "limits.cpu"}, beside) == "2"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "a"}}, 'configmap "none" not found'),
        ({"secretKeyRef": {"name": "none", "key": "a"}}, 'secret "none" not found'),
        ({"configMapKeyRef": {"name": "settings", "key": "a"}}, "couldn't find key a in ConfigMap ns/settings"),
        ({"secretKeyRef": {"name": "keys", "key": "a"}}, "couldn't find key a in Secret ns/keys"),
        ({"fieldRef": {"fieldPath": "spec.color"}}, "unsupported fieldPath: spec.color"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "no"}}, "container no not found"),
    ],
)
def test_what_does_not_exist_is_said_as_kubelets_say_it(source: Obj, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        value_of(source)
    assert str(refused.value) == message


def test_optional_sources_may_be_missing() -> None:
    reference = {"name": "none", "key": "a", "optional": True}
    found = variables({"name": "A", "valueFrom": {"configMapKeyRef": reference}}, envFrom=[{"secretRef": reference}])
    assert "A" not in found


def test_commands_have_their_references_replaced() -> None:
    container = {"command": ["echo", "$(A)"], "args": ["$$(A)", "$(NONE)"]}
    assert command_of(container, {"A": "1"}) == (["echo", "1"], ["$(A)", "$(NONE)"])


def test_services_are_told_as_docker_links() -> None:
    ports = [{"name": "http", "port": 80}, {"name": "dns-udp", "port": 53, "protocol": "UDP"}]
    services = [
        {"metadata": {"name": "my-db"}, "spec": {"ports": ports}},
        {"metadata": {"name": "headless"}, "spec": {"clusterIP": "None", "ports": ports}},
    ]
    found = service_variables(services, lambda each: "" if "clusterIP" in each["spec"] else "127.96.0.9")
    assert found == {
        "MY_DB_SERVICE_HOST": "127.96.0.9",
        "MY_DB_SERVICE_PORT": "80",
        "MY_DB_SERVICE_PORT_HTTP": "80",
        "MY_DB_SERVICE_PORT_DNS_UDP": "53",
        "MY_DB_PORT": "tcp://127.96.0.9:80",
        "MY_DB_PORT_80_TCP": "tcp://127.96.0.9:80",
        "MY_DB_PORT_80_TCP_PROTO": "tcp",
        "MY_DB_PORT_80_TCP_PORT": "80",
        "MY_DB_PORT_80_TCP_ADDR": "127.96.0.9",
        "MY_DB_PORT_53_UDP": "udp://127.96.0.9:53",
        "MY_DB_PORT_53_UDP_PROTO": "udp",
        "MY_DB_PORT_53_UDP_PORT": "53",
        "MY_DB_PORT_53_UDP_ADDR": "127.96.0.9",
    }
