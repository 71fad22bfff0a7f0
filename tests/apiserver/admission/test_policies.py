"""Validating and mutating admission policies: what they are about, what they deny, warn of and change."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.apiserver.schema.policy_literals import plain_literals
from support.api_core import MAPS, PODS, Api, causes
from support.definitions import TREES, serve, trees
from support.policies import HOOKS, MAPS_ONLY, change, check

MERGE = "application/merge-patch+json"


def json_patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def configuration(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def test_a_policy_denies_what_its_expression_does_not_allow(api: Api) -> None:
    check(api, {"expression": "size(object.data) < 2"})
    api.create_map("a", x="1")
    answer = api.ask("POST", MAPS, {"metadata": {"name": "b"}, "data": {"x": "1", "y": "2"}})
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert answer.body["message"] == (
        "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
        "failed expression: size(object.data) < 2"
    )


def test_a_policy_without_a_binding_does_nothing(api: Api) -> None:
    spec = {"matchConstraints": MAPS_ONLY, "validations": [{"expression": "false"}]}
    api.good("POST", f"{HOOKS}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    api.create_map("a")


@pytest.mark.parametrize(
    ("validation", "code", "words"),
    [
        ({"expression": "false", "message": "never"}, 422, "never"),
        ({"expression": "false", "messageExpression": "'name ' + object.metadata.name"}, 422, "name a"),
        ({"expression": "false", "messageExpression": "string(object.none)", "message": "plain"}, 422, "plain"),
        ({"expression": "false", "reason": "Forbidden", "message": "m"}, 403, "m"),
        ({"expression": "object.none == 1"}, 422, "expression 'object.none == 1' resulted in error: no such key: none"),
    ],
)
def test_messages_and_reasons_are_those_of_the_validation(
    api: Api, validation: dict[str, Any], code: int, words: str
) -> None:
    check(api, validation)
    answer = api.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert answer.code == code
    assert answer.body["message"].endswith(f"denied request: {words}")


def test_a_failure_to_evaluate_lets_pass_what_may_fail(api: Api) -> None:
    check(api, {"expression": "object.none == 1"}, failurePolicy="Ignore")
    api.create_map("a")


def test_a_binding_can_warn_instead(api: Api) -> None:
    check(api, {"expression": "false", "message": "mind"}, actions=("Warn", "Audit"))
    answer = api.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert answer.code == 201
    warned = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': mind"
    assert answer.headers["Warning"] == f'299 - "{warned}"'


def test_variables_conditions_and_the_namespace_are_there_for_expressions(api: Api) -> None:
    check(
        api,
        {"expression": "variables.twice == 4 && namespaceObject.metadata.name == request.namespace"},
        {"expression": "oldObject == null || oldObject.data == object.data", "message": "data stays"},
        variables=[
            {"name": "size", "expression": "size(object.data)"},
            {"name": "twice", "expression": "variables.size * 2"},
        ],
        matchConditions=[{"name": "not-skipped", "expression": "!object.metadata.name.startsWith('skip')"}],
    )
    api.create_map("skip")
    api.create_map("two", x="1", y="2")
    assert api.ask("POST", MAPS, {"metadata": {"name": "one"}, "data": {"x": "1"}}).code == 422
    answer = api.ask("PATCH", f"{MAPS}/two", {"data": {"x": "3"}}, content_type=MERGE)
    assert answer.body["message"].endswith("data stays")


def test_params_come_from_the_object_that_the_binding_names(api: Api) -> None:
    api.create_map("limits", most="1")
    check(
        api,
        {"expression": "size(object.data) <= int(params.data.most)"},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        binding={"paramRef": {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}},
    )
    api.create_map("a", x="1")
    assert api.ask("POST", MAPS, {"metadata": {"name": "b"}, "data": {"x": "1", "y": "2"}}).code == 422
    api.good("DELETE", f"{MAPS}/limits")
    answer = api.ask("POST", MAPS, {"metadata": {"name": "c"}, "data": {"x": "1"}})
    words = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    assert answer.body["message"].endswith(words)


def test_bindings_choose_by_selectors_and_names(api: Api) -> None:
    rules = [{**MAPS_ONLY["resourceRules"][0], "resourceNames": ["guarded"]}]
    check(api, {"expression": "false"}, binding={"matchResources": {"resourceRules": rules}})
    api.create_map("free")
    assert api.ask("POST", MAPS, {"metadata": {"name": "guarded"}}).code == 422


def test_policies_and_bindings_themselves_can_always_be_changed(api: Api) -> None:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    check(api, {"expression": "false"}, matchConstraints={"resourceRules": [everything]})
    assert api.ask("POST", MAPS, {"metadata": {"name": "a"}}).code == 422
    api.good("DELETE", f"{HOOKS}/validatingadmissionpolicybindings/b")
    api.create_map("a")


def test_a_mutating_policy_applies_a_configuration(api: Api) -> None:
    change(api, configuration("Object{metadata: Object.metadata{labels: Object.metadata.labels{team: 'a'}}}"))
    made = api.good("POST", MAPS, {"metadata": {"name": "x", "labels": {"own": "1"}}})
    assert made["metadata"]["labels"] == {"own": "1", "team": "a"}


def test_a_mutating_policy_applies_a_json_patch(api: Api) -> None:
    path = '"/metadata/annotations/" + jsonpatch.escapeKey("example.com/by")'
    change(
        api,
        json_patch('[JSONPatch{op: "add", path: "/metadata/annotations", value: {}}]'),
        json_patch(f"[JSONPatch{{op: 'add', path: {path}, value: request.operation}}]"),
        matchConditions=[{"name": "new", "expression": "request.operation == 'CREATE'"}],
    )
    assert api.create_map("x")["metadata"]["annotations"] == {"example.com/by": "CREATE"}


def test_containers_of_an_applied_configuration_merge_by_name_and_get_defaults(api: Api) -> None:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    change(
        api,
        configuration('Object{spec: Object.spec{containers: [Object.spec.containers{name: "beside", image: "i"}]}}'),
        matchConstraints={"resourceRules": [rule]},
    )
    containers = api.create_pod("a")["spec"]["containers"]
    assert {each["name"] for each in containers} == {"main", "beside"}
    assert all(each["terminationMessagePath"] == "/dev/termination-log" for each in containers)
    assert api.good("GET", f"{PODS}/a")["spec"]["containers"] == containers


def test_a_mutating_policy_that_fails_refuses_unless_it_may(api: Api) -> None:
    change(api, json_patch("[JSONPatch{op: 'add', path: '/data', value: object.none}]"))
    answer = api.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert answer.code == 403
    assert "no such key: none" in answer.body["message"]
    path = f"{HOOKS}/mutatingadmissionpolicies/p"
    api.good("PATCH", path, {"spec": {"failurePolicy": "Ignore"}}, content_type=MERGE)
    api.create_map("a")


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("Object{a: 1}", '{"a": 1}'),
        ("Object{a: x ? b : c, d: [Object.d{e: 'f: g'}]}", '{"a": x ? b : c, "d": [{"e": \'f: g\'}]}'),
        ('Object.m{"k": v}', '{"k": v}'),
        ("jsonpatch.escapeKey(f(x))", "(f(x)).replace('~', '~0').replace('/', '~1')"),
        ("object.spec", "object.spec"),
    ],
)
def test_typed_literals_become_maps(given: str, plain: str) -> None:
    assert plain_literals(given) == plain


def replaced(path: str, value: str) -> dict[str, Any]:
    return json_patch(f"[JSONPatch{{op: 'add', path: '{path}', value: {value}}}]")


@pytest.mark.parametrize(
    ("mutation", "code", "words"),
    [
        (replaced("/metadata/namespace", "'kube-system'"), 400, "namespace"),
        (replaced("/kind", "'Secret'"), 500, 'kind of configmaps "a", which must stay ConfigMap'),
        (replaced("/kind", "5"), 500, "which must stay ConfigMap"),
        (replaced("/apiVersion", "'v2'"), 500, 'apiVersion of configmaps "a", which must stay v1'),
        (json_patch("[JSONPatch{op: 'remove', path: '/kind'}]"), 500, "which must stay ConfigMap"),
    ],
)
def test_a_policy_makes_no_object_of_another_kind_or_namespace(
    api: Api, mutation: dict[str, Any], code: int, words: str
) -> None:
    change(api, mutation)
    answer = api.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert (answer.code, words in answer.body["message"]) == (code, True)
    assert not [each.key for each in api.backend.store.list("/core/configmaps/").items if each.key.endswith("/a")]


def test_a_configuration_is_of_the_kind_of_the_object_whatever_it_says(api: Api) -> None:
    change(api, configuration("Object{kind: 'Secret', apiVersion: 'v2', data: {'a': 'b'}}"))
    made = api.good("POST", MAPS, {"metadata": {"name": "a"}})
    assert (made["kind"], made["apiVersion"], made["data"]) == ("ConfigMap", "v1", {"a": "b"})


def test_a_policy_gives_no_object_another_name_or_identity(api: Api) -> None:
    before = api.create_map("a")["metadata"]
    change(
        api,
        replaced("/metadata/uid", "'other'"),
        replaced("/metadata/creationTimestamp", "'2020-01-01T00:00:00Z'"),
        replaced("/metadata/deletionTimestamp", "'2020-01-01T00:00:00Z'"),
    )
    after = api.good("PATCH", f"{MAPS}/a", {"data": {"x": "1"}}, content_type=MERGE)["metadata"]
    assert {**after, "managedFields": None, "resourceVersion": ""} == {
        **before,
        "managedFields": None,
        "resourceVersion": "",
    }
    api.good("DELETE", f"{HOOKS}/mutatingadmissionpolicies/p")
    api.good("DELETE", f"{HOOKS}/mutatingadmissionpolicybindings/b")
    change(api, replaced("/metadata/name", "'b'"))
    answer = api.ask("PATCH", f"{MAPS}/a", {"data": {"x": "2"}}, content_type=MERGE)
    assert (answer.code, causes(answer)) == (422, [("metadata.name", "FieldValueInvalid")])
    assert api.good("GET", f"{MAPS}/a")["data"] == {"x": "1"}


def test_an_object_that_a_policy_changes_gets_its_generated_name(api: Api) -> None:
    change(api, replaced("/metadata/labels", "{'a': 'b'}"))
    made = api.good("POST", MAPS, {"metadata": {"generateName": "made-"}})["metadata"]
    assert made["name"].startswith("made-")
    assert api.good("GET", f"{MAPS}/{made['name']}")["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("applied", "problem"),
    [
        ("Object{bogus: 'x'}", ".bogus: field not declared in schema"),
        (
            "Object{metadata: Object.metadata{labelz: Object.metadata.labelz{a: 'b'}}}",
            ".metadata.labelz: field not declared in schema",
        ),
    ],
)
def test_what_a_mutating_policy_applies_has_the_form_of_the_kind(api: Api, applied: str, problem: str) -> None:
    change(api, configuration(applied))
    answer = api.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert answer.code == 403
    words = f"error applying patch: failed to convert patch object to typed object: {problem}"
    assert answer.body["message"].endswith(f"denied request: {words}")


def test_an_unknown_field_of_a_policy_that_may_fail_leaves_the_object_as_it_is(api: Api) -> None:
    change(api, configuration("Object{data: Object.data{y: '2'}, bogus: 'x'}"), failurePolicy="Ignore")
    assert api.create_map("a", x="1")["data"] == {"x": "1"}


def test_the_form_of_a_custom_resource_is_that_of_its_definition(api: Api) -> None:
    spec = {"type": "object", "properties": {"height": {"type": "integer"}}}
    serve(api, trees({"type": "object", "properties": {"spec": spec}}))
    rule = {"operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["trees"]}
    change(api, configuration("Object{spec: Object.spec{depth: 3}}"), matchConstraints={"resourceRules": [rule]})
    tree = {"apiVersion": "example.com/v1", "kind": "Tree", "metadata": {"name": "oak"}, "spec": {"height": 1}}
    answer = api.ask("POST", TREES, tree)
    assert answer.code == 403
    assert answer.body["message"].endswith("typed object: .spec.depth: field not declared in schema")


@pytest.mark.parametrize("who", ["policy", "client"])
def test_an_update_cannot_change_the_generation(api: Api, who: str) -> None:
    pod = api.create_pod("a")
    api.create_map("a", x="1")
    if who == "policy":
        rule = {"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*/*"]}
        patch = json_patch("[JSONPatch{op: 'add', path: '/metadata/generation', value: 77}]")
        change(api, patch, matchConstraints={"resourceRules": [rule]})
    mine = {"metadata": {"generation": 78, "labels": {"a": "b"}}}
    found = api.good("PATCH", f"{MAPS}/a", mine, content_type=MERGE)["metadata"]
    assert (found.get("generation"), found["labels"]) == (None, {"a": "b"})
    found = api.good("PATCH", f"{PODS}/a", mine, content_type=MERGE)["metadata"]
    assert (found["generation"], found["labels"]) == (pod["metadata"]["generation"], {"a": "b"})
    answer = api.good("PATCH", f"{PODS}/a/status", {**mine, "status": {"phase": "Running"}}, content_type=MERGE)
    assert answer["metadata"]["generation"] == pod["metadata"]["generation"]
