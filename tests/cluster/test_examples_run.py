"""The examples that can be planned also run: `kilauea up -f` takes each folder as it is, and starts what fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.up_process import EXAMPLES, running_up, until


@pytest.mark.parametrize(
    ("folder", "namespace", "pods"),
    [
        ("first-steps", "default", ["first-0", "first-1"]),
        ("planning", "default", ["ablation-0", "ablation-1", "train-0"]),
        ("demo", "batch", ["thumbnails-0", "thumbnails-3"]),
    ],
)
def test_an_example_runs_as_it_is(folder: str, namespace: str, pods: list[str], tmp_path: Path) -> None:
    options = ["--nodes", "0", "-f", str(EXAMPLES / folder)]
    with running_up(tmp_path, *options) as server:

        def placed() -> bool:
            found = [server.client().get(f"/api/v1/namespaces/{namespace}/pods/{name}") for name in pods]
            return all(pod["spec"].get("nodeName") for pod in found)

        until(placed, f"pods of {folder} have nodes")
