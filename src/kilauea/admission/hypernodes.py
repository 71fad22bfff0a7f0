"""Hyper nodes: they have members, and the patterns of their members can be read.

Patterns are those of the scheduler's own reader, so that what is admitted is what will be understood.
"""

from __future__ import annotations

import re
from typing import Any

from kilauea.admission.review import Denied, Review, Settings
from kilauea.admission.wording import all_of, invalid
from kilauea.api.patterns import pattern_of
from kilauea.api.ports import Obj, View

# Paths begin with the empty name of the object, which field errors write so.
_MEMBERS = "[].spec.members"


def validate(review: Review, view: View, settings: Settings) -> list[str]:
    """Return the errors in a HyperNode.

    Raises:
        Denied: with all that is wrong.
    """
    members = ((review.obj or {}).get("spec") or {}).get("members") or []
    faults = [fault for member in members if (fault := _pattern_fault(member))]
    if not members:
        faults = [f"{_MEMBERS}: Invalid value: null: member must have at least one member"]
    if faults:
        raise Denied(all_of(faults))
    return []


def _pattern_fault(member: Obj) -> str:
    pattern = ((member.get("selector") or {}).get("regexMatch") or {}).get("pattern")
    if not pattern:
        return ""
    try:
        pattern_of(pattern)
    except ValueError as error:
        why = f"member regexMatch pattern is invalid: {re2_words(pattern, str(error))}"
        return invalid(f"{_MEMBERS}.selector.regexMatch.pattern", pattern, why)
    return ""


def re2_words(pattern: str, error: str) -> str:
    """Return the error in a pattern as RE2 words it, as far as its wording is known; else unchanged."""
    for form, words in _WORDS:
        found = form.match(error)
        if found:
            return f"error parsing regexp: {words(pattern, found)}"
    return error


def _pattern_from(pattern: str, found: re.Match[str]) -> str:
    return pattern[int(found["at"]) :]


_WORDS: tuple[tuple[re.Pattern[str], Any], ...] = (
    (
        re.compile(r"unterminated character set at position (?P<at>\d+)"),
        lambda pattern, found: f"missing closing ]: `{_pattern_from(pattern, found)}`",
    ),
    (re.compile(r"missing \), unterminated subpattern"), lambda pattern, found: f"missing closing ): `{pattern}`"),
    (re.compile(r"unbalanced parenthesis"), lambda pattern, found: f"unexpected ): `{pattern}`"),
    (
        re.compile(r"nothing to repeat at position (?P<at>\d+)"),
        lambda pattern, found: f"missing argument to repetition operator: `{_pattern_from(pattern, found)[:1]}`",
    ),
    (
        re.compile(r"bad escape \(end of pattern\)"),
        lambda pattern, found: "trailing backslash at end of expression: ``",
    ),
    (re.compile(r"bad escape (?P<what>\\.)"), lambda pattern, found: f"invalid escape sequence: `{found['what']}`"),
    (
        re.compile(r"bad character range (?P<what>\S+) at"),
        lambda pattern, found: f"invalid character class range: `{found['what']}`",
    ),
)
"""Of Python's errors, the words that RE2 has for the same fault."""
