"""Every command of the README, of the docs and of the examples is run, or the page says why it is not.

Pages that start a cluster are played in `tests/cluster/test_pages.py`. KILAUEA_UPDATE_GOLDEN=1 writes into the
pages what commands print; the difference is then for review.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.pages import NOTE, ROOT, blocks, faults, matches, needs_cluster, pages

OURS = re.compile(
    r"^(?:    )?(?:\$ )?(?:kilauea|vcctl|vsub|vjobs|vqueues|vcancel|kubectl|make|pip|python) [a-z-]", re.M
)
"""A line that looks like one of our commands."""
PLAYED = [page for page in pages() if any(block.is_played for block in blocks(page))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PLAYED if not needs_cluster(page)], ids=name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    assert faults(page, tmp_path) == ""


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PLAYED if needs_cluster(page)], ids=name)
def test_the_plans_of_a_page_that_starts_a_cluster_are_what_is_printed(page: Path, tmp_path: Path) -> None:
    assert faults(page, tmp_path, alone=True) == ""


def test_the_readme_links_every_page_of_the_documentation() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files = [
        file for kind in ("howto", "concepts", "reference") for file in sorted((ROOT / "docs" / kind).glob("*.md"))
    ]
    paths = [file.relative_to(ROOT).as_posix() for file in files]
    assert [path for path in paths if f"({path})" not in readme] == []


def test_commands_stand_in_blocks_that_are_played() -> None:
    """A command in an indented block, or in one of another language, would not be run by any test."""
    elsewhere = []
    for page in pages():
        text = page.read_text()
        if "<!-- Made by " in text:
            continue  # the reference, which shows how commands are used and not what to type
        for block in reversed(blocks(page)):
            if not block.has_commands and OURS.search(block.text):
                elsewhere.append(f"{block}: a block of {block.language or 'no language'} has commands")
            text = text[: block.start] + text[block.start + len(block.text) :]
        elsewhere += [f"{name(page)}: {found[0]}" for found in OURS.finditer(text) if found[0].startswith("    ")]
    assert elsewhere == []


def test_every_console_block_has_commands_and_every_note_is_understood() -> None:
    for page in pages():
        for block in blocks(page):
            assert block.language, f"{block} has no language"
            assert not block.has_commands or block.steps(), f"{block} has no command"
        for note in re.findall(r"^<!-- (.*?) -->$", page.read_text(), re.M):
            assert NOTE.fullmatch(note) or note.startswith("Made by"), f"{name(page)}: {note}"


def test_a_block_that_is_not_run_says_why() -> None:
    reasons = {str(block): why for page in pages() for block in blocks(page) if (why := block.about.get("not run"))}
    assert {at: why for at, why in reasons.items() if len(why.split()) < 3} == {}


def test_the_symptoms_of_the_troubleshooting_page_are_messages_of_the_programs() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    source = "".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py")))
    symptoms = [word for cell in re.findall(r"^\| ([^|]*) \|", page, re.M) for word in re.findall(r"`([^`]+)`", cell)]
    parts = [part for each in symptoms for part in re.split(r"\.\.\.|\d+(?:/\d+)?|--\w+", each)]
    foreign = ("kilauea: command not found", "kubectl exec", "Connection refused", "address already in use")
    assert len(symptoms) > 20
    assert {part for part in parts if part.strip() not in source and part not in foreign} == set()


@pytest.mark.parametrize(
    ("shown", "printed", "equal"),
    [
        ("a 5s", "a   12s", True),
        ("a 5s", "b 12s", False),
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("a\n...", "a", True),
        ("a\n...\nd", "a\nb\nc", False),
        ("at 127.0.0.1:1", "at 127.0.0.1:23456", True),
        ("3 pods", "4 pods", False),
        ("", "something", False),
    ],
)
def test_output_is_compared_without_what_differs_from_run_to_run(shown: str, printed: str, equal: bool) -> None:
    assert matches(shown, printed) is equal
