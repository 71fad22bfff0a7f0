"""The lists of conformance specs of Kubernetes' e2e suite: each spec is run in some way or left out for a reason.

The suite itself says which specs it has, so nothing is checked where it has not been built; no spec is run.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def conformance() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tests/kubernetes"))
    try:
        module = import_module("conformance")
    finally:
        sys.path.remove(str(ROOT / "tests/kubernetes"))
    if module.missing(["e2e.test"]):
        pytest.skip("no e2e.test: run `make test-conformance`")
    return module


@pytest.fixture(scope="module")
def ways(conformance: ModuleType) -> dict[str, set[Any]]:
    """The specs that are run in each way, and all of them."""
    every = set(conformance.conformance_specs(conformance.folder() / "e2e.test"))
    return {
        "every": every,
        "simulated": {each for each in every if each.sig in conformance.SIGS and not conformance.left_out(each)},
        "api": every & set(conformance.api_specs()),
        "processes": {each for each in every if conformance.passes_in_processes(each)},
    }


def test_each_conformance_spec_is_run_or_left_out_for_a_reason(
    conformance: ModuleType, ways: dict[str, set[Any]]
) -> None:
    run = ways["simulated"] | ways["api"] | ways["processes"]
    assert [each.full for each in sorted(ways["every"] - run) if not conformance.left_out(each)] == []


def test_no_spec_that_simulated_pods_pass_is_left_out(conformance: ModuleType, ways: dict[str, set[Any]]) -> None:
    assert [each.full for each in sorted(ways["api"]) if conformance.left_out(each)] == []


def test_each_line_of_the_lists_is_a_spec(conformance: ModuleType, ways: dict[str, set[Any]]) -> None:
    names: dict[str, list[str]] = {}
    for each in ways["every"]:
        names.setdefault(each.sig, []).append(each.name)
    starts = [
        *((sig, start) for sig, found in conformance._read(conformance.PROCESSES).items() for start in found),
        *(
            (sig, start)
            for sig, entries in conformance._read(conformance.LEFT_OUT).items()
            for entry in entries
            for start in entry["specs"]
        ),
    ]
    unknown = [
        f"{sig}: {start}" for sig, start in starts if not any(name.startswith(start) for name in names.get(sig, ()))
    ]
    assert unknown == []
    told = {each for each in conformance.api_specs() if "[Conformance]" in each.name}
    assert [each.full for each in sorted(told - ways["every"])] == []


def test_the_readme_has_the_figures_of_the_lists(conformance: ModuleType, ways: dict[str, set[Any]]) -> None:
    section = re.search(
        r"^Kubernetes' own e2e suite .*?\n\n", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert section is not None
    text = " ".join(section[0].split())
    own = {each for each in ways["every"] if each.sig in conformance.SIGS}
    run = ways["simulated"] | ways["api"] | ways["processes"]
    for words in (
        f"has {len(own)} conformance specs of",
        f"{len(ways['simulated'])} of them pass",
        f"The other {len(own - ways['simulated'])} are not run",
        f"{len(conformance.api_specs())} that do not need containers pass, {len(ways['api'])} of them conformance",
        f"{len(ways['processes'])} conformance specs and",
        f"Of all {len(ways['every'])} conformance specs of the suite, {len(run)} pass in one of these ways",
    ):
        assert words in text, words
