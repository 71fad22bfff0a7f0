"""`tests/seed-coverage.md` is true: it has every promise once, and the tests that it names exist.

The numbers of the promises are read from the checklist in the folder `shared` beside this checkout; without that folder
only the form of the document is checked.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "tests" / "seed-coverage.md"
DONE, DIFFERS = "done", "[differs](differences.md)"
STATES = {DONE, DIFFERS}
CHECKLIST_ITEM = re.compile(r"^- \[.\] (\d{3}\.\d+) ", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


class Row(NamedTuple):
    """A row about a promise."""

    item: str
    promise: str
    state: str
    shown: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        """Files and functions that the row names."""
        return TEST.findall(self.shown)


@cache
def rows() -> tuple[Row, ...]:
    lines = [line for line in DOCUMENT.read_text().splitlines() if re.match(r"\| *\d", line)]
    return tuple(Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines)


@cache
def functions_in(path: str) -> frozenset[str]:
    """Names of the functions at the top of a file; none if there is no such file."""
    file = ROOT / path
    tree = ast.parse(file.read_text()) if file.is_file() else ast.Module([], [])
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_promise_has_exactly_one_row(shared: Path) -> None:
    promised = Counter(CHECKLIST_ITEM.findall((shared / "spec" / "seed-checklist.md").read_text()))
    assert promised
    assert Counter(row.item for row in rows()) == promised


def test_promises_stand_under_their_seed_and_in_order() -> None:
    tables = re.split(r"^## ", DOCUMENT.read_text(), flags=re.MULTILINE)[1:]
    for table in tables:
        numbers = [int(number) for number in re.findall(rf"^\| {table[:3]}\.(\d+) ", table, re.MULTILINE)]
        assert numbers == list(range(1, len(numbers) + 1))
    assert [table[:3] for table in tables] == ["000", "001", "002", "003", "004", "Bey"]
    assert {row.item for row in rows() if not re.fullmatch(r"00[0-4]\.\d+", row.item)} == set()


def test_every_state_is_one_of_the_fixed_ones() -> None:
    assert {row.item: row.state for row in rows() if row.state not in STATES} == {}


def test_every_row_says_what_is_promised() -> None:
    assert [row.item for row in rows() if len(row.promise) < 10] == []


def test_whatever_is_done_or_differs_is_shown() -> None:
    assert [row.item for row in rows() if row.state in (DONE, DIFFERS) and not row.tests] == []


def test_every_test_that_is_named_exists() -> None:
    missing = {
        f"{row.item}: {path}::{name}" for row in rows() for path, name in row.tests if name not in functions_in(path)
    }
    assert missing == set()
    assert {row.item: row.shown for row in rows() if TEST.sub("", row.shown).strip(", ")} == {}


def test_the_pages_examples_and_tests_of_further_parts_exist() -> None:
    section = DOCUMENT.read_text().partition("## Beyond the five documents")[2]
    paths = [*re.findall(r"\]\(\.\./([^)]+)\)", section), *re.findall(r"`(tests/[\w/]+\.py)`", section)]
    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_attacks_and_needs_of_clients_are_shown_by_tests_that_exist() -> None:
    section = DOCUMENT.read_text().partition("### Attacks on the API server")[2]
    listed = [line for line in section.splitlines() if line.startswith("| ") and not line.endswith("shown by |")]
    assert len(listed) >= 30
    named = {line: TEST.findall(line) for line in listed}
    assert [line for line, tests in named.items() if not tests] == []
    missing = {test for tests in named.values() for test in tests if test[1] not in functions_in(test[0])}
    assert missing == set()
