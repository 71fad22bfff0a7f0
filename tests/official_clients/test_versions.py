"""The official Python client and kubernetes_asyncio, from the oldest version that counts to the newest.

`make test` installs some of them into folders beside the environment (`requirements/clients-*.txt`), and
`make test-clients` the others (`requirements/between-*.txt`); the newest `kubernetes` is in the environment itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from apiserver.test_transport import Process

STORY = Path(__file__).with_name("story.py")
FOLDERS = Path(os.environ.get("KILAUEA_CLIENTS") or Path(sys.prefix) / "clients")
REQUIREMENTS = Path(__file__).parents[2] / "requirements"
NAMES = sorted(each.stem for each in REQUIREMENTS.glob("clients-*.in"))
BETWEEN = sorted(each.stem for each in REQUIREMENTS.glob("between-*.in"))
SECONDS = 180


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with Process(tmp_path_factory.mktemp("clients")) as process:
        yield process


def test_versions_from_29_to_the_newest_are_locked() -> None:
    assert NAMES == ["clients-29", "clients-33", "clients-newest"]
    assert BETWEEN == ["between-30", "between-31", "between-32", "between-34", "between-35"]
    assert all((REQUIREMENTS / f"{name}.txt").exists() for name in [*NAMES, *BETWEEN])


@pytest.mark.parametrize("library", ["kubernetes", "kubernetes_asyncio"])
@pytest.mark.parametrize("name", [*NAMES, *BETWEEN])
def test_each_version_sees_the_same_story(server: Process, name: str, library: str) -> None:
    folder = FOLDERS / name
    if not (folder / ".installed").exists():
        pytest.skip(f"{folder} is not installed; make test-clients does that")
    namespace = f"{name}-{library}".replace("_", "-")
    told = subprocess.run(
        [sys.executable, "-W", "ignore", str(STORY), library, str(server.kubeconfig), namespace],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    seen = json.loads(told.stdout)
    version, wanted = seen.pop("version"), name.partition("-")[2]
    assert version.startswith(f"{wanted}.") or (wanted == "newest" and int(version.partition(".")[0]) >= 36)
    assert seen == {
        "pages": [["a", "b"], ["c"]],
        "watched": [["ADDED", "w"], ["MODIFIED", "w"], ["DELETED", "w"]],
        "patches": {
            "strategic": {"one": "1", "zero": "0"},
            "merge": {"two": "2", "zero": "0"},
            "json": {"two": "2", "zero": "0", "three": "3"},
            "apply by force": {"two": "4", "zero": "0", "three": "3"},
        },
        "errors": {
            "missing": [404, "NotFound", ""],
            "exists": [409, "AlreadyExists", ""],
            "invalid": [422, "Invalid", "metadata.name"],
        },
        "custom": {"sizes": [1, 2], "names": ["g"], "left": []},
        "deletions": ["c"],
    }
