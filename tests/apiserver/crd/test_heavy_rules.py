"""Rules and patterns that are made to take long: they are evaluated elsewhere, or in linear time."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from kilauea.api.patterns import pattern_of
from kilauea.apiserver.crd.heavy_rules import apply_heavy_rule, is_heavy, shape_of_rule
from kilauea.apiserver.crd.rules import apply_rules, rules_of
from kilauea.apiserver.deferred import KNOWN, Deferred
from kilauea.apiserver.schema.accepting import applied
from support.api_core import Api

NESTED = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"


@pytest.mark.parametrize(
    ("rule", "shape"),
    [
        ("self.replicas <= self.max", (0, 0, False)),
        ("self.all(x, x > 0) && self.exists(x, x == 1)", (1, 2, False)),
        (NESTED, (3, 3, False)),
        ("self.all(x, (x.a).all(y, size(x.b.filter(z, z == y)) == 1))", (3, 3, False)),
        ("self.all(x, x != ').all(' && x != \".all(\")", (1, 1, False)),
        ("[self].map(a, a + a).map(a, a + a)", (1, 2, True)),
        ("self.text.find('(a+)+$') == ''", (1, 1, True)),
    ],
)
def test_the_shape_of_a_rule_is_how_it_can_grow(rule: str, shape: tuple[int, int, bool]) -> None:
    assert shape_of_rule(rule) == shape


def test_a_rule_is_heavy_by_what_it_goes_over() -> None:
    assert not is_heavy(NESTED, [1] * 10)
    assert is_heavy(NESTED, [1] * 400)
    assert is_heavy(NESTED.replace("self", f"[{', '.join(['1'] * 400)}]"), [])
    assert not is_heavy("self.all(x, x > 0)", [1] * 10_000)


def test_a_heavy_rule_is_asked_for_elsewhere_and_its_answer_counts() -> None:
    raw: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}
    node = rules_of({**raw, "x-kubernetes-validations": [{"rule": NESTED, "message": "too small"}]})
    assert node is not None
    with pytest.raises(Deferred) as caught:
        apply_rules(node, [1] * 60)
    question = caught.value.question
    for answer, words in [
        (apply_heavy_rule(question), []),
        (msgspec.json.encode({"holds": False, "error": ""}), ["Invalid value: too small"]),
        (b"", ["call cost exceeds limit for rule: too small"]),
    ]:
        token = KNOWN.set({question: answer})
        found = [each.message for each in apply_rules(node, [1] * 60)]
        KNOWN.reset(token)
        assert len(found) == len(words)
        assert all(word in message for word, message in zip(words, found, strict=True))


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a*)*b", "^([a-z]+[0-9]*)*$", "(x+x+)+y", "^([[:alpha:]]+)+$"])
def test_patterns_take_a_time_that_is_linear_in_the_text(pattern: str) -> None:
    start = time.monotonic()
    assert not pattern_of(pattern).search("a" * 20_000 + "x" * 10_000 + "!")
    assert time.monotonic() - start < 5.0


def test_classes_of_characters_are_read_as_re2_reads_them() -> None:
    assert pattern_of("^[[:alnum:]-]+$").search("a-1")
    assert not pattern_of("^[[:upper:]]$").search("a")


def test_a_pattern_that_re2_does_not_have_is_refused_and_in_a_stored_definition_left_out(api: Api) -> None:
    with pytest.raises(ValueError, match="invalid or unsupported Perl syntax"):
        pattern_of("(?=a)(a+)+$")
    assert applied("(?=a)(a+)+$").search("b")
    schema = {"type": "object", "properties": {"spec": {"type": "string", "pattern": "(?=a)(a+)+$"}}}
    definition = {
        "metadata": {"name": "trees.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "trees", "singular": "tree", "kind": "Tree", "listKind": "TreeList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    answer = api.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    assert answer.code == 422
    assert "must be a valid regular expression" in answer.body["message"]
