"""Rules and patterns that are made to take long: they are evaluated elsewhere, or in linear time."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from kilauea.api.patterns import pattern_of
from kilauea.apiserver.crd.rules import (
    LIGHT_COST,
    WORK_OF_CHARACTER,
    RuleNode,
    apply_heavy_rules,
    apply_rules,
    rules_of,
)
from kilauea.apiserver.deferred import KNOWN, Deferred
from kilauea.apiserver.heavy import Task, TooHeavy, TooManyWaiting
from kilauea.apiserver.heavy_tasks import AtOnce
from kilauea.apiserver.schema.accepting import applied
from support.api_core import Api
from support.definitions import DEFINITIONS, TREE, TREES, serve, trees

NESTED = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"


RAW: dict[str, Any] = {"type": "array", "items": {"type": "integer"}, "maxItems": 100}


def test_rules_that_cost_much_are_evaluated_elsewhere_and_the_answer_counts() -> None:
    node = rules_of({**RAW, "x-kubernetes-validations": [{"rule": NESTED, "message": "too small"}]})
    assert node is not None
    for value, words in [([1] * 40, []), ([1] * 100 + [-1], ["too small"])]:
        question = _question(node, value)
        token = KNOWN.set({question: apply_heavy_rules(question)})
        found = [each.message for each in apply_rules(node, value)]
        KNOWN.reset(token)
        assert found == [f"Invalid value: {word}" for word in words]


def test_what_costs_little_is_evaluated_at_once() -> None:
    node = rules_of({**RAW, "x-kubernetes-validations": [{"rule": "self.all(x, x > 0)"}]})
    assert node is not None
    assert apply_rules(node, [1] * 5000) == []


def test_a_rule_beyond_the_cost_of_a_call_ends_all_validation() -> None:
    rules = [{"rule": NESTED}, {"rule": "self.size() == 0", "message": "never reached"}]
    node = rules_of({**RAW, "x-kubernetes-validations": rules})
    assert node is not None
    question = _question(node, [1] * 400)
    (cause,) = msgspec.json.decode(apply_heavy_rules(question))
    assert cause[2] == (
        "Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will "
        f"be run due to call cost exceeds limit for rule: {NESTED}"
    )


@pytest.mark.slow
def test_rules_of_an_object_beyond_their_cost_together_end_all_validation() -> None:
    rule = {"rule": "self.all(a, self.all(b, a + b < 0 || a + b > 0))"}
    node = rules_of({"type": "object", "additionalProperties": {**RAW, "x-kubernetes-validations": [rule]}})
    assert node is not None
    value = {str(number): [1] * 220 for number in range(40)}
    found = msgspec.json.decode(apply_heavy_rules(_question(node, value)))
    assert [each[2] for each in found] == [
        'Invalid value: "array": validation failed due to running out of cost budget, no further validation rules will '
        "be run"
    ]


def test_work_that_takes_too_long_elsewhere_refuses_the_object() -> None:
    node = rules_of({**RAW, "x-kubernetes-validations": [{"rule": NESTED}]})
    assert node is not None
    token = KNOWN.set({_question(node, [1] * 400): b""})
    (cause,) = apply_rules(node, [1] * 400)
    KNOWN.reset(token)
    assert "running out of cost budget" in cause.message


class Counted(AtOnce):
    """Notes the questions of rules that are evaluated elsewhere."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.questions: list[bytes] = []

    async def run(self, task: Task, data: bytes) -> bytes:
        """Take two seconds of the API's time for each."""
        self.questions.append(data)
        self.api.now += 2_000_000
        return await super().run(task, data)


@pytest.mark.parametrize("name", [{"name": "oak"}, {"generateName": "oak-"}])
def test_rules_of_a_new_object_are_evaluated_elsewhere_once(api: Api, name: dict[str, str]) -> None:
    rules = [{"rule": "self.metadata.name.startsWith('oak') && self.kind == 'Tree'"}]
    numbers = {**RAW, "x-kubernetes-validations": [{"rule": NESTED}]}
    serve(api, trees({"type": "object", "properties": {"numbers": numbers}, "x-kubernetes-validations": rules}))
    heavy = api.backend.heavy = Counted(api)
    made = api.good("POST", TREES, {**TREE, "metadata": name, "numbers": [1] * 40})
    made["numbers"] = [1] * 41
    api.good("PUT", f"{TREES}/{made['metadata']['name']}", made)
    assert len(heavy.questions) == 2


