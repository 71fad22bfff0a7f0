"""Regular expressions in objects: they mean what they mean to RE2, and never take long."""

from __future__ import annotations

import time

import pytest

from kilauea.api.patterns import LONGEST, find_all, pattern_of

LONGEST_NAME = 253


@pytest.mark.parametrize(
    ("text", "found", "passed_over"),
    [
        ("^n[0-9]+$", ["n1", "n10"], ["an1", "n1a", "n"]),
        ("rack-(a|b)-[0-9]+-.*x$", ["rack-a-1-x", "my-rack-b-22-xx"], ["rack-c-1-x", "rack-a--x"]),
        ("(?i)^GPU-(x|y)*(z|w)$", ["gpu-xyz", "GPU-W"], ["gpu-", "gpu-xyzx"]),
        (r"(a|b|c|d)+\b-(\w|\.)*\z", ["abcd-node.1"], ["abcd_-node", "e-node"]),
        ("^(a.c|x[^y-]z|[^q]q)*$", ["abcxaz", ""], ["xyz", "x-z", "qq"]),
        (".*", ["", "n"], []),
        ("a$", ["a", "ba"], ["a\n"]),
        ("^[[:alnum:]]+$", ["n1"], ["n-1"]),
        (r"^\pL+$", ["\u00e9", "a"], ["1"]),
        (r"\Qa.b\E", ["xa.b"], ["a1b"]),
        ("(?i)gpu", ["GPU-1"], ["cpu"]),
        ("(?s)a.b", ["a\nb"], ["ab"]),
        (r"(?P<x>a)\z", ["ba"], ["ab"]),
        ("(?:a?){30}a{30}", ["a" * 30, "a" * 60], ["a" * 29]),
        (r"((?:\n|a)*b)*$", ["ab", "c"], []),
    ],
)
def test_what_a_pattern_finds(text: str, found: list[str], passed_over: list[str]) -> None:
    pattern = pattern_of(text)
    assert [name for name in found + passed_over if pattern.search(name)] == found


def test_digits_and_letters_are_those_of_ascii_as_in_the_original() -> None:
    assert not pattern_of(r"^\d$").search("\u0663")
    assert not pattern_of(r"(^\w$)+").search("\u00e9")


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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", "missing closing ): `(`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("[a", "missing closing ]: `[a`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("a)", "unexpected ): `a)`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("(?=a)b", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)b", "invalid or unsupported Perl syntax: `(?<!`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(?:a{900}){900}", "invalid repeat count: `{900}`"),
        ("x" * (LONGEST + 1), f"expression too large: it is longer than {LONGEST} characters"),
    ],
)
def test_a_pattern_is_refused_in_the_words_of_kubernetes(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        pattern_of(text)
    assert str(refused.value) == f"error parsing regexp: {why}"


def test_all_matches_are_found_in_order() -> None:
    assert find_all("[0-9]+", "a1b22c333") == ["1", "22", "333"]
