"""CEL rules: what they say against objects, and what is wrong with rules themselves."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kilauea.apiserver.crd.rule_checks import check_rules
from kilauea.apiserver.crd.rules import RuleNode, apply_rules, rules_of
from kilauea.apiserver.schema.rule_values import escaped
from kilauea.apiserver.status import LET_PASS


def node(raw: dict[str, Any]) -> RuleNode:
    found = rules_of({"type": "object", "properties": {"spec": raw}})
    assert found is not None
    return found


def ruled(rule: str, kind: str = "integer", **more: Any) -> dict[str, Any]:
    return {"type": kind, "x-kubernetes-validations": [{"rule": rule, **more}]}


@pytest.mark.parametrize(
    ("raw", "value", "causes"),
    [
        (ruled("self > 1"), 2, []),
        (ruled("self > 1"), 1, ["spec: Invalid value: 1: failed rule: self > 1"]),
        (ruled("self > 1", message="too small"), 1, ["spec: Invalid value: 1: too small"]),
        (ruled("self > 1", messageExpression="'is ' + string(self)"), 1, ["spec: Invalid value: 1: is 1"]),
        (ruled("self > 1", reason="FieldValueForbidden", message="no"), 1, ["spec: Forbidden: no"]),
        (ruled("self > 1", reason="FieldValueRequired", message="no"), 1, ["spec: Required value: no"]),
        (
            ruled("self / 0 == 1"),
            1,
            ['spec: Invalid value: "integer": division by zero evaluating rule: self / 0 == 1'],
        ),
        (
            ruled("self.a > 0", "object", message="no"),
            {},
            ['spec: Invalid value: "object": no such key: a evaluating rule: no'],
        ),
        (
            ruled("self.a < self.b", "object", message="no", fieldPath=".a"),
            {"a": 2, "b": 1},
            ["spec.a: Invalid value: no"],
        ),
        ({"type": "array", "items": ruled("self > 1")}, [2, 1], ["spec[1]: Invalid value: 1: failed rule: self > 1"]),
        (
            {"type": "object", "additionalProperties": ruled("self > 1")},
            {"k": 1},
            ["spec[k]: Invalid value: 1: failed rule: self > 1"],
        ),
        (ruled("quantity(self).isGreaterThan(quantity('500Mi'))", "string"), "1Gi", []),
        (ruled("self.sum() == 6 && self.isSorted()", "array"), [1, 2, 3], []),
        (ruled("self.lowerAscii().split(',').size() == 2", "string"), "A,B", []),
        (
            {**ruled("self < timestamp('2030-01-01T00:00:00Z')", "string"), "format": "date-time"},
            "2026-01-01T00:00:00Z",
            [],
        ),
        (
            {**ruled("self.__namespace__ == self.a__dash__b", "object"), "properties": {"namespace": {}, "a-b": {}}},
            {"namespace": "x", "a-b": "x"},
            [],
        ),
    ],
)
def test_rules_speak_of_values(raw: dict[str, Any], value: Any, causes: list[str]) -> None:
    assert [str(each) for each in apply_rules(node(raw), {"spec": value})] == causes


def test_a_rule_about_a_change_is_silent_on_creation_and_speaks_on_update() -> None:
    immutable = node(ruled("self == oldSelf", message="is immutable"))
    assert apply_rules(immutable, {"spec": 2}) == []
    assert apply_rules(immutable, {"spec": 2}, {"spec": 2}, has_old=True) == []
    (cause,) = apply_rules(immutable, {"spec": 2}, {"spec": 1}, has_old=True)
    assert str(cause) == "spec: Invalid value: 2: is immutable"


def test_items_of_a_list_with_keys_find_their_old_selves_wherever_they_stand() -> None:
    raw = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": ruled("self >= oldSelf")}},
    }
    old = {"spec": [{"k": "a", "v": 5}, {"k": "b", "v": 1}]}
    new = {"spec": [{"k": "b", "v": 2}, {"k": "a", "v": 4}, {"k": "c", "v": 0}]}
    assert [each.field for each in apply_rules(node(raw), new, old, has_old=True)] == ["spec[1].v"]


def test_what_an_update_keeps_breaks_only_rules_about_the_change() -> None:
    raw = {
        "type": "object",
        "properties": {"a": ruled("self == 1"), "b": ruled("self != oldSelf")},
        "additionalProperties": ruled("self == 1"),
    }
    old = {"spec": {"a": 2, "b": 2, "c": 2, "d": 2}}
    assert [each.field for each in apply_rules(node(raw), old)] == ["spec.a", "spec[c]", "spec[d]"]
    kept = apply_rules(node(raw), old, old, has_old=True)
    assert [each.field for each in kept if each.reason != LET_PASS] == ["spec.b"]
    assert [each.field for each in kept if each.reason == LET_PASS] == ["spec.a", "spec[c]", "spec[d]"]
    new = {"spec": {"a": 3, "b": 3, "c": 2, "d": 3, "e": 3}}
    changed = apply_rules(node(raw), new, old, has_old=True)
    assert [each.field for each in changed if each.reason != LET_PASS] == ["spec.a", "spec[d]", "spec[e]"]


def test_a_rule_that_cannot_be_read_is_refused_with_the_definition() -> None:
    (cause,) = check_rules(ruled("self > "), "p")
    assert cause.field == "p.x-kubernetes-validations[0].rule"
    assert "compilation failed: ERROR: <input>" in cause.message


def test_a_rule_that_a_stored_definition_should_not_have_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = rules_of(ruled("self.unheard()"), "widgets.example.com")
    assert found is not None
    assert apply_rules(found, 0) == []
    assert "widgets.example.com: a rule is not enforced" in caplog.text
    assert "undeclared reference to 'unheard'" in caplog.text


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("self.unheard()", "undeclared reference to 'unheard'"),
        ("other > 1", "undeclared reference to 'other'"),
        ("self.all(1, 2)", "argument must be a simple name"),
    ],
)
def test_a_rule_that_cannot_be_enforced_is_refused_with_the_definition(rule: str, words: str) -> None:
    (cause,) = check_rules(ruled(rule), "p")
    assert words in cause.message


def test_an_optional_old_self_lets_a_rule_speak_of_creation_and_change() -> None:
    raw = ruled("!oldSelf.hasValue() ? self == 1 : self >= oldSelf.value()", optionalOldSelf=True, message="no")
    assert list(check_rules(raw, "p")) == []
    found = node(raw)
    assert apply_rules(found, {"spec": 1}) == []
    assert [str(each) for each in apply_rules(found, {"spec": 2})] == ["spec: Invalid value: 2: no"]
    assert apply_rules(found, {"spec": 3}, {"spec": 2}, has_old=True) == []
    assert len(apply_rules(found, {"spec": 1}, {"spec": 2}, has_old=True)) == 1


def test_an_optional_old_self_that_is_not_used_is_refused() -> None:
    (cause,) = check_rules(ruled("self > 1", optionalOldSelf=True), "p")
    assert cause.field == "p.x-kubernetes-validations[0].optionalOldSelf"
    assert "may not be set if oldSelf is not used in rule" in cause.message


NUMBER, TEXT = {"type": "integer"}, {"type": "string", "maxLength": 20}


def numbers(rule: str) -> dict[str, Any]:
    """The schema of a map of numbers."""
    return {**ruled(rule, "object"), "additionalProperties": NUMBER, "maxProperties": 5}


def items(rule: str, item: dict[str, Any]) -> dict[str, Any]:
    """The schema of a list."""
    return {**ruled(rule, "array"), "items": item, "maxItems": 5}


@pytest.mark.parametrize(
    ("raw", "good", "bad"),
    [
        (numbers("self.all(k, v, k.startsWith('a') && v > 0)"), {"a": 1}, {"a": 0}),
        (items("sets.contains(['a', 'b'], self)", TEXT), ["a"], ["c"]),
        ({**ruled("self.?x.orValue(1) > 0", "object"), "properties": {"x": NUMBER}}, {}, {"x": 0}),
        ({**ruled("ip(self).family() == 4", "string"), "maxLength": 99}, "10.0.0.1", "::1"),
        ({**ruled("url(self).getScheme() == 'https'", "string"), "maxLength": 99}, "https://a", "http://a"),
        ({**ruled("!format.dns1123Label().validate(self).hasValue()", "string"), "maxLength": 99}, "a-b", "A"),
        (items("self.transformList(i, v, i + v) == [1, 2]", NUMBER), [1, 1], [1, 2]),
        (numbers("self.transformMap(k, v, v + 1) == {'a': 2}"), {"a": 1}, {"a": 2}),
        ({**ruled("self / 2.0 > 1.0", "number")}, 3, 1),
        ({**ruled("self < duration('1h')", "string"), "format": "duration"}, "30m", "2h"),
    ],
)
def test_rules_in_every_part_of_the_language_are_enforced(raw: dict[str, Any], good: Any, bad: Any) -> None:
    assert list(check_rules(raw, "p")) == []
    assert apply_rules(node(raw), {"spec": good}) == []
    assert len(apply_rules(node(raw), {"spec": bad})) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a-b", "a__dash__b"),
        ("namespace", "__namespace__"),
        ("a__b", "a__underscores__b"),
        ("a.b/c", "a__dot__b__slash__c"),
    ],
)
def test_fields_have_names_that_expressions_can_hold(name: str, text: str) -> None:
    assert escaped(name) == text


DESCRIBED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "a-b": {"type": "string"},
        "either": {"x-kubernetes-int-or-string": True},
        "parts": {"type": "array", "maxItems": 9, "items": {"type": "object", "properties": {"name": TEXT}}},
        "sizes": {
            "type": "object",
            "maxProperties": 9,
            "additionalProperties": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def errors(rule: str, *, whole: bool = False, **more: Any) -> list[str]:
    """The errors about a rule of an object, or of a part of one."""
    raw = {**DESCRIBED, "x-kubernetes-validations": [{"rule": rule, "message": "no", **more}]}
    found = check_rules(raw if whole else {"type": "object", "properties": {"spec": raw}}, "p")
    return [each.message for each in found]


@pytest.mark.parametrize(
    ("rule", "field", "column"),
    [
        ("self.z == 100", "z", 5),
        ("oldSelf.z == self.x", "z", 8),
        ("self.parts.all(p, p.alias != '')", "alias", 20),
        ("self.parts[0].alias != ''", "alias", 14),
        ("has(self.z) ? self.x > 1 : true", "z", 4),
        ("self.?z.orValue(1) == 1", "z", 5),
        ("self.open.anything == 1", "anything", 10),
        ("self.parts.filter(p, p.name != '')[0].anything == 1", "anything", 38),
        ("self.sizes['a'].m > 1", "m", 16),
        ("self.parts.exists(p, self.z == p.name)", "z", 26),
        ("cel.bind(p, self.parts[0], p.alias == '')", "alias", 29),
        ("self.apiVersion == 'v1'", "apiVersion", 5),
    ],
)
def test_a_rule_about_a_field_that_is_not_there_is_refused(rule: str, field: str, column: int) -> None:
    (message,) = errors(rule)
    words = f"compilation failed: ERROR: <input>:1:{column}: undefined field '{field}'"
    assert words in message


@pytest.mark.parametrize(
    "rule",
    [
        "self.x > 1 && oldSelf.x < 3",
        "self.a__dash__b == 'c'",
        "self.sizes.some.n > 1",
        "self.parts.all(self, self.name != '')",
        "self.parts.filter(p, p.name != '').all(self, self.name != '')",
        "self.parts.map(p, p.name).all(n, n.size() > 0)",
        "self.sizes.all(k, self.sizes[k].n > 0)",
        "self.either.anything == 1",
    ],
)
def test_a_rule_about_fields_that_are_or_may_be_there_is_let_in(rule: str) -> None:
    assert errors(rule) == []


def test_a_rule_of_a_whole_object_sees_its_kind_and_its_name() -> None:
    assert errors("self.kind != '' && self.apiVersion != '' && self.metadata.name != 'a'", whole=True) == []
    for rule, field in (("self.kinds != ''", "kinds"), ("has(self.metadata.uid)", "uid")):
        (message,) = errors(rule, whole=True)
        assert f"undefined field '{field}'" in message


def test_an_old_value_that_may_lack_has_the_fields_of_the_new_one() -> None:
    assert errors("oldSelf.hasValue() ? oldSelf.value().x == 1 : true", optionalOldSelf=True) == []
    (message,) = errors("oldSelf.hasValue() ? oldSelf.value().z == 1 : true", optionalOldSelf=True)
    assert "undefined field 'z'" in message


@pytest.mark.parametrize(
    ("rule", "column", "words"),
    [
        ("self.x == 'a'", 8, "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.x.contains('a')", 16, "found no matching overload for 'contains' applied to 'int.(string)'"),
        ("self.x + self.a__dash__b == 1", 8, "found no matching overload for '_+_' applied to '(int, string)'"),
        ("self.x && self.a__dash__b == ''", 5, "expected type 'bool' but found 'int'"),
        ("self.x.all(a, a > 1)", 5, "expression of type 'int' cannot be range of a comprehension"),
        ("self.x.y == 1", 7, "type 'int' does not support field selection"),
        ("self.parts[0].name == null", 20, "found no matching overload for '_==_' applied to '(string, null)'"),
        ("[1, 'a'].size() == 2", 5, "expected type 'int' but found 'string'"),
        ("self.x > 1 ? self.x : 'a'", 12, "found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
    ],
)
def test_a_rule_with_wrong_types_is_refused(rule: str, column: int, words: str) -> None:
    (message,) = errors(rule)
    assert f"compilation failed: ERROR: <input>:1:{column}: {words}" in message


def test_all_errors_of_a_rule_are_told_at_once() -> None:
    (message,) = errors("self.y == 1 && self.z == 2")
    assert "undefined field 'y'" in message
    assert "undefined field 'z'" in message


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"rule": "self.x"}, "cel expression must evaluate to a bool"),
        ({"rule": "true", "messageExpression": "self.x"}, "messageExpression must evaluate to a string"),
        ({"rule": "true", "messageExpression": "self.y"}, "messageExpression compilation failed: ERROR: <input>:1:5: "),
    ],
)
def test_expressions_have_the_type_that_is_wanted_of_them(more: dict[str, Any], words: str) -> None:
    (message,) = errors(**more)
    assert words in message
