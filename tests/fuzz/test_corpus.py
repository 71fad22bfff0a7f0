"""Inputs that once failed, each as small as it could be made, and what is said about them now.

The files in `corpus/` go through everything that the fuzz tests ask for; what needs more than one file, or would be too
long for one, is made here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fuzz import confs
from fuzz.harness import DEFAULT_CONF, broken_laws, faults, lines_of, lost, run, run_bytes, within
from fuzz.world import Data, Step, cluster, find
from kilauea.api.decode import decode
from kilauea.cli.main import main
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import QUEUE_PLUGINS, parse_conf
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Changed, Gone
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.state import ClusterState

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(CORPUS.glob("*.jsonl"))
CONFS = {"default": DEFAULT_CONF} | {
    queues: parse_conf(confs.everything(queues), PLUGINS, ACTIONS) for queues in QUEUE_PLUGINS
}

WARNINGS = {
    "api-version-that-is-a-number": "Node n1: apiVersion: expected text, got 1: put it in quotes",
    "empty-namespace-of-a-bad-pod": "Pod default/p: spec: expected an object, got 5",
    "name-of-a-blank": "Node  : spec: expected an object, got 5",
    "tier-beyond-floats": "HyperNode far: spec.tier: 1000",
    "pattern-nested-too-deep": "member regexMatch pattern is invalid: '((((",
}
"""What is said about an input; nothing about the others."""


@pytest.mark.parametrize("conf", CONFS)
@pytest.mark.parametrize("source", FILES, ids=lambda source: source.stem)
def test_what_failed_once_is_planned_or_named(source: Path, conf: str) -> None:
    manifests = [json.loads(line) for line in source.read_bytes().splitlines()]
    with within():
        outcome = run(source, CONFS[conf])
        assert outcome.result is not None
        assert lost(manifests, outcome) == []
        assert broken_laws(outcome.result.plan, outcome.result.state) == []
        assert faults(outcome.result.plan) == []
    expected = WARNINGS.get(source.stem)
    told = [text for text in outcome.warnings if str(source) in text or "HyperNode" in text]
    assert len(told) == (1 if expected else 0)
    assert (expected or "") in "".join(told)


@pytest.mark.parametrize("source", sorted(CORPUS.glob("*.bin")), ids=lambda source: source.stem)
def test_bytes_that_failed_once_are_planned_or_named(source: Path) -> None:
    with within():
        outcome = run(source)
        assert outcome.result is not None
        assert any(str(source) in text for text in outcome.warnings)


def test_a_path_that_no_system_takes_is_refused() -> None:
    outcome = CliRunner().invoke(main, ["plan", "-f", "x" * 5000])
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "too long" in outcome.stderr


def test_every_warning_belongs_to_a_file() -> None:
    assert WARNINGS.keys() <= {source.stem for source in FILES}


# --- what is made here


def hypernode(name: str, tier: int, *children: str) -> Data:
    members = [{"type": "HyperNode", "selector": {"exactMatch": {"name": child}}} for child in children]
    return {"kind": "HyperNode", "metadata": {"name": name}, "spec": {"tier": tier, "members": members}}


@pytest.mark.parametrize(
    "hypernodes",
    [
        pytest.param([hypernode(f"h{i}", i, f"h{i - 1}") for i in range(1500)], id="in a long chain"),
        pytest.param([hypernode(f"h{i}", i, f"h{(i - 1) % 1500}") for i in range(1500)], id="in a large ring"),
        pytest.param([hypernode(f"h{i}", 2, "child") for i in range(500)] + [hypernode("child", 1)], id="rivals"),
    ],
)
def test_many_hypernodes_in_each_other(hypernodes: list[Data], tmp_path: Path) -> None:
    with within():
        outcome = run_bytes(lines_of([*cluster(), *hypernodes]), tmp_path, conf=CONFS["proportion"])
        assert outcome.result is not None
        assert broken_laws(outcome.result.plan, outcome.result.state) == []


@pytest.mark.parametrize(
    ("kind", "path"),
    [("PriorityClass", ("value",)), ("CSINode", ("spec", "drivers", 0, "allocatable", "count"))],
)
@pytest.mark.parametrize("number", [2**63, -(10**30)])
def test_a_number_beyond_64_bits_that_no_one_checked(kind: str, path: tuple[Step, ...], number: int) -> None:
    manifests = cluster()
    for manifest in (m for m in manifests if m["kind"] == kind):
        find(manifest, path[:-1])[path[-1]] = number
    state = ClusterState()
    for obj in decode(lines_of(manifests), "the cluster").objects:
        state.apply(Changed(obj))
    for conf in CONFS.values():
        assert faults(cycle(state, conf, 0)) == []


def test_tasks_forget_their_sub_gang_with_its_policy() -> None:
    state = ClusterState()
    objects = decode(lines_of([m for m in cluster() if m["kind"] != "Secret"]), "the cluster").objects
    for obj in objects:
        state.apply(Changed(obj))
    assert state.tasks["ns/close-w-0"].sub_job
    state.apply(Gone("PodGroup", "ns/close"))
    assert state.tasks["ns/close-w-0"].sub_job == ""


@pytest.mark.parametrize(
    ("plugin", "key", "value"),
    [
        pytest.param("overcommit", "overcommit-factor", float("nan"), id="no number"),
        pytest.param("overcommit", "overcommit-factor", float("inf"), id="infinity"),
        pytest.param("overcommit", "overcommit-factor", 10**400, id="a number beyond floats"),
        pytest.param("binpack", "binpack.memory", 10**400, id="a weight beyond floats"),
        pytest.param("binpack", "binpack.resources.nvidia.com/gpu", -(10**30), id="a weight far below zero"),
        pytest.param("nodeorder", "podtopologyspread.weight", 2**63, id="a weight beyond 64 bits"),
        pytest.param("network-topology-aware", "hypernode.binpack.normal-pod.fading", 1e308, id="the largest float"),
    ],
)
def test_an_argument_beyond_reason_keeps_its_default(plugin: str, key: str, value: Any) -> None:
    document = confs.everything()
    for entry in (entry for tier in document["tiers"] for entry in tier["plugins"]):
        if entry["name"] == plugin:
            entry["arguments"] = {key: value}
    state = ClusterState()
    for obj in decode(lines_of(cluster()), "the cluster").objects:
        state.apply(Changed(obj))
    plan = cycle(state, parse_conf(document, PLUGINS, ACTIONS), 0)
    (found,) = (finding for finding in plan.findings if finding.where == f"plugin {plugin}")
    assert not found.error
    assert f"{key} takes a" in found.message
