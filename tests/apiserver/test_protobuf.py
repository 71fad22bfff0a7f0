"""Bodies in protobuf form: as Go clients send them, and anything else in their place."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.protobuf import ProtobufError, decode_protobuf
from kilauea.apiserver.rest.body import message_name
from support.api_core import MAPS, PODS, Api

FORM = "application/vnd.kubernetes.protobuf"


def field(number: int, value: bytes | int) -> bytes:
    """One field of a message: text and messages as bytes, or a number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def enveloped(api_version: str, kind: str, message: bytes) -> bytes:
    """A message as Kubernetes sends it."""
    type_meta = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\0" + field(1, type_meta) + field(2, message)


def decoded(body: bytes) -> dict[str, Any]:
    """The object in a body."""
    return decode_protobuf(body, message_name)


def test_a_pod_in_protobuf_form_is_created(api: Api) -> None:
    metadata = field(1, b"web") + field(2, b"") + field(8, b"") + field(11, field(1, b"app") + field(2, b"web"))
    requests = field(1, b"cpu") + field(2, field(1, b"500m"))
    port = field(1, b"http") + field(3, 8080) + field(4, b"TCP")
    container = field(1, b"main") + field(2, b"busybox") + field(6, port) + field(8, field(2, requests))
    volume = field(1, b"scratch") + field(2, field(2, b""))
    spec = field(1, volume) + field(2, container) + field(4, 60) + field(22, field(1, b"gpu") + field(2, b"Exists"))
    body = enveloped("v1", "Pod", field(1, metadata) + field(2, spec))
    made = api.good("POST", PODS, body, content_type=FORM)
    assert made["metadata"]["labels"] == {"app": "web"}
    assert made["spec"]["containers"][0]["ports"] == [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m"}}
    assert made["spec"]["volumes"][0] == {"name": "scratch", "emptyDir": {}}
    assert made["spec"]["terminationGracePeriodSeconds"] == 60
    assert made["spec"]["tolerations"][0] == {"key": "gpu", "operator": "Exists"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "does not appear to be a protobuf message"),
        (b"{}", "does not appear to be a protobuf message"),
        (b"k8s\0\xff", "the message ends within a number"),
        (b"k8s\0" + field(1, b"xx")[:-1], "the message ends within a field"),
        (enveloped("v1", "Nothing", b""), 'no kind "Nothing" is known in version "v1"'),
        (enveloped("v1", "ConfigMap", field(1, 7)), "a number stands where a message is expected"),
        (enveloped("v1", "ConfigMap", field(1, field(1, b"\xff"))), "a text is not UTF-8"),
    ],
)
def test_bodies_that_are_no_object_are_refused(api: Api, body: bytes, words: str) -> None:
    answer = api.ask("POST", MAPS, body, content_type=FORM)
    assert answer.code == 400
    assert words in answer.body["message"]


def test_times_numbers_and_either_or_have_the_form_of_json() -> None:
    time = field(8, field(1, 1_700_000_000) + field(2, 5))
    budget = decoded(enveloped("policy/v1", "PodDisruptionBudget", field(1, time) + field(2, field(1, field(2, 3)))))
    assert budget["metadata"] == {"creationTimestamp": "2023-11-14T22:13:20Z"}
    assert budget["spec"] == {"minAvailable": 3}
    percent = field(2, field(1, field(1, 1) + field(3, b"50%")))
    assert decoded(enveloped("policy/v1", "PodDisruptionBudget", percent))["spec"] == {"minAvailable": "50%"}
    negative = decoded(enveloped("scheduling.k8s.io/v1", "PriorityClass", field(2, -5)))
    assert negative["value"] == -5


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(data: bytes) -> None:
    for body in (b"k8s\0" + data, enveloped("v1", "Pod", data), enveloped("apps/v1", "Deployment", field(2, data))):
        try:
            decoded(body)
        except ProtobufError:
            continue


def test_fields_that_no_one_knows_are_skipped() -> None:
    unknown = varint(999 << 3 | 1) + struct.pack("<d", 1.0) + field(998, b"x")
    assert decoded(enveloped("v1", "ConfigMap", unknown)) == {"kind": "ConfigMap", "apiVersion": "v1"}


def test_a_definition_in_protobuf_form_is_read() -> None:
    """As Go clients write it: with schemas that stand for a list, a boolean or names, and with values in JSON."""
    count = field(5, b"integer") + field(8, field(1, b"3")) + varint(9 << 3 | 1) + struct.pack("<d", 10.0)
    either = field(2, field(5, b"string")) + field(1, 1)
    listed = field(5, b"array") + field(24, field(1, field(5, b"string"))) + field(42, b"set")
    rule = field(44, field(1, b"self.count > 0") + field(2, b"must be positive"))
    properties = b"".join(
        field(29, field(1, name) + field(2, schema))
        for name, schema in ((b"count", count), (b"open", field(30, either)), (b"tags", listed), (b"any", field(38, 1)))
    )
    root = field(5, b"object") + properties + field(30, field(1, 0)) + rule
    version = field(1, b"v1") + field(2, 1) + field(3, 1) + field(4, field(1, root))
    spec = field(1, b"example.com") + field(3, field(1, b"as") + field(4, b"A")) + field(4, b"Namespaced")
    body = enveloped(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        field(1, field(1, b"as.example.com")) + field(2, spec + field(7, version)),
    )
    schema = decoded(body)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["additionalProperties"] is False
    assert schema["x-kubernetes-validations"] == [{"rule": "self.count > 0", "message": "must be positive"}]
    assert schema["properties"] == {
        "count": {"type": "integer", "default": 3, "maximum": 10.0},
        "open": {"additionalProperties": {"type": "string"}},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
    }
