"""`kilauea plan --cycles`: what each cycle decides, and when a cluster comes to rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kilauea.api.meta import Object, OwnerReference
from kilauea.cli.main import main
from over_time.history import manifest_of
from support.builders import conf, group, node, pod, priority_class

PREEMPTING = conf("allocate, preempt", ["priority"], ["gang", "predicates", "nodeorder"])


def victim(grace: int | None) -> Object:
    made = pod("v", "low", node="n1", priorityClassName="low", terminationGracePeriodSeconds=grace)
    made.metadata.owner_references = [OwnerReference("Job", "low", "low-uid", "batch/v1", controller=True)]
    return made


def planned(folder: Path, grace: int | None, cycles: int, *options: str) -> str:
    """A cluster of one cpu: a pod runs, one of higher priority wants its room."""
    objects = [
        *(node("n1", 1), priority_class("low", 1), priority_class("high", 9)),
        *(group("low", "default", phase="Running", priority="low"), victim(grace)),
        *(group("high", "default", priority="high"), pod("c", "high", priorityClassName="high")),
    ]
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all(map(manifest_of, objects)))
    (folder / "conf.yaml").write_text(yaml.safe_dump(PREEMPTING))
    command = ["plan", "-f", str(folder / "cluster.yaml"), "--scheduler-conf", str(folder / "conf.yaml")]
    result = CliRunner().invoke(main, [*command, "--cycles", str(cycles), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def data(folder: Path, grace: int | None, cycles: int) -> Any:
    return json.loads(planned(folder, grace, cycles, "-o", "json"))


@pytest.mark.parametrize(("grace", "bound"), [(None, 1), (0, 1), (1, 2), (3, 4)])
def test_a_preemptor_starts_in_the_cycle_after_its_victim_has_gone(
    tmp_path: Path, grace: int | None, bound: int
) -> None:
    cycles = data(tmp_path, grace, 8)["cycles"]
    assert [number for number, one in enumerate(cycles) if one["binds"] == {"ns/c": "n1"}] == [bound]
    assert cycles[0]["evictions"] == [{"pod": "ns/v", "node": "n1", "by": "ns/high", "action": "preempt"}]
    assert cycles[0]["pipelined"] == {"ns/c": "n1"}


def test_an_evicted_pod_with_a_controller_waits_again(tmp_path: Path) -> None:
    assert [pending["pod"] for pending in data(tmp_path, None, 6)["pending"]] == ["ns/v"]


def test_the_number_of_the_last_cycle_that_changed_something_is_told(tmp_path: Path) -> None:
    assert data(tmp_path, None, 2)["atRestAfter"] is None
    whole = data(tmp_path, None, 8)
    assert whole["atRestAfter"] == data(tmp_path, None, 20)["atRestAfter"]
    assert not any(one["binds"] or one["evictions"] for one in whole["cycles"][whole["atRestAfter"] :])


def test_one_cycle_has_no_history(tmp_path: Path) -> None:
    assert {"cycles", "atRestAfter"}.isdisjoint(data(tmp_path, None, 1))
    assert "rest" not in planned(tmp_path, None, 1)


def test_the_table_lists_the_cycles_that_decided_something_and_says_when_the_cluster_is_at_rest(tmp_path: Path) -> None:
    lines = planned(tmp_path, None, 8).splitlines()
    assert lines[0].split() == ["CYCLE", "PODS", "STARTING", "EVICTED", "NOMINATED"]
    assert [line.split() for line in lines[1:3]] == [["1", "0", "1", "1"], ["2", "1", "0", "0"]]
    rest = data(tmp_path, None, 8)["atRestAfter"]
    assert lines[3:5] == ["", f"at rest after cycle {rest}; the last one:"]
    assert "not at rest after 2 cycles; the last one:" in planned(tmp_path, None, 2)
