"""`kilauea plan` places the pods of the schedulers that it is told of, and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kilauea.cli.main import main

CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: t}
spec: {schedulerName: default-scheduler, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: other, namespace: t}
spec: {schedulerName: another, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""


@pytest.mark.parametrize(
    ("options", "placed"),
    [
        ((), ["t/web"]),
        (("--scheduler-name", "volcano"), []),
        (("--scheduler-name", "volcano", "--scheduler-name", "default-scheduler"), ["t/web"]),
    ],
)
def test_which_pods_are_placed(tmp_path: Path, options: tuple[str, ...], placed: list[str]) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    done = CliRunner().invoke(main, ["plan", "-f", str(tmp_path / "cluster.yaml"), "-o", "json", *options])
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    assert sorted(plan["binds"]) == placed
