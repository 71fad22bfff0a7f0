"""The estimated cost of rules: what a definition may cost is refused as in Kubernetes, by the limits in its schemas."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.cel.typing import check_expression, estimated_cost
from kilauea.apiserver.schema.rule_types import type_of_schema
from support.api_core import Api
from support.definitions import DEFINITIONS, trees

ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 10},
        "long": TEXT,
        "n": {"type": "integer"},
        "kind2": {"type": "string", "enum": ["aa", "bbbb"]},
        "list": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 5}},
        "open": {"type": "array", "items": TEXT},
        "ints": {"type": "array", "items": {"type": "integer"}},
        "objs": {
            "type": "array", "maxItems": 7,
            "items": {"type": "object", "properties": {"k": {"type": "string", "maxLength": 8}}},
        },
        "map": {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "string", "maxLength": 6}},
        "when": {"type": "string", "format": "date-time"},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "cost"),
    [
        ("self.n > 1", 3),
        ("self.name == 'a'", 3),
        ("self.long == self.name", 8),
        ("self.name.contains('abc')", 6),
        ("self.long.matches('^a.*b$')", 629_148),
        ("self.list.all(x, x.contains('a'))", 63),
        ("self.list.exists_one(x, x == 'a')", 44),
        ("self.list.map(x, x + 'a').size() > 1", 175),
        ("self.open.all(x, self.open.all(y, x == y))", 345_881_509_131_242_703),
        ("self.map.all(k, self.map[k] == k)", 35),
        ("has(self.name) && self.kind2 == 'bbbb'", 4),
        ("self.kind2 in ['aa', 'bbbb']", 14),
        ("self.list == oldSelf.list", 5),
        ("self.name.split(',').all(x, size(x) > 1)", 251),
        ("self.name.replace('', 'bb') == 'x'", 11),
        ("self.list.join(',') == 'x'", 24),
        ("self.ints.sum() == 3", 1_572_866),
        ("self.when > timestamp('2020-01-01T00:00:00Z')", 4),
        ("sets.equivalent(self.list, self.list)", 205),
        ("self.objs.sortBy(o, o.k).size() > 1", 239),
        ("self.list.map(x, x.size()).max() > 2", 164),
        ("self.?name.orValue('x') == 'x'", 4),
    ],
)
def test_a_rule_costs_what_its_schema_lets_it_cost(rule: str, cost: int) -> None:
    kind = type_of_schema(SCHEMA, "selfType", whole=True)
    assert kind is not None
    assert estimated_cost(check_expression(rule, {"self": kind, "oldSelf": kind}), kind) == cost


def refused(api: Api, schema: dict[str, Any]) -> list[tuple[str, str]]:
    """Path below the specification and message of each cause against a definition with this specification."""
    body = trees({"type": "object", "properties": {"spec": schema}})
    answer = api.ask("POST", DEFINITIONS, body)
    assert answer.code in (201, 422)
    found = answer.body["details"]["causes"] if answer.code == 422 else []
    return [(each["field"].partition("properties[spec]")[2], each["message"]) for each in found]


def ruled(schema: dict[str, Any], *rules: str) -> dict[str, Any]:
    """A schema with rules."""
    return {**schema, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}


def test_a_rule_over_lists_without_limits_is_refused(api: Api) -> None:
    lists = {"type": "array", "items": TEXT}
    ((path, message), (_, _), (_, total)) = refused(api, ruled(lists, "self.all(x, self.all(y, x == y))"))
    assert path == ".x-kubernetes-validations[0].rule"
    assert message == f"Forbidden: estimated rule cost exceeds budget by factor of more than 100x {ADVICE}"
    name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    assert total == f"Forbidden: {name} exceeds budget by factor of more than 100x {ADVICE}"


@pytest.mark.parametrize(("most", "factor"), [(1000, ""), (1200, "1.008600x"), (1400, "1.372700x"), (3000, "6.3x")])
def test_a_limit_on_a_list_bounds_the_cost_of_its_rules(api: Api, most: int, factor: str) -> None:
    lists = {"type": "array", "maxItems": most, "items": {"type": "string", "maxLength": 5}}
    found = [message for path, message in refused(api, ruled(lists, "self.all(x, self.all(y, x == y))")) if path]
    assert [message for message in found if "rule cost exceeds" in message] == (
        [f"Forbidden: estimated rule cost exceeds budget by factor of {factor} {ADVICE}"] if factor else []
    )


def test_a_rule_counts_for_each_value_that_it_is_applied_to(api: Api) -> None:
    item = ruled({"type": "string", "maxLength": 1000}, "self.matches('^[a-z]+[0-9]+[a-z]+$')")
    assert refused(api, {"type": "array", "maxItems": 1000, "items": item}) == []
    ((path, message),) = refused(api, {"type": "array", "maxItems": 9000, "items": item})
    assert path == ".items.x-kubernetes-validations[0].rule"
    assert "estimated rule cost exceeds budget by factor of 1.8x" in message


def test_a_rule_in_a_list_without_a_limit_counts_for_all_that_fit_into_a_request(api: Api) -> None:
    item = ruled({"type": "string", "maxLength": 1000}, "self.matches('^[a-z]+$')")
    found = refused(api, {"type": "array", "items": item})
    assert found[0][0] == ".items.x-kubernetes-validations[0].rule"
    assert "estimated rule cost exceeds budget by factor of 84.2x" in found[0][1]
    assert "exceeds budget by factor of 8.4x" in found[-1][1]


def test_a_message_has_a_cost_too(api: Api) -> None:
    lists = {"type": "array", "maxItems": 3000, "items": {"type": "string", "maxLength": 5}}
    expression = "self.all(x, self.all(y, x == y)) ? 'a' : 'b'"
    schema = {**lists, "x-kubernetes-validations": [{"rule": "true", "messageExpression": expression}]}
    found = refused(api, schema)
    assert found[0][0] == ".x-kubernetes-validations[0].messageExpression"
    assert "estimated messageExpression cost exceeds budget by factor of 6.3x" in found[0][1]


def test_rules_that_cost_too_much_together_are_named_by_their_cost(api: Api) -> None:
    lists = {"type": "array", "maxItems": 1150, "items": {"type": "string", "maxLength": 5}}
    rule = "self.all(x, self.all(y, x == y))"
    parts = {name: ruled(lists, rule) for name in "abcdefghijk"}
    parts["z"] = ruled({"type": "integer"}, "self > 0")
    found = refused(api, {"type": "object", "properties": parts})
    words = "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    assert [message for _, message in found[:4]] == [words] * 4
    name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    assert found[4:] == [("", f"Forbidden: {name} exceeds budget by factor of 1.018958x {ADVICE}")]


def test_rules_that_an_older_server_accepted_do_not_hold_up_other_changes(api: Api) -> None:
    lists = {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5}}
    body = trees({"type": "object", "properties": {"spec": ruled(lists, "self.all(x, self.all(y, x == y))")}})
    path = f"{DEFINITIONS}/{api.good('POST', DEFINITIONS, body)['metadata']['name']}"
    stored = api.backend.store.get(f"/apiextensions.k8s.io/customresourcedefinitions/{path.rpartition('/')[2]}")
    assert stored is not None
    costly = stored.value.replace(b'"maxItems":5', b'"maxItems":500000')
    assert costly != stored.value
    old = b'"resourceVersion":"%d"' % stored.revision
    api.run(
        api.backend.store.write(
            stored.key, stored.revision, lambda revision: costly.replace(old, b'"resourceVersion":"%d"' % revision)
        )
    )
    made = api.good("GET", path)
    made["spec"]["names"]["shortNames"] = ["tr"]
    api.good("PUT", path, made)
    made = api.good("GET", path)
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["other"] = TEXT
    assert "estimated rule cost exceeds budget" in api.ask("PUT", path, made).body["message"]
