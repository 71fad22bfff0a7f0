"""Phrases that sources and documents avoid, each with what to write instead.

Words, also in names, are the vocabulary of `typos` in pyproject.toml.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
FOLDERS = ("src", "docs", "examples", "benchmarks")
SELF = Path(__file__).name

# What is found, what to write instead, and examples of both; the pattern is searched in the text of a file.
PHRASES = [
    (r'"""What\b(?! it is for:)', "a noun, or Return ...", '"""What fits."""', '"""Nodes that fit."""'),
    (r'"""Whether\b', "True if ...", '"""Whether it fits."""', '"""True if it fits."""'),
    (r'"""Who(?:m|se)?\b', "the thing itself", '"""Who holds the lease."""', '"""The holder of the lease."""'),
    (
        r'"""(?:How|Why|When|Where|Which)\b',
        "the number, reason, time, place or thing",
        '"""Why it waits."""',
        '"""The reason why it waits."""',
    ),
    (
        r"(?i)(?<!there )\b(?:is|are) no (?!(?:longer|more|less|such|different|matter|need)\b)[a-z]",
        "is not a ..., or invalid ...",
        '"x" is no address',
        "there is no queue of this name, and it is no longer looked for",
    ),
    (r"(?i)\b(?:that|which) (?:is|are) none\b(?! of)", "invalid ...", "a number that is none", "an invalid number"),
    (r"(?i)\bsomebody\b", "a user, a client, another ...", "somebody waits", "a client waits"),
    (
        r'\bfact\(\s*"(?:What|Whether|Who|How|Why|When|Where|Which)\b',
        "a noun, as kubectl explain has it",
        'fact("What shall run.")',
        'fact("Desired tasks.")',
    ),
    (
        r"(?i)\bis not there: ",
        "does not exist: ",
        "queue q is not there: create it",
        "queue q does not exist: create it",
    ),
    (r"(?i)\bstart(?:s|ed|ing)? (?:anew|over again)\b", "restart", "the job starts anew", "the job restarts"),
    (r"(?i)\bin thought\b", "as a dry run", "created in thought", "created as a dry run"),
    (r"(?i)\b(?:gets?|got) along with\b", "accepts", "gets along with both", "accepts both"),
    (r"(?i)\bdeserves? no more\b", "would exceed deserved ...", "deserves no more cpu", "would exceed deserved cpu"),
    (r"(?i)\bpromised room\b", "nominated", "has promised room", "is nominated"),
    (r"(?i)\bfor ever\b", "forever", "it waits for ever", "it waits forever"),
    (r"(?i)\blisten(?:s|ing)? at\b(?! once)", "listen on", "listens at all addresses", "listens on port 80 at once"),
    (
        r"(?i)\bwait(?:s|ed|ing)? in vain for\b",
        "timed out waiting for ...",
        "waited in vain for it",
        "timed out waiting for it",
    ),
]


EVERYWHERE = [row for row in PHRASES if row[0].startswith("(?i)") and "promised" not in row[0]]
"""Those that tests avoid, too."""


def prose_files(*, tests: bool = False) -> list[Path]:
    """Sources and documents, or the tests."""
    folders = ("tests",) if tests else FOLDERS
    found = [path for name in folders for path in (ROOT / name).rglob("*") if path.suffix in {".py", ".md"}]
    if tests:
        found += (ROOT / "tests/kubernetes/requests").glob("*.yaml")
        return sorted(path for path in found if path.name != SELF)
    return sorted([*found, *(ROOT / name for name in DOCUMENTS)])


@pytest.mark.parametrize(("pattern", "instead"), [row[:2] for row in PHRASES])
def test_the_phrase_is_not_used(pattern: str, instead: str) -> None:
    assert uses(pattern, instead, prose_files()) == []


@pytest.mark.parametrize(("pattern", "instead"), [row[:2] for row in EVERYWHERE])
def test_tests_do_not_use_the_phrase_either(pattern: str, instead: str) -> None:
    assert uses(pattern, instead, prose_files(tests=True)) == []


def uses(pattern: str, instead: str, paths: list[Path]) -> list[str]:
    """Places where files use a phrase, and what to write there."""
    return [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, hit.start()) + 1}: {hit[0]!r}; write {instead}"
        for path in paths
        for text in [path.read_text()]
        for hit in re.finditer(pattern, text)
    ]


@pytest.mark.parametrize(("pattern", "_", "bad", "good"), PHRASES)
def test_the_pattern_tells_bad_from_good(pattern: str, _: str, bad: str, good: str) -> None:
    assert re.search(pattern, bad)
    assert not re.search(pattern, good)
