"""Webhook configurations: which writes are sent where, and what becomes of the answers."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from kilauea.apiserver.request import User, make_request
from support.api_core import ADMIN, MAPS, PODS, Api
from support.webhook_server import WebhookServer, allow, api_with_webhooks, deny, patching

HOOKS = "/apis/admissionregistration.k8s.io/v1"
VALIDATING, MUTATING = f"{HOOKS}/validatingwebhookconfigurations", f"{HOOKS}/mutatingwebhookconfigurations"
MERGE = "application/merge-patch+json"
MAP_RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


@pytest.fixture
def server() -> Iterator[WebhookServer]:
    """A webhook server."""
    made = WebhookServer(allow=allow(), deny=deny("no such thing"))
    yield made
    made.close()


@pytest.fixture
def hooked(server: WebhookServer) -> Iterator[Api]:
    """An API that calls webhooks."""
    with api_with_webhooks() as api:
        yield api


def hook(server: WebhookServer, path: str, **more: Any) -> dict[str, Any]:
    """A webhook for ConfigMaps."""
    found = {
        "name": f"{path}.example.com",
        "rules": [MAP_RULE],
        "clientConfig": server.client(path),
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {**found, **more}


def register(api: Api, where: str, *hooks: dict[str, Any], name: str = "test") -> Any:
    """A configuration with these webhooks."""
    return api.good("POST", where, {"metadata": {"name": name}, "webhooks": list(hooks)})


def map_of(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def test_a_validating_webhook_denies_with_its_name_and_message(hooked: Api, server: WebhookServer) -> None:
    register(hooked, VALIDATING, hook(server, "deny"))
    answer = hooked.ask("POST", MAPS, map_of("a"))
    assert answer.code == 400
    assert answer.body["message"] == 'admission webhook "deny.example.com" denied the request: no such thing'
    assert hooked.ask("GET", f"{MAPS}/a").code == 404


def test_a_denial_keeps_code_reason_and_details_of_the_webhook(hooked: Api, server: WebhookServer) -> None:
    server.responders["coded"] = deny("", **{})
    register(hooked, VALIDATING, hook(server, "coded"))
    answer = hooked.ask("POST", MAPS, map_of("a"))
    assert answer.body["message"] == 'admission webhook "coded.example.com" denied the request without explanation'
    server.responders["coded"] = deny("later", code=429, reason="TooManyRequests", details={"causes": [{"field": "x"}]})
    answer = hooked.ask("POST", MAPS, map_of("a"))
    assert (answer.code, answer.body["reason"]) == (429, "TooManyRequests")
    assert answer.body["details"] == {"causes": [{"field": "x"}]}


def test_the_review_says_what_is_written_and_by_whom(hooked: Api, server: WebhookServer) -> None:
    register(hooked, VALIDATING, hook(server, "allow"))
    user = User("jane", uid="7", groups=("system:masters", "team"), extra={"scopes": ("a",)})
    hooked.good("POST", MAPS, map_of("a", x="1"), user=user)
    hooked.good("PATCH", f"{MAPS}/a", {"data": {"x": "2"}}, content_type=MERGE)
    hooked.good("DELETE", f"{MAPS}/a")
    made, changed, gone = server.requests["allow"]
    assert (made["apiVersion"], made["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    request = made["request"]
    assert request["kind"] == request["requestKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (request["operation"], request["namespace"], request["name"]) == ("CREATE", "default", "a")
    assert request["userInfo"]["username"] == "jane"
    assert request["userInfo"]["extra"] == {"scopes": ["a"]}
    assert (request["object"]["data"], request["oldObject"], request["dryRun"]) == ({"x": "1"}, None, False)
    assert (changed["request"]["object"]["data"], changed["request"]["oldObject"]["data"]) == ({"x": "2"}, {"x": "1"})
    assert (gone["request"]["object"], gone["request"]["oldObject"]["data"]) == (None, {"x": "2"})
    assert server.queries == ["timeout=10s"] * 3


def test_a_mutating_webhook_changes_what_is_stored_and_unknown_fields_go(hooked: Api, server: WebhookServer) -> None:
    server.responders["patch"] = patching(
        {"op": "add", "path": "/data/added", "value": "yes"}, {"op": "add", "path": "/unheard", "value": 1}
    )
    register(hooked, MUTATING, hook(server, "patch"))
    assert hooked.good("POST", MAPS, map_of("a", x="1"))["data"] == {"x": "1", "added": "yes"}
    stored = hooked.good("GET", f"{MAPS}/a")
    assert stored["data"] == {"x": "1", "added": "yes"}
    assert "unheard" not in stored


def test_what_a_webhook_adds_gets_defaults_and_is_checked(hooked: Api, server: WebhookServer) -> None:
    server.responders["sidecar"] = patching(
        {"op": "add", "path": "/spec/containers/-", "value": {"name": "beside", "image": "i"}}
    )
    rule = {**MAP_RULE, "operations": ["CREATE"], "resources": ["pods"]}
    register(hooked, MUTATING, hook(server, "sidecar", rules=[rule]))
    beside = hooked.create_pod("a")["spec"]["containers"][1]
    assert beside["imagePullPolicy"] == "Always"
    assert beside["volumeMounts"][0]["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    server.responders["sidecar"] = patching({"op": "replace", "path": "/spec/containers/0/name", "value": "_"})
    pod = {"metadata": {"name": "b"}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
    assert hooked.ask("POST", PODS, pod).code == 422


def test_webhooks_are_asked_in_order_and_again_if_needed(hooked: Api, server: WebhookServer) -> None:
    server.responders["first"] = allow()
    server.responders["second"] = patching({"op": "add", "path": "/data/second", "value": "1"})
    register(hooked, MUTATING, hook(server, "second"), name="b")
    register(hooked, MUTATING, hook(server, "first", reinvocationPolicy="IfNeeded"), name="a")
    hooked.good("POST", MAPS, map_of("x", k="v"))
    seen = [review["request"]["object"]["data"] for review in server.requests["first"]]
    assert seen == [{"k": "v"}, {"k": "v", "second": "1"}]
    assert len(server.requests["second"]) == 1


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        ({"operations": ["UPDATE"]}, False),
        ({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}, True),
        ({"resources": ["*/*"]}, True),
        ({"resources": ["configmaps/status"]}, False),
        ({"scope": "Cluster"}, False),
        ({"scope": "Namespaced"}, True),
        ({"apiVersions": ["v2"]}, False),
    ],
)
def test_rules_choose_by_operation_group_version_resource_and_scope(
    hooked: Api, server: WebhookServer, rule: dict[str, Any], asked: bool
) -> None:
    register(hooked, VALIDATING, hook(server, "deny", rules=[{**MAP_RULE, **rule}]))
    assert (hooked.ask("POST", MAPS, map_of("a")).code == 400) is asked


def test_subresources_are_asked_about_by_their_own_rules(hooked: Api, server: WebhookServer) -> None:
    register(
        hooked, VALIDATING, hook(server, "deny", rules=[{**MAP_RULE, "resources": ["pods/status", "pods/binding"]}])
    )
    hooked.create_pod("a")
    assert hooked.ask("PATCH", f"{PODS}/a/status", {"status": {"message": "m"}}, content_type=MERGE).code == 400
    assert hooked.ask("POST", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "n"}}).code == 400
    assert server.requests["deny"][1]["request"]["kind"]["kind"] == "Binding"
    assert server.requests["deny"][1]["request"]["subResource"] == "binding"


def test_an_eviction_is_asked_about_as_such_and_not_as_a_deletion(hooked: Api, server: WebhookServer) -> None:
    rules = [{**MAP_RULE, "resources": ["pods", "pods/eviction"], "operations": ["DELETE", "CREATE"]}]
    hooked.create_pod("a")
    register(hooked, VALIDATING, hook(server, "allow", rules=rules))
    hooked.good("POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    seen = [(each["request"]["operation"], each["request"].get("subResource")) for each in server.requests["allow"]]
    assert seen == [("CREATE", "eviction")]


def test_connections_can_be_denied(hooked: Api, server: WebhookServer) -> None:
    rule = {**MAP_RULE, "operations": ["CONNECT"], "resources": ["pods/attach"]}
    register(hooked, VALIDATING, hook(server, "deny", rules=[rule]))
    hooked.create_pod("a")
    answer = hooked.ask("POST", f"{PODS}/a/attach?container=main")
    assert answer.body["message"] == 'admission webhook "deny.example.com" denied the request: no such thing'


def test_selectors_choose_namespaces_and_objects(hooked: Api, server: WebhookServer) -> None:
    register(
        hooked, VALIDATING,
        hook(
            server, "deny",
            namespaceSelector={"matchLabels": {"guarded": "yes"}}, objectSelector={"matchLabels": {"app": "x"}},
        ),
    )  # fmt: skip
    labelled = {"metadata": {"name": "a", "labels": {"app": "x"}}}
    hooked.good("POST", MAPS, labelled)
    hooked.good("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {"guarded": "yes"}}}, content_type=MERGE)
    hooked.good("POST", MAPS, map_of("b"))
    assert hooked.ask("POST", MAPS, {"metadata": {"name": "c", "labels": {"app": "x"}}}).code == 400
    unlabelled = {"metadata": {"labels": None}}
    assert hooked.ask("PATCH", f"{MAPS}/a", unlabelled, content_type=MERGE).code == 400  # the old one is selected


def test_match_conditions_decide_before_the_call(hooked: Api, server: WebhookServer) -> None:
    conditions = [{"name": "named", "expression": "object.metadata.name == 'bad'"}]
    register(hooked, VALIDATING, hook(server, "deny", matchConditions=conditions))
    hooked.good("POST", MAPS, map_of("good"))
    assert hooked.ask("POST", MAPS, map_of("bad")).code == 400
    assert len(server.requests["deny"]) == 1


def test_a_condition_that_fails_follows_the_failure_policy(hooked: Api, server: WebhookServer) -> None:
    conditions = [{"name": "odd", "expression": "object.data.missing == 'x'"}]
    register(hooked, VALIDATING, hook(server, "deny", matchConditions=conditions, failurePolicy="Ignore"), name="open")
    hooked.good("POST", MAPS, map_of("a", x="1"))
    register(hooked, VALIDATING, hook(server, "deny", matchConditions=conditions), name="shut")
    answer = hooked.ask("POST", MAPS, map_of("b", x="1"))
    assert answer.code == 403
    assert "no such key: missing" in answer.body["message"]


def test_a_dry_run_is_told_to_webhooks_and_stores_nothing(hooked: Api, server: WebhookServer) -> None:
    register(hooked, VALIDATING, hook(server, "allow", sideEffects="NoneOnDryRun"))
    hooked.good("POST", f"{MAPS}?dryRun=All", map_of("a"))
    assert server.requests["allow"][-1]["request"]["dryRun"] is True
    assert hooked.ask("GET", f"{MAPS}/a").code == 404


def test_warnings_of_webhooks_reach_the_client(hooked: Api, server: WebhookServer) -> None:
    server.responders["warn"] = allow(warnings=["mind the gap"])
    register(hooked, VALIDATING, hook(server, "warn"))
    assert '"mind the gap"' in hooked.ask("POST", MAPS, map_of("a")).headers["Warning"]


def test_a_slow_webhook_times_out_and_stops_no_other_request(hooked: Api, server: WebhookServer) -> None:
    async def sleeping(request: Any) -> Any:
        await asyncio.sleep(3)
        return {"allowed": True}

    server.responders["slow"] = sleeping
    register(hooked, VALIDATING, hook(server, "slow", timeoutSeconds=1))

    async def both() -> tuple[Any, bool]:
        body = json.dumps(map_of("a")).encode()
        slow = asyncio.ensure_future(hooked.server.handle(make_request("POST", MAPS, {}, body, ADMIN)))
        await asyncio.sleep(0.05)
        await hooked.server.handle(make_request("GET", PODS, {}, b"", ADMIN))
        return slow, slow.done()

    slow, is_done = hooked.run(both())
    assert not is_done
    message = json.loads(hooked.run(_result(slow)).body)["message"]
    assert message == (
        'Internal error occurred: failed calling webhook "slow.example.com": failed to call webhook: '
        f'Post "{server.url("slow")}?timeout=1s": context deadline exceeded'
    )


async def _result(task: Any) -> Any:
    return await task


def test_the_failure_policy_decides_about_webhooks_that_cannot_be_asked(hooked: Api, server: WebhookServer) -> None:
    nowhere = {"url": "https://127.0.0.1:1/x", "caBundle": server.bundle}
    register(hooked, VALIDATING, hook(server, "gone", clientConfig=nowhere, failurePolicy="Ignore"))
    hooked.good("POST", MAPS, map_of("a"))
    register(hooked, VALIDATING, hook(server, "gone", clientConfig=nowhere), name="strict")
    answer = hooked.ask("POST", MAPS, map_of("b"))
    assert (answer.code, answer.body["reason"]) == (500, "InternalError")
    assert answer.body["message"].startswith(
        'Internal error occurred: failed calling webhook "gone.example.com": failed to call webhook: '
        'Post "https://127.0.0.1:1/x?timeout=10s": dial tcp 127.0.0.1:1: connect: '
    )


def test_a_certificate_of_another_authority_is_not_trusted(hooked: Api, server: WebhookServer) -> None:
    other = WebhookServer()
    other.close()
    client = {**server.client("allow"), "caBundle": other.bundle}
    register(hooked, VALIDATING, hook(server, "allow", clientConfig=client))
    assert "tls: failed to verify certificate: x509" in hooked.ask("POST", MAPS, map_of("a")).body["message"]
    assert "allow" not in server.requests


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (web.json_response({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}), "response was absent"),
        (web.Response(text="{"), "couldn't get version/kind; json parse error"),
        (web.Response(status=503, text="tired"), 'an error on the server ("tired") has prevented the request'),
        (web.Response(status=404), "the server could not find the requested resource"),
        ({"allowed": True, "uid": "other"}, "expected response.uid="),
        ({"allowed": True, "patch": "W10="}, "validating webhook may not return response.patch"),
        ({"allowed": True, "warnings": 7}, "received invalid webhook response"),
        (web.json_response([]), "Object 'Kind' is missing"),
        ({"allowed": "false"}, "response.allowed must be of type boolean, got str"),
        ({"allowed": False, "status": {"message": {"a": 1}}}, "response.status.message must be of type string"),
        ({"allowed": False, "status": {"code": "403"}}, "response.status.code must be of type integer, got str"),
        ({"allowed": False, "status": {"details": 5}}, "response.status.details must be of type object, got int"),
    ],
)
def test_answers_that_are_not_valid_are_failures(hooked: Api, server: WebhookServer, response: Any, words: str) -> None:
    server.responders["odd"] = lambda request: response
    register(hooked, VALIDATING, hook(server, "odd"))
    answer = hooked.ask("POST", MAPS, map_of("a"))
    assert answer.code == 500
    assert words in answer.body["message"]


def test_a_patch_that_nests_too_deep_is_a_failure(hooked: Api, server: WebhookServer) -> None:
    patch = base64.b64encode(b"[" * 100_000).decode()
    server.responders["odd"] = lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
    register(hooked, MUTATING, hook(server, "odd"))
    answer = hooked.ask("POST", MAPS, map_of("a"))
    assert (answer.code, "the patch cannot be read" in answer.body["message"]) == (500, True)
    hooked.good("DELETE", f"{MUTATING}/test")
    register(hooked, MUTATING, hook(server, "odd", failurePolicy="Ignore"))
    hooked.good("POST", MAPS, map_of("a"))


@pytest.mark.parametrize("code", [0, 200, 302, 600, 99_999, -5])
def test_a_denial_is_a_refusal_whatever_its_code(hooked: Api, server: WebhookServer, code: int) -> None:
    server.responders["odd"] = lambda request: {"allowed": False, "status": {"code": code, "message": "no"}}
    register(hooked, VALIDATING, hook(server, "odd"))
    answer = hooked.ask("POST", MAPS, map_of("a"))
    assert (answer.code, answer.body["code"]) == (400, 400)


def test_configurations_themselves_can_always_be_changed(hooked: Api, server: WebhookServer) -> None:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    register(hooked, VALIDATING, hook(server, "deny", rules=[everything]))
    hooked.good("DELETE", f"{VALIDATING}/test")
    hooked.good("POST", MAPS, map_of("a"))
    assert "deny" not in server.requests


def test_a_service_leads_to_its_external_name_or_to_endpoints_without_a_pod(hooked: Api, server: WebhookServer) -> None:
    service = {"service": {"namespace": "default", "name": "hooks", "port": server.port, "path": "/deny"}}
    client = {**service, "caBundle": server.bundle}
    register(hooked, VALIDATING, hook(server, "deny", clientConfig=client))
    assert 'service "hooks" not found' in hooked.ask("POST", MAPS, map_of("a")).body["message"]
    spec: dict[str, Any] = {"type": "ExternalName", "externalName": "127.0.0.1"}
    hooked.good("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "hooks"}, "spec": spec})
    assert "denied the request: no such thing" in hooked.ask("POST", MAPS, map_of("a")).body["message"]


def test_a_service_of_simulated_pods_is_said_to_serve_nothing(hooked: Api, server: WebhookServer) -> None:
    client = {"service": {"namespace": "default", "name": "hooks"}, "caBundle": server.bundle}
    register(hooked, VALIDATING, hook(server, "deny", clientConfig=client))
    spec = {"selector": {"app": "hooks"}, "ports": [{"port": 443}]}
    hooked.good("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "hooks"}, "spec": spec})
    assert 'no endpoints available for service "hooks"' in hooked.ask("POST", MAPS, map_of("a")).body["message"]
    hooked.create_pod("serving", {"app": "hooks"})
    message = hooked.ask("POST", MAPS, map_of("a")).body["message"]
    assert "pod default/serving is simulated and serves nothing" in message
    assert "set clientConfig.url" in message


def test_a_namespace_that_ends_during_the_call_takes_nothing_new(hooked: Api, server: WebhookServer) -> None:
    hooked.good("POST", "/api/v1/namespaces", {"metadata": {"name": "team", "finalizers": ["a.b/c"]}})

    async def slow(request: Any) -> Any:
        await asyncio.sleep(0.5)
        return {"allowed": True}

    server.responders["slow"] = slow
    register(hooked, VALIDATING, hook(server, "slow"))

    async def race() -> Any:
        body = json.dumps(map_of("a")).encode()
        path = "/api/v1/namespaces/team/configmaps"
        made = asyncio.ensure_future(hooked.server.handle(make_request("POST", path, {}, body, ADMIN)))
        await asyncio.sleep(0.2)
        await hooked.server.handle(make_request("DELETE", "/api/v1/namespaces/team", {}, b"", ADMIN))
        return await made

    assert json.loads(hooked.run(race()).body)["reason"] == "Forbidden"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "short"}, "webhooks[0].name"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"timeoutSeconds": 0}, "webhooks[0].timeoutSeconds"),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
        ({"admissionReviewVersions": ["v2"]}, "webhooks[0].admissionReviewVersions"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig"),
        ({"clientConfig": {"url": "http://a"}}, "webhooks[0].clientConfig.url"),
        ({"matchConditions": [{"name": "a", "expression": "1 +"}]}, "webhooks[0].matchConditions[0].expression"),
        ({"rules": [{**MAP_RULE, "operations": ["READ"]}]}, "webhooks[0].rules[0].operations[0]"),
    ],
)
def test_wrong_configurations_are_refused_with_their_field(
    hooked: Api, server: WebhookServer, change: dict[str, Any], field: str
) -> None:
    answer = hooked.ask("POST", VALIDATING, {"metadata": {"name": "x"}, "webhooks": [hook(server, "allow", **change)]})
    assert answer.code == 422
    assert answer.body["details"]["causes"][0]["field"] == field


def test_a_webhook_that_does_not_answer_keeps_no_one_from_others(hooked: Api, server: WebhookServer) -> None:
    asked, answered = asyncio.Event(), threading.Event()

    async def silent(request: dict[str, Any]) -> dict[str, Any]:
        hooked.loop.call_soon_threadsafe(asked.set)
        await asyncio.to_thread(answered.wait)
        return {"allowed": True}

    server.responders["silent"] = silent
    other = WebhookServer(allow=allow())
    register(hooked, VALIDATING, hook(server, "silent", objectSelector={"matchLabels": {"slow": "yes"}}))
    register(hooked, MUTATING, hook(other, "allow", objectSelector={"matchLabels": {"slow": "no"}}), name="other")

    def created(name: str, slow: str) -> asyncio.Task[Any]:
        body = json.dumps({"metadata": {"name": name, "labels": {"slow": slow}}}).encode()
        return hooked.loop.create_task(hooked.server.handle(make_request("POST", MAPS, {}, body, ADMIN)))

    async def ask() -> tuple[int, int]:
        slow = [created(f"slow-{number}", "yes") for number in range(110)]  # aiohttp opens 100 unless told otherwise
        await asked.wait()
        for _ in range(10):  # all of them wait for a connection or an answer
            await asyncio.sleep(0)
        quick = await created("quick", "no")
        waiting = sum(not each.done() for each in slow)
        answered.set()
        await asyncio.gather(*slow)
        return quick.status, waiting

    assert hooked.run(ask()) == (201, 110)
    other.close()
