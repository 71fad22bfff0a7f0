"""Tests on every supported Python, and with the lowest versions that pyproject.toml allows: `make test-matrix`.

A Python that this machine does not have is skipped, and the summary at the end says so. To test a part of the sessions:
`nox -s tests-3.13 -- tests/api`.
"""

from __future__ import annotations

import nox

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
QUICK = ("tests/engine", "tests/api", "tests/cli", "tests/simulator", "tests/test_python_api.py")

nox.options.default_venv_backend = "venv"
nox.options.download_python = "never"
nox.options.envdir = "build/nox"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = True


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the quick tests with the pinned requirements."""
    session.install("--require-hashes", "-r", "requirements/dev.txt")
    run(session)


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """Run the quick tests with the lowest versions of what Kilauea needs to run."""
    tools = ("hatchling", "hypothesis", "pytest", "pytest-xdist")
    session.install("-c", "requirements/lowest.txt", "-r", "requirements/runtime.in", *tools)
    run(session)


def run(session: nox.Session) -> None:
    """Install this checkout and run the tests that are named after `--`, else the quick ones."""
    session.install("--no-deps", "--no-build-isolation", "--editable", ".")
    session.run("python", "-m", "pytest", "-n", "2", *(session.posargs or QUICK))