def many_rules(count: int, *more: str) -> dict[str, Any]:
    """The definition of trees with a rule for each of so many fields, and more."""
    texts = [f"self != 'a{number}'" for number in range(count)]
    fields = {
        f"f{number}": {"type": "string", "maxLength": 20, "x-kubernetes-validations": [{"rule": text}]}
        for number, text in enumerate([*texts, *more])
    }
    return trees({"type": "object", "properties": fields})


def test_a_definition_with_many_rules_is_checked_elsewhere_once(api: Api) -> None:
    heavy = api.backend.heavy = Counted(api)
    answer = api.ask("POST", DEFINITIONS, many_rules(300, "self.unheard()"))
    assert answer.code == 422
    assert "properties[f300].x-kubernetes-validations[0].rule" in answer.body["details"]["causes"][0]["field"]
    made = api.good("POST", DEFINITIONS, many_rules(300))
    made["spec"] = many_rules(301)["spec"]
    api.good("PUT", f"{DEFINITIONS}/trees.example.com", made)
    assert len(heavy.questions) == 3


def test_a_large_schema_is_checked_elsewhere_and_a_small_one_at_once(api: Api) -> None:
    heavy = api.backend.heavy = Counted(api)
    fields = {f"f{number}": {"type": "string", "description": "a" * 100} for number in range(1000)}
    api.good("POST", DEFINITIONS, trees({"type": "object", "properties": fields}))
    assert len(heavy.questions) == 1
    made = api.good("GET", f"{DEFINITIONS}/trees.example.com")
    made["spec"] = many_rules(10)["spec"]
    api.good("PUT", f"{DEFINITIONS}/trees.example.com", made)
    assert len(heavy.questions) == 1


def test_a_definition_that_takes_too_long_to_check_is_refused(api: Api) -> None:
    api.backend.heavy = Refusing(TooHeavy("slow"))
    answer = api.ask("POST", DEFINITIONS, many_rules(300))
    assert answer.code == 422
    assert "spec: Forbidden: it takes too long to check: use fewer or shorter" in answer.body["message"]


def test_rules_are_compiled_bit_by_bit_and_elsewhere_until_they_are(api: Api) -> None:
    count = LIGHT_COST // WORK_OF_CHARACTER // len("self != 'a100'") * 2
    serve(api, many_rules(count))
    heavy = api.backend.heavy = Counted(api)
    values = {f"f{each}": "b" for each in range(count)}
    for number in range(6):
        api.good("POST", TREES, {**TREE, "metadata": {"name": f"oak-{number}"}, **values})
        bad = api.ask("POST", TREES, {**TREE, "metadata": {"name": "bad"}, **values, f"f{count - 1}": f"a{count - 1}"})
        assert bad.body["details"]["causes"][0]["field"] == f"f{count - 1}"
    elsewhere = len(heavy.questions)
    assert 0 < elsewhere < 12
    api.good("POST", TREES, {**TREE, "metadata": {"name": "last"}, **values})
    assert len(heavy.questions) == elsewhere


class Refusing(AtOnce):
    """Does no work."""

    def __init__(self, error: TooHeavy) -> None:
        self.error = error

    async def run(self, task: Task, data: bytes) -> bytes:
        """Raise the error."""
        raise self.error


@pytest.mark.parametrize(("error", "code"), [(TooHeavy("slow"), 422), (TooManyWaiting("later"), 429)])
def test_an_object_is_refused_for_slow_rules_and_put_off_while_too_much_work_waits(
    api: Api, error: TooHeavy, code: int
) -> None:
    numbers = {**RAW, "x-kubernetes-validations": [{"rule": NESTED}]}
    serve(api, trees({"type": "object", "properties": {"numbers": numbers}}))
    api.backend.heavy = Refusing(error)
    assert api.ask("POST", TREES, {**TREE, "metadata": {"name": "oak"}, "numbers": [1] * 40}).code == code


@pytest.mark.parametrize("size", [400, 3000])
def test_no_rule_holds_up_other_requests_for_long(size: int) -> None:
    node = rules_of({**RAW, "x-kubernetes-validations": [{"rule": NESTED}]})
    assert node is not None
    value = [1] * size
    taken = []
    for _ in range(5):
        start = time.process_time()
        with pytest.raises(Deferred):
            apply_rules(node, value)
        taken.append(time.process_time() - start)
    assert min(taken) < 0.05


def _question(node: RuleNode, value: Any) -> bytes:
    with pytest.raises(Deferred) as caught:
        apply_rules(node, value)
    return caught.value.question


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
    answer = api.ask("POST", DEFINITIONS, trees(schema))
    assert answer.code == 422
    assert "must be a valid regular expression" in answer.body["message"]
