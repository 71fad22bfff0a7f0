"""The page about Volcano's jobs lists the arguments of each plugin with their defaults, and names every plugin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import fields

from kilauea.api.job_plugins import ARGUMENTS, default_text
from kilauea.controllers.vcjobs.plugins import PLUGINS

PAGE = Path(__file__).resolve().parents[4] / "docs" / "concepts" / "vcjobs.md"


def section_of(name: str) -> str:
    """What the page says about a plugin."""
    found = re.search(rf"^### {name}\b.*?\n(.*?)(?=^### |\Z)", PAGE.read_text(), re.M | re.S)
    assert found is not None
    return found[1]


def documented(name: str) -> dict[str, str]:
    """Arguments with their defaults, as the table has them."""
    found: dict[str, str] = {}
    for names, default in re.findall(r"^\| (`.*?) \| (.*?) ?\|", section_of(name), re.M):
        flags = re.findall("`(.*?)`", names)
        defaults = re.findall("`(.*?)`", default) or [""] * len(flags)
        found.update(zip(flags, flags if default == "the same" else defaults, strict=True))
    return found


@pytest.mark.parametrize("name", [name for name in PLUGINS if name not in ("env", "hcclrank")])
def test_the_arguments_of_a_plugin_and_their_defaults_are_documented(name: str) -> None:
    assert documented(name) == {each.encode_name: default_text(each) for each in fields(ARGUMENTS[name])}


@pytest.mark.parametrize("name", PLUGINS)
def test_every_plugin_is_explained(name: str) -> None:
    assert len(section_of(name)) > 100
