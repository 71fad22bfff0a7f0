"""A plan says which devices claims get, and an explanation which claim lacks devices."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from kilauea.cli.main import main

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "resource-claims")

THREE_OF_ONE_MODEL = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c, namespace: default}
spec:
  devices:
    requests: [{name: card, exactly: {deviceClassName: gpu.example.com, count: 3}}]
    constraints: [{matchAttribute: gpu.example.com/model}]
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default, annotations: {scheduling.k8s.io/group-name: g}}
spec:
  schedulerName: volcano
  containers: [{name: a, image: i}]
  resourceClaims: [{name: mine, resourceClaimName: c}]
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g, namespace: default}
spec: {minMember: 1}
"""


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, [*arguments])
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    return result.output


def test_the_table_has_a_row_for_each_claim_that_gets_devices() -> None:
    lines = [line.split() for line in run("plan", "-f", EXAMPLE).splitlines()]
    start = lines.index(["CLAIM", "FOR", "POD", "ON", "NODE", "DEVICES"])
    assert lines[start + 2] == [
        "default/training-worker-0-card", "default/training-worker-0", "node-1", "card=gpu.example.com/node-1/gpu-0"
    ]  # fmt: skip


def test_json_names_the_devices_of_each_claim() -> None:
    claims = json.loads(run("plan", "-f", EXAMPLE, "-o", "json"))["resourceClaims"]
    assert claims["default/evaluation-worker-0-card"] == {
        "pod": "default/evaluation-worker-0",
        "node": "node-0",
        "devices": [{"request": "card/a100", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}],
    }


def test_the_explanation_names_the_request_the_most_that_a_node_has_free_and_the_constraint(tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(THREE_OF_ONE_MODEL)
    files = ["-f", f"{EXAMPLE}/nodes.yaml", "-f", f"{EXAMPLE}/devices.yaml", "-f", str(path)]
    assert (
        "request card of claim mine asks for 3 devices of class gpu.example.com (4 devices match, all free; at most 2 "
        "are free for one node); the devices of claim mine must agree in gpu.example.com/model"
    ) in run("explain", "podgroup", "g", *files)
