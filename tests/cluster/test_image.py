"""The steps of deploy/Containerfile in folders of this machine: what they install runs for an ordinary user."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilauea import __version__

ROOT = Path(__file__).resolve().parents[2]
ORDINARY_USER = 1000


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """The root folder of the image, as far as its own steps write it."""
    with tempfile.TemporaryDirectory(prefix="kilauea-image-") as name:
        work, root = Path(name), Path(name) / "root"
        work.chmod(0o755)
        (work / "build").mkdir()
        for word, *arguments in steps((ROOT / "deploy/Containerfile").read_text()):
            if word == "COPY" and not arguments[0].startswith("--from"):
                *sources, target = arguments
                for source in sources:
                    _copy(ROOT / source, work / "build", target)
            elif word == "RUN":
                _run(arguments, work / "build", root)
        yield root


def steps(text: str) -> list[list[str]]:
    """The instructions of a Containerfile, each as words."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [shlex.split(line) for line in lines]


def _copy(source: Path, folder: Path, target: str) -> None:
    place = folder / target / source.name if target == "./" else folder / target
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, place)


def _run(words: list[str], folder: Path, root: Path) -> None:
    """Run a step, with absolute paths of the image below a root of ours."""
    command = [f"{root}{word}" if word.startswith("/") else word for word in words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYTHON"] = interpreter()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    if re.search(r"Temporary failure|No matching distribution|Connection", done.stderr):
        pytest.skip(f"packages cannot be fetched: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr + done.stdout


def interpreter() -> str:
    """A Python for the environment of the image: one that other users can run, if there is one."""
    ours = str(getattr(sys, "_base_executable", sys.executable))
    fits = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"
    for program in (ours, "/usr/local/bin/python3", "/usr/bin/python3"):
        is_open = Path(program).exists() and _is_open(Path(program).resolve().parent)
        if is_open and subprocess.run([program, "-c", fits], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return program
    return ours


def run(image: Path, folder: Path, *words: str) -> str:
    """What a program of the image prints for a user without rights; it must not fail."""
    user = ORDINARY_USER if os.getuid() == 0 else None
    environment = {"PATH": f"{image}/opt/kilauea/bin:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [image / "opt/kilauea/bin" / words[0], *words[1:]], cwd=folder, env=environment, user=user,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="kilauea-image-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_the_programs_of_the_image_run_for_a_user_without_rights(image: Path, folder: Path) -> None:
    if os.getuid() == 0 and not _is_open(Path(interpreter()).resolve().parent):
        pytest.skip(f"{interpreter()} is in a folder that is closed to other users, so they cannot run it")
    assert run(image, folder, "kilauea", "--version") == f"kilauea {__version__}\n"
    for command in ("scheduler", "controllers", "webhooks"):
        assert f"Usage: kilauea {command}" in run(image, folder, "kilauea", command, "--help")
    conf = folder / "volcano-scheduler.conf"
    shutil.copy(ROOT / "deploy/helm/kilauea/config/volcano-scheduler.conf", conf)
    assert "valid, no problems found" in run(image, folder, "kilauea", "config", "check", str(conf))


def _is_open(path: Path) -> bool:
    """Return True if other users can enter a folder."""
    return all(each.stat().st_mode & stat.S_IXOTH for each in (path, *path.parents))


def test_the_image_has_the_pinned_packages_and_no_installer(image: Path) -> None:
    packages = next((image / "opt/kilauea/lib").glob("python*/site-packages"))
    found = {each.name.removesuffix(".dist-info").replace("_", "-").lower() for each in packages.glob("*.dist-info")}
    pinned = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements/runtime.txt").read_text(), re.M)
    assert found == {f"{name}-{version}".lower() for name, version in pinned} | {f"kilauea-{__version__}"}
    assert not (image / "opt/kilauea/bin/pip").exists()
    assert list(packages.glob("**/tests")) == []
