"""The libraries of the pages are those that the manifest names, and the pages load nothing from elsewhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import kilauea.dashboard
from kilauea.runtime.dashboard.site import STATIC

FOLDER = Path(kilauea.dashboard.__file__).parent


def test_each_library_is_the_one_that_the_manifest_names() -> None:
    vendor = FOLDER / "static" / "vendor"
    named = dict(
        line.split()[::-1] for line in re.findall(r"^[0-9a-f]{64}  \S+$", (vendor / "MANIFEST").read_text(), re.M)
    )
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in vendor.iterdir()}
    del found["MANIFEST"]
    assert found == named


def test_every_file_that_a_page_loads_is_served_by_the_site() -> None:
    texts = "".join(path.read_text() for path in (FOLDER / "templates").iterdir())
    loaded = re.findall(r'(?:src|href)="(/static/[^"]+|https?:[^"]+)"', texts)
    assert {each.removeprefix("/static/") for each in loaded} == set(STATIC)


STYLE = (FOLDER / "static" / "dashboard.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", STYLE, re.S)
)


def contrast(one: str, other: str) -> float:
    """The ratio of two colours as in the Web Content Accessibility Guidelines 2.1."""

    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, LIGHT | DARK], ids=["light", "dark"])
def test_texts_and_edges_have_the_contrast_that_the_guidelines_ask_for(scheme: dict[str, str]) -> None:
    for ground in ("ground", "card", "row"):
        for text in ("text", "quiet", "link", "good", "wait", "bad"):
            assert contrast(scheme[text], scheme[ground]) >= 4.5, (text, ground)
    for edge in ("edge", "used", "borrowed", "guarantee", "deserved"):
        assert contrast(scheme[edge], scheme["card"]) >= 3, edge
    assert contrast(scheme["text"], scheme["note"]) >= 4.5
    assert contrast(scheme["used"], scheme["track"]) >= 3


def test_no_text_is_made_paler_by_opacity() -> None:
    faint = re.findall(r"^([^{\n]+)\{[^}]*opacity", STYLE, re.M)
    assert {each.strip() for each in faint} == {"button:disabled", ".waited"}
