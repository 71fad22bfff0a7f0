"""Types of expressions in policies: what is refused at the write, and the warnings in the status."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.apiserver.deferred import LIGHT_CHECK
from kilauea.apiserver.dynamic.type_checks import LIGHT
from support.api_core import MAPS, Api
from support.definitions import serve, trees
from support.policies import HOOKS, MAPS_ONLY, Elsewhere, check

POLICIES = f"{HOOKS}/validatingadmissionpolicies"


def about(group: str, version: str, *plurals: str) -> dict[str, Any]:
    """Constraints on writes of these kinds."""
    rule = {"operations": ["*"], "apiGroups": [group], "apiVersions": [version], "resources": list(plurals)}
    return {"resourceRules": [rule]}


DEPLOYMENTS = about("apps", "v1", "deployments")


def policy(*validations: str | dict[str, str], **spec: Any) -> dict[str, Any]:
    """A policy for Deployments."""
    listed = [{"expression": each} if isinstance(each, str) else each for each in validations]
    return {"metadata": {"name": "p"}, "spec": {"matchConstraints": DEPLOYMENTS, "validations": listed, **spec}}


def condition(expression: str) -> list[dict[str, str]]:
    return [{"name": "c", "expression": expression}]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (policy("object.x"), "validations[0].expression", "must evaluate to bool but got dyn"),
    (policy("1 + 'a' == 2"), "validations[0].expression",
     "compilation failed: ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'"),
    (policy("request.nope == ''"), "validations[0].expression", "undefined field 'nope'"),
    (policy("namespaceObject.metadata.nope == ''"), "validations[0].expression", "undefined field 'nope'"),
    (policy("params.x == 1"), "validations[0].expression", "undeclared reference to 'params' (in container '')"),
    (policy("variables.x == 1"), "validations[0].expression", "undeclared reference to 'variables' (in container '')"),
    (policy("variables.x == 1", variables=[{"name": "y", "expression": "1"}]), "validations[0].expression",
     "undefined field 'x'"),
    (policy("variables.y == 'a'", variables=[{"name": "y", "expression": "1"}]), "validations[0].expression",
     "found no matching overload for '_==_' applied to '(int, string)'"),
    (policy("true", variables=[{"name": "a", "expression": "nope"}]), "variables[0].expression",
     "undeclared reference to 'nope'"),
    (policy({"expression": "true", "messageExpression": "object.x"}), "validations[0].messageExpression",
     "must evaluate to string but got dyn"),
    (policy({"expression": "true", "messageExpression": "authorizer.path('/').check('get').reason()"}),
     "validations[0].messageExpression", "undeclared reference to 'authorizer'"),
    (policy("true", matchConditions=condition("1")), "matchConditions[0].expression",
     "must evaluate to bool but got int"),
    (policy("true", matchConditions=condition("variables.x")), "matchConditions[0].expression",
     "undeclared reference to 'variables'"),
    (policy("true", matchConditions=condition(" ")), "matchConditions[0].expression", "Required value"),
    (policy("true", auditAnnotations=[{"key": "a", "valueExpression": "1"}]), "auditAnnotations[0].valueExpression",
     "must evaluate to one of [string null_type] but got int"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "field", "words"), REFUSED)
def test_a_policy_with_wrong_types_is_refused(api: Api, body: dict[str, Any], field: str, words: str) -> None:
    answer = api.ask("POST", POLICIES, body)
    assert answer.code == 422
    ((where, message),) = [(each["field"], each["message"]) for each in answer.body["details"]["causes"]]
    assert where == f"spec.{field}"
    assert words in message


@pytest.mark.parametrize(
    ("mutation", "words"),
    [
        ({"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'add'}"}}, "Syntax error"),
        ({"patchType": "JSONPatch", "jsonPatch": {"expression": "nope"}}, "undeclared reference to 'nope'"),
        ({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": ""}}, "expression: Required value"),
    ],
)
def test_a_mutation_that_cannot_be_evaluated_is_refused(api: Api, mutation: dict[str, Any], words: str) -> None:
    spec = {"matchConstraints": MAPS_ONLY, "reinvocationPolicy": "Never", "mutations": [mutation]}
    answer = api.ask("POST", f"{HOOKS}/mutatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    assert answer.code == 422
    assert words in answer.body["message"]


def status(api: Api, body: dict[str, Any]) -> dict[str, Any]:
    """The status of a policy after it is created."""
    api.good("POST", POLICIES, body)
    found: dict[str, Any] = api.good("GET", f"{POLICIES}/p")["status"]
    return found


def warnings(api: Api, body: dict[str, Any]) -> list[tuple[str, str]]:
    """Field and text of each warning about a policy."""
    found = status(api, body)["typeChecking"].get("expressionWarnings", [])
    return [(each["fieldRef"], each["warning"]) for each in found]


def test_a_policy_whose_types_are_right_has_an_empty_type_check(api: Api) -> None:
    assert status(api, policy("object.spec.replicas > 1")) == {"observedGeneration": 1, "typeChecking": {}}


def test_wrong_types_and_undefined_fields_become_warnings(api: Api) -> None:
    message = {"expression": "object.spec.replicas > '1'", "messageExpression": "'got ' + object.spec.replicas"}
    assert warnings(api, policy(message, "object.spec.nope == 1")) == [
        (
            "spec.validations[0].expression",
            "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to "
            "'(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n",
        ),
        (
            "spec.validations[0].messageExpression",
            "apps/v1, Kind=Deployment: ERROR: <input>:1:8: found no matching overload for '_+_' applied to "
            "'(string, int)'\n | 'got ' + object.spec.replicas\n | .......^\n",
        ),
        (
            "spec.validations[1].expression",
            "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'nope'\n"
            " | object.spec.nope == 1\n | ...........^\n",
        ),
    ]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("object.metadata.labels['a'] == 'b' && object.metadata.labels.a == 'b'", ""),
        ("object.metadata.labels.a == 1", "applied to '(string, int)'"),
        ("object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')", ""),
        ("object.spec.template.spec.containers.all(c, c.image.startsWith('x'))", ""),
        ("object.spec.template.spec.containers.all(c, c.ports.all(p, p.containerPort == 'a'))", "'(int, string)'"),
        ("object.spec.strategy.rollingUpdate.maxSurge == 1 || object.spec.strategy.rollingUpdate.maxSurge == '1%'", ""),
        (
            "object.spec.template.spec.containers[0].resources.limits['cpu'] == '1'",
            "undefined field 'limits'",
        ),  # Kubernetes, too
        ("oldObject == null || oldObject.spec.replicas < object.spec.replicas", ""),
        ("authorizer.requestResource.check('get').allowed()", ""),
    ],
)
def test_expressions_are_checked_against_the_schema_of_the_kind(api: Api, expression: str, words: str) -> None:
    found = warnings(api, policy(expression))
    assert words in found[0][1] if words else found == []


def test_each_kind_of_a_policy_is_checked(api: Api) -> None:
    constraints = about("apps", "v1", "statefulsets", "deployments", "deployments/scale")
    ((_, text),) = warnings(api, policy("object.spec.strategy.type == 'x'", matchConstraints=constraints))
    assert text.startswith("apps/v1, Kind=StatefulSet: ERROR: <input>:1:12: undefined field 'strategy'")
    assert "Deployment" not in text


def test_policies_about_all_versions_or_groups_are_not_checked(api: Api) -> None:
    assert warnings(api, policy("object.nope == 1", matchConstraints=about("apps", "*", "deployments"))) == []


def test_custom_kinds_and_params_are_checked_by_their_definitions(api: Api) -> None:
    spec = {"type": "object", "properties": {"height": {"type": "integer"}}}
    serve(api, trees({"type": "object", "properties": {"spec": spec}}))
    kind = {"apiVersion": "example.com/v1", "kind": "Tree"}
    body = policy(
        "object.spec.height > 1 && params.spec.height < 3", "object.spec.width > 1", "params.spec.height == 'a'",
        matchConstraints=about("example.com", "v1", "trees"), paramKind=kind,
    )  # fmt: skip
    assert [(field, text.partition(": ERROR")[0]) for field, text in warnings(api, body)] == [
        ("spec.validations[1].expression", "example.com/v1, Kind=Tree"),
        ("spec.validations[2].expression", "example.com/v1, Kind=Tree"),
    ]


def test_variables_have_the_types_of_their_expressions(api: Api) -> None:
    composed = [
        {"name": "count", "expression": "object.spec.replicas"},
        {"name": "more", "expression": "variables.count + 1"},
        {"name": "wrong", "expression": "object.spec.nope"},
    ]
    body = policy("variables.more > 1", "variables.count == 'a'", "variables.wrong == 'a'", variables=composed)
    ((field, text),) = warnings(api, body)
    assert field == "spec.validations[1].expression"
    assert "applied to '(int, string)'" in text


def test_a_policy_that_changes_is_checked_again_and_takes_effect_despite_warnings(api: Api) -> None:
    check(api, {"expression": "object.data.size() > 0"})
    path = f"{POLICIES}/p"
    changed = api.good("GET", path)
    changed["spec"]["validations"] = [{"expression": "object.nope == 1"}]
    api.good("PUT", path, changed)
    found = api.good("GET", path)
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == 2
    assert len(found["status"]["typeChecking"]["expressionWarnings"]) == 1
    assert "no such key: nope" in api.ask("POST", MAPS, {"metadata": {"name": "a"}}).body["message"]
    found["metadata"]["labels"] = {"a": "b"}
    revision = api.good("PUT", path, found)["metadata"]["resourceVersion"]
    assert api.good("GET", path)["metadata"]["resourceVersion"] == revision


def test_the_expressions_of_a_large_policy_are_checked_in_another_process(api: Api) -> None:
    elsewhere = api.backend.heavy = Elsewhere()
    answer = api.ask("POST", POLICIES, policy(*["object != null"] * (LIGHT_CHECK // 10), "object.x"))
    assert elsewhere.tasks == ["check"]
    (cause,) = answer.body["details"]["causes"]
    assert cause["field"] == f"spec.validations[{LIGHT_CHECK // 10}].expression"
    assert "must evaluate to bool but got dyn" in cause["message"]


def test_a_policy_that_takes_too_long_to_check_is_refused(api: Api) -> None:
    api.backend.heavy = Elsewhere(refuses=True)
    answer = api.ask("POST", POLICIES, policy(*["object != null"] * (LIGHT_CHECK // 10)))
    assert answer.code == 422
    assert "spec: Forbidden: it takes too long to check" in answer.body["message"]


@pytest.mark.parametrize("refuses", [False, True])
def test_large_policies_are_checked_in_another_process_and_stay_if_that_fails(api: Api, refuses: bool) -> None:
    elsewhere = api.backend.heavy = Elsewhere(refuses=refuses)
    body = policy(*["object.spec.nope == 1"] * (LIGHT // 60))
    body["spec"]["matchConstraints"] = about("apps", "v1", "deployments", "daemonsets", "replicasets", "statefulsets")
    api.good("POST", POLICIES, body)
    assert elsewhere.tasks == ["check types"]
    found = api.good("GET", f"{POLICIES}/p")
    assert ("observedGeneration" in found.get("status", {})) is not refuses
