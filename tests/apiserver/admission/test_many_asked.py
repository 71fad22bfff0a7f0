"""Webhooks and policies in great number, or with large answers: they hold up no one, and take little memory."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kilauea.apiserver.admission import attributes
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.dynamic import admission, policies, remote, webhooks
from kilauea.apiserver.dynamic.remote import CallError, Target
from kilauea.apiserver.dynamic.reviews import LARGEST_PART, read_verdict
from kilauea.apiserver.large_writes import LargeWrites
from kilauea.apiserver.request import make_request
from support.api_core import ADMIN, MAPS, Api

GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


class Hooks:
    """Webhooks in memory, which answer as a test says and count how many are asked at a time."""

    def __init__(self) -> None:
        self.response: dict[str, Any] = {"allowed": True}
        self.asked = self.now = self.most = self.largest = 0

    async def post(self, target: Target, body: bytes, seconds: float) -> bytes:
        """Answer after others had their turn."""
        self.asked += 1
        self.now += 1
        self.most, self.largest = max(self.most, self.now), max(self.largest, len(body))
        await asyncio.sleep(0)
        self.now -= 1
        review = json.loads(body)
        uid = review["request"]["uid"]
        return json.dumps({**review, "request": None, "response": {"uid": uid, **self.response}}).encode()


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


@pytest.fixture
def api(hooks: Hooks) -> Iterator[Api]:
    made = Api(remote=hooks)
    yield made
    made.close()


def register(api: Api, count: int, *, mutating: bool = False, name: str = "many", **more: Any) -> None:
    """A configuration with this many webhooks for new ConfigMaps."""
    each = {
        "rules": [RULE],
        "clientConfig": {"url": "https://example.com/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }
    found = [{"name": f"h{number}.example.com", **each} for number in range(count)]
    plural = "mutatingwebhookconfigurations" if mutating else "validatingwebhookconfigurations"
    api.good("POST", f"{GROUP}/{plural}", {"metadata": {"name": name}, "webhooks": found})


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[int]:
    """Count the calls of a function of a module."""
    calls, function = [0], getattr(module, name)

    def counting(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        return function(*args, **options)

    monkeypatch.setattr(module, name, counting)
    return calls


def turns_of_others(api: Api, body: dict[str, Any]) -> int:
    """How often another task had its turn while a ConfigMap was created."""

    async def run() -> int:
        request = make_request("POST", MAPS, {"content-type": "application/json"}, json.dumps(body).encode(), ADMIN)
        creating, turns = asyncio.ensure_future(api.server.handle(request)), 0
        while not creating.done():
            await asyncio.sleep(0)
            turns += 1
        assert getattr(creating.result(), "status", 0) == 201
        return turns

    return api.run(run())


def test_few_webhooks_are_asked_about_a_large_object_at_a_time(api: Api, hooks: Hooks) -> None:
    register(api, 40)
    api.create_map("small")
    assert (hooks.asked, hooks.most) == (40, 40)
    hooks.asked = hooks.most = 0
    api.create_map("large", text="x" * 1_000_000)
    assert hooks.asked == 40
    assert hooks.most * hooks.largest <= webhooks.LARGEST_AT_ONCE


@pytest.mark.parametrize("mutating", [False, True])
def test_an_object_is_read_once_for_all_conditions(
    api: Api, monkeypatch: pytest.MonkeyPatch, *, mutating: bool
) -> None:
    condition = {"name": "none", "expression": "object.metadata.name == 'other'"}
    register(api, 60, mutating=mutating, matchConditions=[condition])
    reads = counted(monkeypatch, attributes, "decode")
    api.create_map("a")
    assert reads[0] <= 2


def test_others_have_their_turn_between_conditions(api: Api, hooks: Hooks) -> None:
    expression = "lists.range(300).all(x, x >= 0) && object.metadata.name == 'other'"
    turns = [turns_of_others(api, {"metadata": {"name": "a"}})]
    for count in (120, 120):
        register(api, count, name=f"n{len(turns)}", matchConditions=[{"name": "none", "expression": expression}])
        turns.append(turns_of_others(api, {"metadata": {"name": f"a{len(turns)}"}}))
    assert hooks.asked == 0
    assert turns[1] - turns[0] >= 3
    assert turns[2] - turns[1] >= 3


def policy(api: Api, name: str, spec: dict[str, Any], **binding: Any) -> None:
    """A policy for new ConfigMaps, with a binding."""
    body = {"metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": [RULE]}, **spec}}
    api.good("POST", f"{GROUP}/validatingadmissionpolicies", body)
    bound = {"policyName": name, "validationActions": ["Deny"], **binding}
    path = f"{GROUP}/validatingadmissionpolicybindings"
    api.good("POST", path, {"metadata": {"name": name}, "spec": bound})


def test_of_thousands_of_parameters_those_that_are_not_selected_are_not_read_whole(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = turns_of_others(api, {"metadata": {"name": "before"}})
    for number in range(1_000):
        labels = {"chosen": "yes"} if number == 7 else {}
        api.good("POST", MAPS, {"metadata": {"name": f"p{number}", "labels": labels}, "data": {"a": "x" * 500}})
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    reference = {
        "namespace": "default",
        "selector": {"matchLabels": {"chosen": "yes"}},
        "parameterNotFoundAction": "Deny",
    }
    validations = [{"expression": "params.data.a != object.metadata.name"}]
    policy(api, "with-parameters", {"paramKind": kind, "validations": validations}, paramRef=reference)
    reads = counted(monkeypatch, policies, "decode")
    after = turns_of_others(api, {"metadata": {"name": "after"}})
    assert reads[0] == 1
    assert after - before >= 5


def test_of_many_configurations_those_that_changed_are_read(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        register(api, 1, name=f"n{number}")
    api.create_map("a")
    reads = counted(monkeypatch, admission, "decode")
    register(api, 1, name="one-more")
    api.create_map("b")
    assert reads[0] == 1


def patch_of(*operations: dict[str, Any]) -> dict[str, Any]:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}


def test_a_write_that_a_webhook_makes_large_goes_on_beside_the_loop(
    api: Api, hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = api.backend.large_writes = LargeWrites()
    beside: list[str] = []
    run = writes.run

    async def noting(function: Callable[[], Any]) -> Any:
        beside.append(getattr(getattr(function, "func", function), "__name__", ""))
        return await run(function)

    monkeypatch.setattr(writes, "run", noting)
    register(api, 1, mutating=True)
    hooks.response = patch_of({"op": "add", "path": "/data", "value": {"a": "b"}})
    api.create_map("small")
    assert beside == []
    hooks.response = patch_of({"op": "add", "path": "/data", "value": {f"k{each}": "v" for each in range(5_000)}})
    api.create_map("large")
    assert {"read_verdict", "json_patch", "_complete", "_check"} <= {*beside}
    api.backend.large_writes = None
    writes.close()


def test_a_patch_of_more_than_a_request_may_have_is_refused(api: Api, hooks: Hooks) -> None:
    register(api, 1, mutating=True)
    hooks.response = patch_of({"op": "add", "path": "/data", "value": {"a": "x" * attributes.LARGEST}})
    answer = api.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert answer.code == 500
    assert f"the patch is larger than {attributes.LARGEST} bytes" in answer.body["message"]


def answered(**response: Any) -> bytes:
    form = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
    return json.dumps({**form, "x": [[]] * 1_000, "response": {"uid": "u", **response}}).encode()


def test_what_is_large_in_an_answer_besides_the_patch_is_left_out() -> None:
    many = [f"warning {number}" for number in range(100_000)]
    details = {"causes": [{"message": each} for each in many]}
    body = answered(
        allowed=False,
        warnings=many,
        auditAnnotations=dict.fromkeys(many, ""),
        status={"code": 403, "message": "m" * LARGEST_PART * 2, "reason": "Forbidden", "details": details},
    )
    verdict = read_verdict(body, "v1", "u", mutating=False)
    assert verdict.allowed is False
    assert (verdict.warnings, verdict.audit) == ((), {})
    assert verdict.result == {"code": 403, "message": "m" * LARGEST_PART, "reason": "Forbidden"}
    few = read_verdict(
        answered(allowed=True, warnings=many[:2], status={"details": {"a": 1}}), "v1", "u", mutating=True
    )
    assert (few.warnings, few.result) == ((*many[:2],), {"details": {"a": 1}})


@pytest.mark.parametrize("field", ["uid", "allowed", "patchType"])
def test_short_fields_that_are_long_are_refused(field: str) -> None:
    with pytest.raises(CallError, match=f"{field} is longer than 1024 bytes"):
        read_verdict(answered(**{field: ["x"] * 1_000}), "v1", "u", mutating=True)


def test_of_thousands_of_endpoint_slices_few_are_read_to_find_those_of_a_service(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"

    def piece(name: str, service: str) -> dict[str, Any]:
        labels = {"kubernetes.io/service-name": service}
        ready = [{"addresses": ["10.0.0.1"]}]
        ports = [{"name": "", "port": 8443}]
        return {"metadata": {"name": name, "labels": labels}, "addressType": "IPv4", "endpoints": ready, "ports": ports}

    api.good(
        "POST",
        "/api/v1/namespaces/default/services",
        {"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}},
    )
    for number in range(700):
        api.good("POST", slices, piece(f"a-{number}", "other"))
    reads = counted(monkeypatch, remote, "decode")
    client = {"service": {"namespace": "default", "name": "hook"}}
    with pytest.raises(CallError, match="no endpoints available"):
        remote.target_of(client, api.backend.store)
    assert reads[0] <= remote.MOST_LOOKED_AT + 1
    api.good("POST", slices, piece("hook-zzz", "hook"))
    reads[0] = 0
    target = remote.target_of(client, api.backend.store)
    assert (target.host, target.port, reads[0]) == ("10.0.0.1", 8443, 2)


@pytest.mark.parametrize("mutating", [False, True])
def test_nothing_of_a_write_stays_once_webhooks_have_agreed(api: Api, mutating: bool) -> None:
    register(api, 1, mutating=mutating)
    api.create_map("first")
    gc.collect()
    gc.disable()  # it would find what refers to itself
    try:
        api.create_map("a", text="x" * 100_000)
        assert [each.name for each in gc.get_objects() if isinstance(each, Attributes)] == []
    finally:
        gc.enable()
