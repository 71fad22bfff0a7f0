"""The libraries of the pages are those that the manifest names, and the pages load nothing from elsewhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

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
