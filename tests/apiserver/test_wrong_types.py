"""Values of the wrong type in what is sent to subresources: refused as a bad request, and never stored."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from kilauea.apiserver.account_tokens import AccountTokens
from kilauea.apiserver.http.transport import LARGEST_BODY
from kilauea.apiserver.warning_headers import warning_headers
from kilauea.pki import key_pem, new_key
from support.api_core import MAPS, PODS, Api

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"
WRONG: list[Any] = [
    {},
    [],
    {"a": 1},
    [1],
    1,
    -1,
    2**40,
    2**70,
    1.5,
    True,
    None,
    "",
    "x",
    "é\ud83d\ude00",
    [[]],
    {"a": {}},
]
MEANT = ("target.", "strconv.ParseUint")
"""What the real server answers with 500, too."""
META = {
    "name": "web",
    "namespace": "default",
    "uid": "",
    "resourceVersion": "",
    "labels": {},
    "annotations": {"a": "b"},
}
BODIES: dict[str, dict[str, Any]] = {
    f"POST {PODS}/web/binding": {"metadata": META, "target": {"kind": "Node", "name": "n1", "uid": "u"}},
    "POST /api/v1/namespaces/default/bindings": {"metadata": META, "target": {"kind": "Node", "name": "n1"}},
    f"POST {PODS}/web/eviction": {
        "metadata": META,
        "deleteOptions": {
            "gracePeriodSeconds": 1,
            "dryRun": ["All"],
            "propagationPolicy": "Background",
            "preconditions": {"uid": "", "resourceVersion": ""},
        },
    },
    "POST /api/v1/namespaces/default/serviceaccounts/default/token": {
        "metadata": META,
        "spec": {
            "audiences": ["a"],
            "expirationSeconds": 3600,
            "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": ""},
        },
    },
    f"PUT {DEPLOYMENTS}/web/scale": {"metadata": META, "spec": {"replicas": 1}, "status": {"replicas": 1}},
    f"DELETE {PODS}/web": {
        "gracePeriodSeconds": 1,
        "propagationPolicy": "Background",
        "orphanDependents": False,
        "dryRun": ["All"],
        "preconditions": {"uid": "", "resourceVersion": ""},
    },
    f"DELETE {PODS}": {"gracePeriodSeconds": 1, "dryRun": ["All"], "preconditions": {"uid": "x"}},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values below an object."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        yield (*path, key)
        yield from places(each, (*path, key))


def with_value(body: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The body with another value at a path."""
    changed = copy.deepcopy(body)
    at: Any = changed
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return changed


@pytest.fixture
def cluster(api: Api) -> Api:
    """A pod, a deployment and an account; tokens can be issued."""
    api.create_pod("web")
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "x"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    api.good("POST", DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    api.ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    api.backend.accounts = AccountTokens(key_pem(new_key()), api.backend.store, lambda: api.now)
    return api


@pytest.mark.parametrize("request_line", BODIES)
def test_no_value_of_a_wrong_type_is_an_error_of_the_server(cluster: Api, request_line: str) -> None:
    method, path = request_line.split()
    body, rng = BODIES[request_line], Random(1)
    for place in places(body):
        for value in [*rng.sample(WRONG, 8), {}, []]:
            changed = with_value(body, place, value)
            answer = cluster.ask(method, path, changed)
            missing_target = answer.code == 500 and any(each in answer.body["message"] for each in MEANT)
            assert answer.code < 500 or missing_target, (place, value, answer.body)


def test_a_binding_to_what_is_no_name_is_refused(cluster: Api) -> None:
    for name in ({"a": 1}, ["n1"], 7):
        answer = cluster.ask("POST", f"{PODS}/web/binding", {"metadata": {"name": "web"}, "target": {"name": name}})
        assert answer.code == 400
        assert "Go struct field" in answer.body["message"]
    assert "nodeName" not in cluster.good("GET", f"{PODS}/web")["spec"]


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
@pytest.mark.parametrize("value", [1, 1.5, True, {"a": "b"}, [{}], []])
@pytest.mark.parametrize("form", ["merge", "json", "strategic-merge"])
def test_a_patch_that_leaves_no_readable_kind_is_refused(api: Api, field: str, value: Any, form: str) -> None:
    api.create_map("a")
    patch: Any = [{"op": "add", "path": f"/{field}", "value": value}] if form == "json" else {field: value}
    content_type = f"application/{form}-patch+json"
    answer = api.ask("PATCH", f"{MAPS}/a", patch, content_type=content_type)
    assert (answer.code, f"Go struct field .{field} of type string" in answer.body["message"]) == (422, True)
    assert api.good("GET", f"{MAPS}/a")["kind"] == "ConfigMap"


def test_a_scale_beyond_the_type_of_replicas_is_refused(cluster: Api) -> None:
    for replicas in (2**40, "3", 1.5, True):
        answer = cluster.ask("PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": replicas}}, content_type=MERGE)
        assert answer.code == 422, replicas
    assert cluster.good("GET", f"{DEPLOYMENTS}/web")["spec"]["replicas"] == 2


def test_no_answer_has_more_warnings_than_clients_take() -> None:
    assert len(warning_headers([str(number) for number in range(1000)])) == 50


def test_a_body_as_large_as_allowed_is_read(api: Api) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"a":"b"}' + b" " * (LARGEST_BODY - 100) + b"}"
    assert api.ask("POST", MAPS, body).code == 201


@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 400])
def test_more_digits_than_a_number_has_are_the_fault_of_the_client(api: Api, digits: str) -> None:
    listed = api.ask("GET", f"{PODS}?resourceVersion={digits}")
    assert listed.code == 400
    assert "value out of range" in listed.body["message"]
    budget = {"metadata": {"name": "b"}, "spec": {"maxUnavailable": f"{digits}%", "selector": {}}}
    refused = api.ask("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    assert refused.code == 422
    assert "must not be greater than 100%" in refused.body["message"]
