"""The documentation site builds without a warning, and every link between files leads somewhere.

Sphinx checks the links and anchors of `docs/`; those of the other pages are checked here. Addresses are not fetched.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.M | re.S)
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / ".github").rglob("*.md"))]
PAGES += [page for folder in ("docs", "examples", "benchmarks") for page in sorted((ROOT / folder).rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them; those of a page that it includes are its own."""
    included = re.search(r"^```\{include\} (\S+)$", page.read_text(), re.M)
    if included:
        return anchors(page.parent / included[1])
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(page: Path, text: str) -> list[str]:
    """The links of a page's text that lead nowhere; those to other sites are left alone."""
    out = []
    for link in LINK.findall(CODE.sub("", text)):
        path, _, anchor = link.partition("#")
        if re.match(r"\w+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            out.append(link)
    return out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_or_a_heading_leads_there(page: Path) -> None:
    assert broken(page, page.read_text()) == []


def test_links_that_lead_nowhere_are_found() -> None:
    text = "[a](README.md) [b](nowhere.md) [c](README.md#no-such-heading) [d](https://example.com) `[e](code.md)`"
    assert broken(ROOT / "CONTRIBUTING.md", text) == ["nowhere.md", "README.md#no-such-heading"]


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    site = tmp_path / "site"
    options = ("--quiet", "--fail-on-warning", "--keep-going", "-d", str(tmp_path / "doctrees"))
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(site)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    sources = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    assert {str(page) for page in sources if not (site / page).is_file()} == set()
