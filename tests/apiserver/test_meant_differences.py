"""Small differences from Kubernetes that `docs/differences.md` lists and no other test is about."""

from __future__ import annotations

import logging
from ipaddress import IPv4Network
from typing import Any

import pytest

from kilauea.apiserver.crd.definition_checks import check_definition
from support.api_core import MAPS, PODS, Api
from support.definitions import TREE, TREES, serve, trees
from support.policies import HOOKS, MAPS_ONLY, check
from support.webhook_server import WebhookServer, allow, api_with_webhooks

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SERVICES = "/api/v1/namespaces/default/services"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
WEBHOOKS = f"{HOOKS}/validatingwebhookconfigurations"


def test_a_binding_without_a_name_is_for_the_pod_in_the_path(api: Api) -> None:
    api.create_pod("a")
    assert api.ask("POST", f"{PODS}/a/binding", {"target": {"kind": "Node", "name": "n1"}}).code == 201
    assert api.good("GET", f"{PODS}/a")["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize("word", ["yes", "no", "on", "y"])
def test_words_that_older_yaml_takes_for_booleans_are_text(api: Api, word: str) -> None:
    text = f"metadata: {{name: a}}\ndata: {{key: {word}}}\n".encode()
    assert api.good("POST", MAPS, text, content_type="application/yaml")["data"] == {"key": word}


def test_of_a_map_that_is_given_twice_the_last_counts(api: Api) -> None:
    text = b'{"metadata": {"name": "a"}, "data": {"x": "1"}, "data": {"y": "2"}}'
    answer = api.ask("POST", MAPS, text)
    assert (answer.code, answer.body["data"]) == (201, {"y": "2"})
    assert 'duplicate field \\"data\\"' in answer.headers["Warning"]


def test_annotations_of_apparmor_stay_annotations(api: Api) -> None:
    annotations = {"container.apparmor.security.beta.kubernetes.io/main": "runtime/default"}
    body = {
        "metadata": {"name": "a", "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }
    made = api.good("POST", PODS, body)
    assert made["metadata"]["annotations"] == annotations
    assert "appArmorProfile" not in str(made["spec"])


def test_the_scale_of_a_custom_resource_is_applied(api: Api) -> None:
    spec = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    definition = trees({"type": "object", "properties": {"spec": spec}})
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    definition["spec"]["versions"][0]["subresources"] = {"scale": paths}
    serve(api, definition)
    api.good("POST", TREES, {**TREE, "metadata": {"name": "oak"}, "spec": {"replicas": 1}})
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "oak"}, "spec": {"replicas": 2}}
    where = f"{TREES}/oak/scale?fieldManager=x&force=true"
    api.good("PATCH", where, scale, content_type="application/apply-patch+yaml")
    assert api.good("GET", f"{TREES}/oak")["spec"]["replicas"] == 2


def test_audit_annotations_of_a_policy_are_in_the_log(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    notes = [{"key": "size", "valueExpression": "'holds ' + string(size(object.data))"}]
    check(api, {"expression": "true"}, auditAnnotations=notes, matchConstraints=MAPS_ONLY)
    with caplog.at_level(logging.DEBUG, "kilauea"):
        api.create_map("a", x="1")
    assert "audit annotation p/size: holds 1" in caplog.text


def test_webhooks_for_scale_get_the_scaled_object_and_those_for_tokens_nothing() -> None:
    server = WebhookServer(seen=allow())
    rules = [
        {"operations": ["*"], "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource]}
        for group, resource in (("apps", "deployments/scale"), ("", "serviceaccounts/token"))
    ]
    client = server.client("seen")
    hook = {"name": "seen.example.com", "rules": rules, "clientConfig": client, "admissionReviewVersions": ["v1"]}
    try:
        with api_with_webhooks() as api:
            api.good("POST", WEBHOOKS, {"metadata": {"name": "h"}, "webhooks": [{**hook, "sideEffects": "None"}]})
            labels = {"app": "web"}
            template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            spec = {"selector": {"matchLabels": labels}, "template": template}
            api.good("POST", DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
            merge = "application/merge-patch+json"
            api.good("PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 3}}, content_type=merge)
            api.ask("POST", TOKEN, {"spec": {}})
    finally:
        server.close()
    (review,) = server.requests["seen"]
    assert review["request"]["object"]["kind"] == "Deployment"
    assert review["request"]["object"]["spec"]["replicas"] == 3


@pytest.mark.parametrize(("network", "code"), [("127.77.0.0/16", 201), ("10.96.0.0/12", 422)])
def test_endpoints_have_addresses_of_loopback_where_services_have_them(network: str, code: int) -> None:
    api = Api(service_range=IPv4Network(network))
    slice_of = {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.2"]}]}
    assert api.ask("POST", SLICES, slice_of).code == code
    subsets = [{"addresses": [{"ip": "127.0.0.2"}]}]
    assert api.ask("POST", ENDPOINTS, {"metadata": {"name": "a"}, "subsets": subsets}).code == code
    api.close()


def test_rules_of_a_schema_that_stays_are_not_checked_again(api: Api) -> None:
    rule = {"rule": "self.none == 1", "message": "never"}
    broken = trees({"type": "object", "x-kubernetes-validations": [rule]})
    assert [cause.field.endswith("rule") for cause in check_definition(broken)] == [True]
    assert check_definition(broken, broken) == []


def test_the_log_of_a_pod_on_a_node_is_empty_where_nothing_runs_containers(api: Api) -> None:
    api.create_pod("a", nodeName="n1")
    answer = api.ask("GET", f"{PODS}/a/log")
    assert (answer.code, answer.body) == (200, "")


def test_an_error_of_an_update_is_told_once(api: Api) -> None:
    spec = {"selector": {"app": "a"}, "ports": [{"port": 80}]}
    made = api.good("POST", SERVICES, {"metadata": {"name": "a"}, "spec": spec})
    made["spec"]["ports"][0]["port"] = 0
    answer = api.ask("PUT", f"{SERVICES}/a", made)
    assert [each["field"] for each in answer.body["details"]["causes"]] == ["spec.ports[0].port"]


def test_an_empty_list_looks_the_same_in_a_message_whether_it_was_sent_or_not(api: Api) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    messages = []
    sent: list[dict[str, Any]] = [{}, {"env": [], "volumeMounts": None}]
    for number, empty in enumerate(sent):
        name = f"job-{number}"
        made = api.good("POST", JOBS, {"metadata": {"name": name}, "spec": {"template": template}})
        made["spec"]["template"]["spec"]["containers"] = [{"name": "c", "image": "other", **empty}]
        answer = api.ask("PUT", f"{JOBS}/{name}", made)
        assert answer.code == 422
        messages.append(answer.body["message"].replace(name, "").replace(made["metadata"]["uid"], ""))
    assert messages[0] == messages[1]
    assert "field is immutable" in messages[0]
