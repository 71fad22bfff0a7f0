"""The examples of Volcano's jobs are admitted and get their pods, and each says in its first line what it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kilauea.cli.main import main

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
PODS = {
    "depends-on": 1,  # the others are made when the first is ready
    "gang": 4,
    "mpi": 3,
    "policies": 2,
    "pytorch": 3,
    "ray": 3,
    "tensorflow": 3,
    "volumes": 2,
}


def test_every_example_is_looked_at() -> None:
    assert {path.stem for path in (EXAMPLES / "vcjobs").glob("*.yaml")} == PODS.keys()


@pytest.mark.parametrize("name", PODS)
def test_an_example_is_admitted_and_gets_its_pods(name: str) -> None:
    file = EXAMPLES / "vcjobs" / f"{name}.yaml"
    assert file.read_text().startswith("# ")
    arguments = ["plan", "-f", str(EXAMPLES / "demo" / "nodes.yaml"), "-f", str(file), "-o", "json"]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    plan = json.loads(result.stdout)
    assert len(plan["binds"]) + len(plan["pending"]) == PODS[name]
    assert not plan["pending"] or name == "volumes"  # which waits for its claims
