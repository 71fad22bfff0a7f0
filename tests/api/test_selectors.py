"""Selectors, node terms and tolerations: their canonical forms, and what they match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.core import NodeSelector, NodeSelectorTerm, Taint, Toleration
from kilauea.api.meta import LabelSelector, SelectorRequirement
from kilauea.api.selectors import (
    INVALID,
    LABEL_OPERATORS,
    NODE_OPERATORS,
    NodeTerm,
    Requirement,
    Selector,
    TaintKey,
    field_problem,
    int64,
    is_label_key,
    matches,
    node_term_matches,
    node_term_of,
    node_terms_of,
    requirement_matches_value,
    requirement_problem,
    selector_of,
    selector_of_labels,
    taint_of,
    tolerates,
    toleration_of,
    untolerated,
)


def req(key: str, operator: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key=key, operator=operator, values=list(values) or None)


def selector(*requirements: SelectorRequirement, **labels: str) -> Selector | None:
    return selector_of(LabelSelector(match_labels=labels or None, match_expressions=list(requirements) or None))


@pytest.mark.parametrize(
    ("requirement", "value", "holds"),
    [
        pytest.param(req("a", "In", "x", "y"), "y", True, id="In holds for one of the values"),
        pytest.param(req("a", "In", "x"), "z", False, id="In fails for another value"),
        pytest.param(req("a", "In", "x"), None, False, id="In fails without the label"),
        pytest.param(req("a", "In", ""), "", True, id="In holds for the empty value"),
        pytest.param(req("a", "In", ""), None, False, id="the empty value is not an absent label"),
        pytest.param(req("a", "In"), "x", False, id="In without values never holds"),
        pytest.param(req("a", "NotIn", "x"), "z", True, id="NotIn holds for another value"),
        pytest.param(req("a", "NotIn", "x"), None, True, id="NotIn holds without the label"),
        pytest.param(req("a", "NotIn", "x"), "x", False, id="NotIn fails for the value"),
        pytest.param(req("a", "NotIn"), "x", False, id="NotIn without values never holds"),
        pytest.param(req("a", "Exists"), "", True, id="Exists holds for any value"),
        pytest.param(req("a", "Exists"), None, False, id="Exists fails without the label"),
        pytest.param(req("a", "Exists", "x"), "x", False, id="Exists with values never holds"),
        pytest.param(req("a", "DoesNotExist"), None, True, id="DoesNotExist holds without the label"),
        pytest.param(req("a", "DoesNotExist"), "x", False, id="DoesNotExist fails with it"),
        pytest.param(req("a", "DoesNotExist", "x"), None, False, id="DoesNotExist with values never holds"),
        pytest.param(req("a", "in", "x"), "x", False, id="an unknown operator never holds"),
        pytest.param(req("a", "NotIn", "no label!"), "x", False, id="a value that no label can have is an error"),
        pytest.param(req("", "DoesNotExist"), None, False, id="an empty key is an error"),
    ],
)
def test_label_requirement(requirement: SelectorRequirement, value: str | None, holds: bool) -> None:
    labels = {} if value is None else {"a": value}
    assert matches(selector(requirement), labels) is holds
    term = node_term_of(NodeSelectorTerm(match_expressions=[requirement]))
    assert node_term_matches(term, labels, "n1") is holds


@pytest.mark.parametrize(
    ("requirement", "value", "holds"),
    [
        pytest.param(req("a", "Gt", "5"), "6", True, id="Gt holds above"),
        pytest.param(req("a", "Gt", "5"), "5", False, id="Gt fails at the bound"),
        pytest.param(req("a", "Lt", "5"), "4", True, id="Lt holds below"),
        pytest.param(req("a", "Lt", "5"), "5", False, id="Lt fails at the bound"),
        pytest.param(req("a", "Lt", "5"), None, False, id="Lt needs the label"),
        pytest.param(req("a", "Gt", "5"), "10", True, id="numbers compare as numbers"),
        pytest.param(req("a", "Lt", "5"), "x", False, id="the label must be an integer"),
        pytest.param(req("a", "Lt", "5"), "1.5", False, id="a fraction is not an integer"),
        pytest.param(req("a", "Lt", "x"), "1", False, id="the bound must be an integer"),
        pytest.param(req("a", "Gt", "1", "2"), "5", False, id="there must be one bound"),
        pytest.param(req("a", "Gt"), "5", False, id="there must be a bound"),
        pytest.param(req("a", "Gt", "5"), "9223372036854775807", True, id="the largest 64-bit integer"),
        pytest.param(req("a", "Gt", "5"), "9223372036854775808", False, id="beyond 64 bits there is no integer"),
        pytest.param(req("a", "Gt", "5"), "1_0", False, id="underscores are not digits"),
        pytest.param(req("a", "Gt", "-5"), "1", False, id="a minus sign cannot be in a label value"),
    ],
)
def test_comparison_on_a_node(requirement: SelectorRequirement, value: str | None, holds: bool) -> None:
    labels = {} if value is None else {"a": value}
    term = node_term_of(NodeSelectorTerm(match_expressions=[requirement]))
    assert node_term_matches(term, labels, "n1") is holds


def test_comparisons_are_no_label_selector_operators() -> None:
    assert not matches(selector(req("a", "Gt", "5")), {"a": "6"})


def test_no_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert selector_of(None) is None
    assert not matches(None, {})
    assert selector_of(LabelSelector()) == ()
    assert matches((), {})
    assert matches((), {"a": "b"})


def test_labels_and_expressions_must_all_hold() -> None:
    wanted = selector(req("tier", "Exists"), app="web")
    assert matches(wanted, {"app": "web", "tier": "x"})
    assert not matches(wanted, {"app": "web"})
    assert not matches(wanted, {"app": "db", "tier": "x"})


def test_one_bad_requirement_makes_a_selector_match_nothing() -> None:
    assert not matches(selector(req("b", "Oops"), app="web"), {"app": "web", "b": "x"})


def test_canonical_form_does_not_depend_on_order_repetition_or_spelling() -> None:
    one = selector(req("b", "In", "y", "x", "y"), req("c", "Exists"), a="1")
    other = selector(req("c", "Exists"), req("a", "In", "1"), req("b", "In", "x", "y"), req("c", "Exists"))
    assert one == other
    assert one == (Requirement("a", "In", ("1",)), Requirement("b", "In", ("x", "y")), Requirement("c", "Exists", ()))
    assert hash(one) == hash(other)


def test_plain_labels_become_a_selector_for_all_of_them() -> None:
    wanted = selector_of_labels({"b": "2", "a": "1"})
    assert wanted == (Requirement("a", "In", ("1",)), Requirement("b", "In", ("2",)))
    assert matches(wanted, {"a": "1", "b": "2", "c": "3"})
    assert not matches(wanted, {"a": "1"})


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["x", "y", "5"]), max_size=3)
REQUIREMENTS = st.builds(
    req,
    st.sampled_from("abc"),
    st.sampled_from([*sorted(NODE_OPERATORS), "Oops"]),
)
VALUED = st.tuples(REQUIREMENTS, st.lists(st.sampled_from(["x", "y", "5", "7"]), max_size=2)).map(
    lambda pair: req(pair[0].key, pair[0].operator, *pair[1])
)


@given(LABELS, VALUED)
def test_not_in_and_does_not_exist_are_the_opposites_of_in_and_exists(
    labels: dict[str, str], requirement: SelectorRequirement
) -> None:
    opposite = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}
    if requirement_problem(requirement, LABEL_OPERATORS):
        assert not matches(selector(requirement), labels)
    else:
        other = req(requirement.key, opposite[requirement.operator], *requirement.values or ())
        assert matches(selector(requirement), labels) is not matches(selector(other), labels)


@given(LABELS, st.lists(VALUED, max_size=4))
def test_a_selector_is_the_conjunction_of_its_requirements(
    labels: dict[str, str], requirements: list[SelectorRequirement]
) -> None:
    assert matches(selector(*requirements), labels) is all(matches(selector(each), labels) for each in requirements)


@given(LABELS, st.lists(VALUED, min_size=1, max_size=3))
def test_a_node_term_can_be_judged_value_by_value(
    labels: dict[str, str], requirements: list[SelectorRequirement]
) -> None:
    term = node_term_of(NodeSelectorTerm(match_expressions=requirements))
    by_value = all(requirement_matches_value(each, labels.get(each.key)) for each in term.expressions)
    assert node_term_matches(term, labels, "n1") is by_value


def test_no_node_selector_is_none_and_one_without_terms_is_empty() -> None:
    assert node_terms_of(None) is None
    assert node_terms_of(NodeSelector()) == ()


def test_node_terms_keep_their_order() -> None:
    terms = [NodeSelectorTerm(match_expressions=[req(key, "Exists")]) for key in "ba"]
    assert node_terms_of(NodeSelector(node_selector_terms=terms)) == (
        NodeTerm((Requirement("b", "Exists", ()),), ()),
        NodeTerm((Requirement("a", "Exists", ()),), ()),
    )


def test_an_empty_node_term_matches_no_node() -> None:
    assert not node_term_matches(node_term_of(NodeSelectorTerm()), {"a": "b"}, "n1")
    assert not node_term_matches(node_term_of(None), {}, "n1")


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        pytest.param(req("metadata.name", "In", "n1"), True, id="In the node's name"),
        pytest.param(req("metadata.name", "In", "n2"), False, id="In another name"),
        pytest.param(req("metadata.name", "NotIn", "n2"), True, id="NotIn another name"),
        pytest.param(req("metadata.name", "NotIn", "n1"), False, id="NotIn the node's name"),
        pytest.param(req("metadata.name", "In", "n1", "n2"), False, id="two names are an error"),
        pytest.param(req("metadata.name", "NotIn", "n2", "n3"), False, id="two names are an error with NotIn"),
        pytest.param(req("metadata.name", "Exists"), False, id="other operators are an error"),
        pytest.param(req("metadata.uid", "NotIn", "x"), False, id="other fields are an error"),
    ],
)
def test_match_fields(requirement: SelectorRequirement, holds: bool) -> None:
    term = node_term_of(NodeSelectorTerm(match_fields=[requirement]))
    assert node_term_matches(term, {}, "n1") is holds
    assert (field_problem(requirement) is None) is (term.fields[0].operator != INVALID)


def test_labels_and_fields_of_a_node_term_must_both_hold() -> None:
    term = node_term_of(
        NodeSelectorTerm(match_expressions=[req("a", "Exists")], match_fields=[req("metadata.name", "In", "n1")])
    )
    assert node_term_matches(term, {"a": ""}, "n1")
    assert not node_term_matches(term, {}, "n1")
    assert not node_term_matches(term, {"a": ""}, "n2")


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        (req("a", "in", "x"), '"in" is not an operator: use one of DoesNotExist, Exists, In, NotIn'),
        (req("-a", "Exists"), '"-a" is not a label key: use a name such as app or example.com/app'),
        (req("a", "In"), "In without values: give at least one value"),
        (req("a", "Exists", "x"), "Exists with values: leave the values out"),
        (req("a", "In", "a b"), '"a b" is not a label value: use at most 63 letters, digits, "-", "_", "."'),
    ],
)
def test_problem_names_the_value_and_the_fix(requirement: SelectorRequirement, message: str) -> None:
    assert requirement_problem(requirement, LABEL_OPERATORS) == message


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        (req("metadata.uid", "In", "x"), '"metadata.uid" is not a field that can be selected: use metadata.name'),
        (req("metadata.name", "Exists", "x"), '"Exists" is not an operator for fields: use In or NotIn'),
        (req("metadata.name", "NotIn"), "NotIn needs exactly one value here"),
        (req("metadata.name", "In", "x", "y"), "In needs exactly one value here"),
    ],
)
def test_problem_of_a_field_names_the_value_and_the_fix(requirement: SelectorRequirement, message: str) -> None:
    assert field_problem(requirement) == message


@pytest.mark.parametrize(
    "requirement",
    [
        Requirement("metadata.uid", "NotIn", ("x",)),
        Requirement("metadata.name", "NotIn", ("x", "y")),
        Requirement("metadata.name", "Exists", ("n1",)),
    ],
)
def test_a_field_condition_made_by_hand_is_judged_as_strictly(requirement: Requirement) -> None:
    assert not node_term_matches(NodeTerm((), (requirement,)), {}, "n1")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775808", -(2**63)),
        ("-9223372036854775809", None),
        ("+007", 7),
        ("", None),
        (" 1", None),
        ("1.0", None),
        ("9" * 50, None),
    ],
)
def test_64_bit_integers(text: str, number: int | None) -> None:
    assert int64(text) == number


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("app", True),
        ("app.kubernetes.io/name", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("", False),
        ("a/b/c", False),
        ("/a", False),
        ("a/", False),
        ("Upper.com/a", False),
        ("a\n", False),
    ],
)
def test_label_keys(key: str, valid: bool) -> None:
    assert is_label_key(key) is valid


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param(Toleration(key="k", value="v"), True, id="no operator means Equal"),
        pytest.param(Toleration(key="k", operator="Equal", value="v"), True, id="equal key and value"),
        pytest.param(Toleration(key="k", operator="Equal", value="w"), False, id="another value"),
        pytest.param(Toleration(key="j", operator="Equal", value="v"), False, id="another key"),
        pytest.param(Toleration(key="k", operator="Exists"), True, id="Exists covers any value"),
        pytest.param(Toleration(key="j", operator="Exists"), False, id="Exists of another key"),
        pytest.param(Toleration(operator="Exists"), True, id="Exists without key covers everything"),
        pytest.param(Toleration(operator="Equal", value="v"), True, id="Equal without key compares the value"),
        pytest.param(Toleration(operator="Equal", value="w"), False, id="Equal without key and another value"),
        pytest.param(Toleration(key="k", value="v", effect="NoSchedule"), True, id="the same effect"),
        pytest.param(Toleration(key="k", value="v", effect="NoExecute"), False, id="another effect"),
        pytest.param(Toleration(operator="Exists", effect="NoExecute"), False, id="Exists with another effect"),
        pytest.param(Toleration(key="k", operator="Gt", value="1"), False, id="Gt covers nothing"),
        pytest.param(Toleration(key="k", operator="Lt", value="v"), False, id="Lt covers nothing"),
        pytest.param(Toleration(key="k", operator="exists"), False, id="an unknown operator covers nothing"),
    ],
)
def test_toleration_of_the_taint_k_equal_v_no_schedule(toleration: Toleration, tolerated: bool) -> None:
    taint = taint_of(Taint(key="k", value="v", effect="NoSchedule"))
    assert tolerates(toleration_of(toleration), taint) is tolerated


def test_a_taint_without_value_has_the_empty_one() -> None:
    taint = taint_of(Taint(key="k", effect="NoSchedule"))
    assert taint == TaintKey("k", "", "NoSchedule")
    assert tolerates(toleration_of(Toleration(key="k")), taint)


def test_the_first_untolerated_taint_with_one_of_the_effects_is_found() -> None:
    soft = TaintKey("soft", "", "PreferNoSchedule")
    tolerated = TaintKey("a", "", "NoSchedule")
    first, second = TaintKey("b", "", "NoExecute"), TaintKey("c", "", "NoSchedule")
    tolerations = [toleration_of(Toleration(key="a", operator="Exists"))]
    hard = ("NoSchedule", "NoExecute")
    assert untolerated([soft, tolerated, first, second], tolerations, hard) == first
    assert untolerated([soft, tolerated], tolerations, hard) is None
    assert untolerated([soft], [], ("PreferNoSchedule",)) == soft
