"""Regular expressions of HyperNodes: they mean what they mean to `re`, and never take long."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api import patterns
from kilauea.api.patterns import LONGEST, pattern_of

LONGEST_NAME = 253


def is_automaton(text: str) -> bool:
    return not isinstance(pattern_of(text), re.Pattern)


# --- what they mean

ATOMS = st.sampled_from(
    ["a", "b", "-", "1", ".", "[ab]", "[^a]", "[a-c1]", r"\d", r"\w", r"\W", r"[\s\d]", "", "^", "$"]
)
PLACES = st.sampled_from([r"\b", r"\B", r"\A", r"\Z"])
COUNTS = st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "??", "{0}", "{3,4}?"])


def _more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.builds("{}{})".format, st.sampled_from(["(", "(?:", "(?i:", "(?P<x>"]), inner)
    repeats = st.builds("(?:{}){}".format, inner, COUNTS)
    branches = st.builds("(?:{}|{})".format, inner, inner)
    return groups | repeats | branches | st.builds("{}{}".format, inner, inner)


EXPRESSIONS = st.recursive(ATOMS | PLACES, _more, max_leaves=8)


@given(EXPRESSIONS, st.lists(st.text("ab-1AB", min_size=1, max_size=7), min_size=1, max_size=5))
def test_an_automaton_finds_what_re_finds(text: str, names: list[str]) -> None:
    try:
        expected = [bool(re.search(text, name, re.ASCII)) for name in names]
    except re.error:
        with pytest.raises(ValueError, match=r"."):
            pattern_of(text)
        return
    tree = patterns._parser.parse(text, re.ASCII)
    flags = tree.state.flags & patterns._KEPT_FLAGS
    automaton = patterns._Automaton(patterns._Program(tree, flags).steps)
    assert [automaton.search(name) for name in names] == expected
    assert [bool(pattern_of(text).search(name)) for name in names] == expected


@pytest.mark.parametrize(
    ("text", "found", "passed_over"),
    [
        ("^n[0-9]+$", ["n1", "n10"], ["an1", "n1a", "n"]),
        ("rack-(a|b)-[0-9]+-.*x$", ["rack-a-1-x", "my-rack-b-22-xx"], ["rack-c-1-x", "rack-a--x"]),
        ("(?i)^GPU-(x|y)*(z|w)$", ["gpu-xyz", "GPU-W"], ["gpu-", "gpu-xyzx"]),
        (r"(a|b|c|d)+\b-(\w|\.)*\Z", ["abcd-node.1"], ["abcd_-node", "e-node"]),
        ("^(a.c|x[^y-]z|[^q]q)*$", ["abcxaz", ""], ["xyz", "x-z", "qq"]),
        (".*", ["", "n"], []),
        ("(?:a?){30}a{30}", ["a" * 30, "a" * 60], ["a" * 29]),
        ("((?:){900}x?){900}y", ["y", "xy"], ["x"]),
        (r"((?:\n|a)*b)*$", ["ab", "c"], []),
    ],
)
def test_what_a_pattern_finds(text: str, found: list[str], passed_over: list[str]) -> None:
    pattern = pattern_of(text)
    for _ in range(2):
        assert [name for name in found + passed_over if pattern.search(name)] == found


def test_digits_and_letters_are_those_of_ascii_as_in_the_original() -> None:
    assert not pattern_of(r"^\d$").search("\u0663")
    assert not pattern_of(r"(^\w$)+").search("\u00e9")


# --- how long they take


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+$",
        "(a|a)*$",
        "(a|b|ab)*c",
        "(.*)*x",
        ".*.*.*.*.*.*=",
        "a*a*a*a*a*a*b",
        "(?:a?){100}a{100}b",
        "a?" * 100 + "a" * 100 + "b",
        "(a|a)" * 100 + "b",
        r"^(([a-z])+.)+[A-Z]([a-z])+$",
        "(x+x+)+y",
        "((a*)*)*b",
        "(.{0,60}-){0,5}$x",
        r"(\b|a)*\B\b",
    ],
)
def test_no_pattern_takes_long_on_the_longest_name(text: str) -> None:
    pattern = pattern_of(text)
    names = ["a" * (LONGEST_NAME - 1) + "!", "x" * LONGEST_NAME, ("ab-" * LONGEST_NAME)[:LONGEST_NAME]]
    started = time.process_time()
    for name in names:
        pattern.search(name)
    assert time.process_time() - started < 2


def test_an_automaton_forgets_states_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MOST_STATES", 5)
    text, names = "(a|b)*a(a|b){4}$", ["".join(f"{i:08b}").replace("0", "a").replace("1", "b") for i in range(256)]
    pattern = patterns._Automaton(patterns._Program(patterns._parser.parse(text), 0).steps)
    assert [bool(pattern.search(name)) for name in names] == [bool(re.search(text, name)) for name in names]
    assert len(pattern._states) < 50


@pytest.mark.parametrize("text", ["^n[0-9]+$", "n.*-x?", "node-(1|2)", "a{3}"])
def test_patterns_that_leave_little_choice_go_to_re(text: str) -> None:
    assert not is_automaton(text)


@pytest.mark.parametrize("text", ["(a+)+", "a*b*c*", "(ab|ba){2}", "(?:a??){2}", "a?b?c?"])
def test_patterns_that_leave_much_choice_become_automata(text: str) -> None:
    assert is_automaton(text)


# --- what is refused


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", "missing \\)"),
        ("*", "nothing to repeat"),
        ("[a", "unterminated"),
        (r"(a)\1", "a reference to a group, which RE2 does not have"),
        ("(?=a)b", "look-around"),
        ("(?<!a)b", "look-around"),
        ("(a)?(?(1)b|c)", "a reference to a group"),
        ("[[:digit:]]", "nested set"),
        (r"\pL", "bad escape"),
        ("a{1001}", "more than 1000 times"),
        ("(?:a{0,1001})*", "more than 1000 times"),
        ("a{99999999999999999999}", "too large"),
        ("(?:(ab|ba){900}){900}", "more than 2000 steps"),
        ("(?u)a", "incompatible"),
        ("a" * (LONGEST + 1), "longer than 4096 characters"),
        ("(" * 2000 + ")" * 2000, "nested too deep"),
    ],
)
def test_a_pattern_that_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        pattern_of(text)


@given(st.text("()[]{}*+?|^$\\.-:=!<>P#ab019,", max_size=12) | st.text(max_size=8))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        pattern_of(text).search("node-1")
