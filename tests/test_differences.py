"""`docs/differences.md` names tests that are there, and a reason in every row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "differences.md"
TEST = re.compile(r"`(tests/[\w/.]+)`")


def tables() -> Iterator[tuple[list[str], list[list[str]]]]:
    """The headings of each table and its rows."""
    for table in re.findall(r"(?:^\|.*\|\n)+", DOCUMENT.read_text(), re.MULTILINE):
        heading, _, *rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]
        yield heading, rows


def test_every_row_has_all_cells() -> None:
    for heading, rows in tables():
        assert rows
        for row in rows:
            assert (len(row), all(row)) == (len(heading), True), row


def test_every_difference_from_volcano_names_tests_that_are_there() -> None:
    rows = [row for heading, found in tables() if heading[-1] == "test" for row in found]
    assert len(rows) > 100
    for row in rows:
        named = TEST.findall(row[-1])
        assert named, row
        assert [path for path in named if not (ROOT / path).exists()] == [], row


def test_no_table_has_a_topic_twice() -> None:
    for _, rows in tables():
        topics = [row[0] for row in rows]
        assert sorted({topic for topic in topics if topics.count(topic) > 1}) == []
