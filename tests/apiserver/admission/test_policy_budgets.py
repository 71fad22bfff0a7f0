"""The cost of expressions of policies: their budgets, and what is evaluated in another process."""

from __future__ import annotations

import pytest

from support.api_core import MAPS, Api
from support.policies import HOOKS, Elsewhere, change, check

POLICIES = f"{HOOKS}/validatingadmissionpolicies"
NESTED = "lists.range(150).all(a, lists.range(150).all(b, a + b >= 0))"
"""It costs more than is evaluated at once."""
MAY_CREATE = "authorizer.requestResource.check('create').allowed()"


def test_expressions_of_a_policy_together_have_a_budget(api: Api) -> None:
    costly = {"expression": "[0,1,2,3,4,5,6,7].all(a, lists.range(90000).size() > a)"}
    check(api, *[costly] * 11)
    api.create_map("a")
    path = f"{POLICIES}/p"
    changed = api.good("GET", path)
    changed["spec"]["validations"] = [costly] * 15
    api.good("PUT", path, changed)
    answer = api.ask("POST", MAPS, {"metadata": {"name": "b"}})
    words = "validation failed due to running out of cost budget, no further validation rules will be run"
    assert answer.body["message"].endswith(f"denied request: {words}")
    changed = api.good("GET", path)
    changed["spec"]["failurePolicy"] = "Ignore"
    api.good("PUT", path, changed)
    api.create_map("b")


def test_match_conditions_together_have_a_budget(api: Api) -> None:
    costly = "[0,1,2,3,4,5,6,7].all(a, lists.range(90000).size() > a)"
    conditions = [{"name": f"c{number}", "expression": costly} for number in range(4)]
    check(api, {"expression": "true"}, matchConditions=conditions)
    answer = api.ask("POST", MAPS, {"metadata": {"name": "b"}})
    assert "running out of cost budget" in answer.body["message"]


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        (NESTED, True),
        (f"!({NESTED})", False),
        (f"{NESTED} && object.data.a == 'b' && oldObject == null && request.operation == 'CREATE'", True),
        (f"{NESTED} && namespaceObject.metadata.name == 'other'", False),
        (f"{NESTED} && variables.day == timestamp('2026-01-01T00:00:00Z')", True),
    ],
)
def test_an_expression_that_costs_much_is_evaluated_in_another_process(api: Api, expression: str, holds: bool) -> None:
    elsewhere = api.backend.heavy = Elsewhere()
    variables = [{"name": "day", "expression": "timestamp('2026-01-01T00:00:00Z')"}]
    check(api, {"expression": expression}, variables=variables)
    answer = api.ask("POST", MAPS, {"metadata": {"name": "a"}, "data": {"a": "b"}})
    assert answer.code == (201 if holds else 422)
    assert elsewhere.tasks == ["evaluate"]


def test_what_costs_little_or_only_asks_the_authorizer_is_evaluated_at_once(api: Api) -> None:
    elsewhere = api.backend.heavy = Elsewhere()
    check(api, {"expression": "object.data.all(k, k != '')"}, {"expression": f"{MAY_CREATE} && {MAY_CREATE}"})
    api.create_map("a", a="b")
    assert elsewhere.tasks == []


@pytest.mark.parametrize(
    ("expression", "holds", "rounds"),
    [
        (f"{NESTED} && {MAY_CREATE}", True, 2),
        (f"{NESTED} && !({MAY_CREATE})", False, 2),
        (f"{NESTED} && {MAY_CREATE} && {MAY_CREATE}", True, 2),
        (f"{NESTED} && variables.may && authorizer.path('/a').check('get').reason() == ''", True, 3),
        (f"{NESTED} && authorizer.serviceAccount('a', 'b').path('/a').check('get').allowed()", False, 2),
        (f"!({NESTED}) && {MAY_CREATE}", False, 1),
    ],
)
def test_an_expression_that_costs_much_is_evaluated_in_another_process_with_the_answers_of_the_authorizer(
    api: Api, expression: str, holds: bool, rounds: int
) -> None:
    elsewhere = api.backend.heavy = Elsewhere()
    check(api, {"expression": expression}, variables=[{"name": "may", "expression": MAY_CREATE}])
    assert api.ask("POST", MAPS, {"metadata": {"name": "a"}}).code == (201 if holds else 422)
    assert elsewhere.tasks == ["evaluate"] * rounds


def test_a_long_expression_is_compiled_in_another_process(api: Api) -> None:
    elsewhere = api.backend.heavy = Elsewhere()
    check(api, {"expression": " && ".join(["object.metadata.name != ''"] * 300)})
    elsewhere.tasks.clear()
    api.create_map("a")
    assert elsewhere.tasks == ["evaluate"]


def test_an_error_in_another_process_is_that_of_the_expression(api: Api) -> None:
    api.backend.heavy = Elsewhere()
    check(api, {"expression": f"{NESTED} && object.none == 1"})
    answer = api.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert answer.body["message"].endswith(f"{NESTED} && object.none == 1' resulted in error: no such key: none")


def test_an_expression_that_takes_too_long_elsewhere_follows_the_failure_policy(api: Api) -> None:
    api.backend.heavy = Elsewhere(refuses=True)
    check(api, {"expression": NESTED})
    assert api.ask("POST", MAPS, {"metadata": {"name": "a"}}).body["message"].endswith("resulted in error: slow")
    path = f"{POLICIES}/p"
    changed = api.good("GET", path)
    changed["spec"]["failurePolicy"] = "Ignore"
    api.good("PUT", path, changed)
    api.create_map("a")


def test_a_patch_can_be_made_in_another_process(api: Api) -> None:
    elsewhere = api.backend.heavy = Elsewhere()
    expression = f"Object{{metadata: Object.metadata{{labels: {NESTED} ? {{'a': 'b'}} : {{}}}}}}"
    change(api, {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
    assert api.create_map("x")["metadata"]["labels"] == {"a": "b"}
    assert elsewhere.tasks == ["evaluate"]
