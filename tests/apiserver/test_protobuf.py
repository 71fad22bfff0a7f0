"""Bodies in protobuf form: as Go clients send them, and anything else in their place."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.heavy import Task
from kilauea.apiserver.heavy_tasks import AtOnce
from kilauea.apiserver.protobuf import ProtobufError, decode_protobuf, encode_protobuf
from kilauea.apiserver.request import ApiResponse, WatchStream, make_request
from kilauea.apiserver.resources.message_names import message_name
from support.api_core import ADMIN, MAPS, PODS, Api

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


@pytest.mark.parametrize("api_version", ["", "v1"])
@pytest.mark.parametrize("size", [10, 100_000])
def test_a_body_without_a_kind_is_of_the_kind_of_its_path(api: Api, api_version: str, size: int) -> None:
    body = enveloped(api_version, "", field(1, field(1, b"bare")) + field(2, field(1, b"a") + field(2, b"x" * size)))
    made = api.good("POST", MAPS, body, content_type=FORM)
    assert (made["apiVersion"], made["kind"], made["data"]) == ("v1", "ConfigMap", {"a": "x" * size})
    named = b"k8s\0" + field(2, field(1, field(1, b"none")))
    evicted = api.ask("POST", f"{PODS}/none/eviction", named, content_type=FORM)
    assert (evicted.code, evicted.body["reason"]) == (404, "NotFound")


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


# --- answers


def answered(api: Api, method: str, path: str, body: bytes = b"") -> ApiResponse:
    """The answer to a client that accepts nothing but protobuf."""
    answer = api.run(api.server.handle(make_request(method, path, {"accept": FORM}, body, ADMIN)))
    assert isinstance(answer, ApiResponse)
    assert answer.content_type == FORM
    return answer


def content(answer: ApiResponse) -> bytes:
    """All bytes of an answer."""
    return answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)


POD: dict[str, Any] = {
    "metadata": {"name": "web", "labels": {"app": "web", "tier": "front"}, "annotations": {"a": "1"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "initialDelaySeconds": 3},
                "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}],
            }
        ],
        "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "secret", "secret": {"secretName": "s"}}],
        "securityContext": {"runAsNonRoot": False, "runAsUser": 1000},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1.5, "default": 3},
                "words": {"type": "array", "items": {"type": "string"}},
                "free": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }
    },
}
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}
WEBHOOKS: dict[str, Any] = {
    "metadata": {"name": "hooks"},
    "webhooks": [
        {
            "name": "a.example.com",
            "clientConfig": {"url": "https://localhost:1/x", "caBundle": ""},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        }
    ],
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def without_nulls(value: Any) -> Any:
    """A value without fields that are null, which protobuf does not have."""
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return value


@pytest.mark.parametrize(
    ("path", "name", "obj"),
    [(PODS, "web", POD), (DEFINITIONS, "things.example.com", DEFINITION), (HOOKS, "hooks", WEBHOOKS)],
)
def test_a_client_that_accepts_only_protobuf_reads_the_same_object(
    api: Api, path: str, name: str, obj: dict[str, Any]
) -> None:
    api.good("POST", path, obj)
    read = decoded(content(answered(api, "GET", f"{path}/{name}")))
    assert read == without_nulls(api.good("GET", f"{path}/{name}"))


@pytest.mark.parametrize(
    ("path", "api_version", "kind", "obj", "part"),
    [
        (DEFINITIONS, "apiextensions.k8s.io/v1", "CustomResourceDefinition", DEFINITION, "spec"),
        (HOOKS, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", WEBHOOKS, "webhooks"),
    ],
)
def test_an_object_written_in_protobuf_form_is_stored_as_from_json(
    api: Api, path: str, api_version: str, kind: str, obj: dict[str, Any], part: str
) -> None:
    from_json = api.good("POST", f"{path}?dryRun=All", obj)
    body = encode_protobuf({**obj, "apiVersion": api_version, "kind": kind}, message_name)
    from_protobuf = api.good("POST", path, body, content_type=FORM)
    assert from_protobuf[part] == from_json[part]


def test_lists_and_refusals_come_in_protobuf_form(api: Api) -> None:
    api.create_map("a", key="x")
    envelope = content(answered(api, "GET", MAPS))
    assert envelope.startswith(b"k8s\0")
    assert b"ConfigMapList" in envelope
    assert b"key" in envelope
    answer = answered(api, "GET", f"{MAPS}/none")
    refusal = decoded(content(answer))
    assert (answer.status, refusal["kind"], refusal["reason"]) == (404, "Status", "NotFound")
    assert refusal["details"] == {"name": "none", "kind": "configmaps"}


def test_a_watch_in_protobuf_form_is_a_stream_of_frames_with_their_length(api: Api) -> None:
    api.create_map("a", key="x")
    request = make_request("GET", f"{MAPS}?watch=1", {"accept": f"{FORM};stream=watch"}, b"", ADMIN)
    answer = api.run(api.server.handle(request))
    assert isinstance(answer, WatchStream)
    assert answer.content_type == f"{FORM};stream=watch"
    data = api.run(anext(answer.chunks))
    length = struct.unpack(">I", data[:4])[0]
    assert length == len(data) - 4
    assert data[4:].startswith(field(1, b"ADDED"))
    found = decoded(data[data.index(b"k8s\0") :])
    assert found["data"] == {"key": "x"}
    api.run(answer.batches.aclose())


def test_empty_fields_that_go_clients_send_with_each_schema_are_absent() -> None:
    empty = field(1, b"") + field(6, b"") + field(37, 0) + field(39, 0) + field(40, 0)
    text = field(5, b"string") + empty + varint(11 << 3 | 1) + struct.pack("<d", 0.0)
    root = field(5, b"array") + empty + field(24, field(1, text))
    version = field(1, b"v1") + field(4, field(1, root))
    body = enveloped("apiextensions.k8s.io/v1", "CustomResourceDefinition", field(2, field(7, version)))
    schema = decoded(body)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema == {"type": "array", "items": {"type": "string", "minimum": 0.0}}


def test_a_large_body_is_read_elsewhere_and_is_the_same_or_refused_in_the_same_words(api: Api) -> None:
    done = []

    class Noted(AtOnce):
        async def run(self, task: Task, data: bytes) -> bytes:
            done.append(task)
            return await super().run(task, data)

    api.backend.heavy = Noted()
    pair = field(1, b"key") + field(2, b"x" * 70_000)
    metadata = field(1, field(1, b"large"))
    made = api.good("POST", MAPS, enveloped("v1", "ConfigMap", metadata + field(2, pair)), content_type=FORM)
    assert made["data"] == {"key": "x" * 70_000}
    wrong = field(1, b"key") + field(2, b"\xff" * 70_000)
    answer = api.ask("POST", MAPS, enveloped("v1", "ConfigMap", metadata + field(2, wrong)), content_type=FORM)
    assert (answer.code, answer.body["message"]) == (400, "a text is not UTF-8")
    assert done == ["parse protobuf"] * 2
    api.good("POST", MAPS, enveloped("v1", "ConfigMap", field(1, field(1, b"small"))), content_type=FORM)
    assert len(done) == 2
