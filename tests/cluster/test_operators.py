"""Kubeflow's training operator, built from its Go module, on `kilauea up` and at the real Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.operators import Site, installed, need
from cluster.real_product import Product, running_product
from cluster.up_process import running_up, until
from support.pages import LOOKS, ROOT, Block, Played, Shell, blocks

HOWTO = ROOT / "docs/howto"
VOLCANO = "--gang-scheduler-name=volcano"
OWN_GROUPS = "podgroups.scheduling.volcano.sh"
LOADED = 120.0
"""Seconds to wait on a machine that is busy with other tests."""
REPLICAS = {
    "MPIJob": ("mpi", {"Launcher": 1, "Worker": 2}),
    "PaddleJob": ("paddle", {"Worker": 2}),
    "PyTorchJob": ("pytorch", {"Master": 1, "Worker": 2}),
    "TFJob": ("tf", {"Chief": 1, "PS": 1, "Worker": 1}),
    "XGBoostJob": ("xgb", {"Master": 1, "Worker": 1}),
}
"""How the fields of a kind begin, and replicas by their type."""
CONTAINERS = {"TFJob": "tensorflow", "XGBoostJob": "xgboost", "PaddleJob": "paddle", "PyTorchJob": "pytorch"}
"""Names that containers must have."""


@pytest.fixture(autouse=True)
def built() -> None:
    need("training-operator")


operator = partial(installed, "training-operator")


def played(shell: Shell, block: Block) -> Iterator[Played]:
    """Run the commands of a block; what only looks is repeated until it prints what the page shows."""
    for step in block.steps():
        results: list[Played] = []

        def good(step: Any = step, results: list[Played] = results) -> bool:
            results.append(Played(block, step, *shell.run(step.command)))
            return not results[-1].fault() or re.match(LOOKS, step.command) is None

        try:
            until(good, step.command)
        except AssertionError:
            assert results[-1].fault() == ""
        yield results[-1]


def test_what_the_page_shows_happens_on_a_cluster_of_ours(tmp_path: Path) -> None:
    page, shell = HOWTO / "kubeflow.md", Shell(tmp_path / "shell", activated=True)
    with ExitStack() as ends:
        ends.callback(shell.close)
        server = ends.enter_context(running_up(tmp_path / "data", "--nodes", "2", "--node-cpu", "4"))
        ends.enter_context(operator(Site.of(server), tmp_path, VOLCANO))
        shell.run(f"export KUBECONFIG={server.kubeconfig}")
        for block in blocks(page):
            if "file" in block.about:
                (shell.folder / block.about["file"]).write_text(block.text)
            for each in played(shell, block) if block.language == "console" else ():
                assert each.fault() == ""


def job(kind: str) -> dict[str, Any]:
    """A job of a kind whose pods run for two seconds."""
    begin, replicas = REPLICAS[kind]
    container = {"name": CONTAINERS.get(kind, "main"), "image": "i", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"annotations": {"kilauea.dev/run-time": "2s"}}
    each = {"restartPolicy": "Never", "template": {"metadata": metadata, "spec": {"containers": [container]}}}
    spec = {f"{begin}ReplicaSpecs": {name: {"replicas": count, **each} for name, count in replicas.items()}}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": kind.lower()}, "spec": spec}


def pods_of(product: Product, name: str) -> list[dict[str, Any]]:
    """The pods of a job of Kubeflow."""
    items: list[dict[str, Any]] = product.get("pods", "-l", f"training.kubeflow.org/job-name={name}")["items"]
    return items


def succeeds(product: Product, kind: str, name: str) -> None:
    """Wait until a job has succeeded."""
    product.kubectl("wait", "--for=condition=Succeeded", f"{kind.lower()}/{name}", "--timeout=50s")


def runs_whole(product: Product, group: str, size: int) -> bool:
    """True if so many pods of a group of Volcano run."""
    status = product.get(OWN_GROUPS, group).get("status", {})
    return (status.get("phase"), status.get("running")) == ("Running", size)


def test_at_the_real_kubernetes_jobs_are_gangs_with_the_operators_groups_and_with_groups_of_the_page(
    tmp_path: Path,
) -> None:
    with running_product(tmp_path) as product:
        disk = {"ephemeral-storage": "100Gi"}  # which launchers of MPIJobs ask for
        patch = yaml.safe_dump({"status": {"capacity": disk, "allocatable": disk}})
        for name in ("node-1", "node-2", "node-3"):
            product.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)
        with operator(Site.of(product), tmp_path / "with", VOLCANO):
            for kind in REPLICAS:
                product.kubectl("apply", "-f", "-", given=yaml.safe_dump(job(kind)))
            for kind, (_, replicas) in REPLICAS.items():
                succeeds(product, kind, kind.lower())
                pods = pods_of(product, kind.lower())
                groups = {each["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for each in pods}
                assert (len(pods), groups) == (sum(replicas.values()), {kind.lower()})
                assert {each["spec"]["schedulerName"] for each in pods} == {"volcano"}
        text = next(block.text for block in blocks(HOWTO / "operators.md") if "PyTorchJob" in block.text)
        with operator(Site.of(product), tmp_path / "without"):
            product.kubectl("apply", "-f", "-", given=text)
            until(lambda: len(pods_of(product, "torch")) == 3, "its pods", LOADED)
            until(lambda: runs_whole(product, "torch", 3), "its group to run", LOADED)
            assert len(product.get(OWN_GROUPS)["items"]) == 1
