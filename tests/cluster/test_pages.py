"""The pages that start a cluster are played on one of their own; `tests/support/pages.py` says how."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages import ROOT, blocks, faults, needs_cluster, pages

PLAYED = [page for page in pages() if any(block.is_played for block in blocks(page)) and needs_cluster(page)]


@pytest.mark.parametrize("page", PLAYED, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    assert faults(page, tmp_path) == ""
