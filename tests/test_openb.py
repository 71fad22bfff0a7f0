"""A plan for the GPU trace openb: every pod that fits is placed, nothing is overbooked.

The trace stands beside the checkout; without it these tests are skipped. The objects are made by benchmarks/openb.py,
what the plan must satisfy is computed here from the tables themselves. Shared cards count as whole cards.
"""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import SchedulerConf, parse_conf
from kilauea.engine.cycle import cycle
from kilauea.engine.plan import Plan
from kilauea.engine.plugins import PLUGINS
from kilauea.runtime.inputs.objects import Cluster, read_cluster
from kilauea.simulator.scenario import build_state

CONVERTER = Path(__file__).resolve().parents[1] / "benchmarks" / "openb.py"
RESOURCES = 3

pytestmark = pytest.mark.slow


class Trace(NamedTuple):
    """A variant of the trace: its tables, its objects, and the plan for them."""

    nodes: list[dict[str, str]]
    pods: list[dict[str, str]]
    cluster: Cluster
    plan: Plan


def rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def conf() -> SchedulerConf:
    """No queue has a say, so that a pod waits only when no node takes it."""
    names = ("priority", "gang", "predicates", "nodeorder", "binpack")
    return parse_conf(
        {"actions": "allocate", "tiers": [{"plugins": [{"name": name} for name in names]}]}, PLUGINS, ACTIONS
    )


@pytest.fixture(scope="module", params=["default", "gpuspec33"])
def trace(request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    tables = shared / "data" / "openb_nodes.csv.gz", shared / "data" / f"openb_pods_{request.param}.csv.gz"
    if not all(table.is_file() for table in tables):
        pytest.skip("the trace openb is not in the shared folder")
    objects = tmp_path_factory.mktemp("openb") / "objects.json"
    subprocess.run([sys.executable, str(CONVERTER), *map(str, tables), str(objects)], check=True)
    cluster = read_cluster([str(objects)])
    plan = cycle(build_state(cluster.objects), conf(), cluster.newest)
    return Trace(rows(tables[0]), rows(tables[1]), cluster, plan)


def binds(trace: Trace) -> dict[str, str]:
    """Nodes by name of the pod."""
    return {bind.pod.removeprefix("openb/"): bind.node for bind in trace.plan.binds}


def asked(pod: dict[str, str]) -> list[int]:
    return [int(pod["cpu_milli"]), int(pod["memory_mib"]), int(pod["num_gpu"])]


def free(trace: Trace) -> np.ndarray:
    """(nodes, RESOURCES) what the plan leaves of every node."""
    position = {node["sn"]: number for number, node in enumerate(trace.nodes)}
    left = np.array([[int(node[key]) for key in ("cpu_milli", "memory_mib", "gpu")] for node in trace.nodes])
    where = binds(trace)
    for pod in trace.pods:
        if pod["name"] in where:
            left[position[where[pod["name"]]]] -= asked(pod)
    return left


def test_the_objects_of_the_trace_are_read_without_a_warning(trace: Trace) -> None:
    assert trace.cluster.warnings == []
    assert trace.plan.findings == ()


def test_with_shared_cards_as_whole_cards_every_pod_is_bound_or_waits(trace: Trace) -> None:
    waiting = {pending.pod.removeprefix("openb/") for pending in trace.plan.pending}
    bound = set(binds(trace))
    assert len(bound) == len(trace.plan.binds)
    assert bound & waiting == set()
    assert bound | waiting == {pod["name"] for pod in trace.pods}
    assert {pending.code for pending in trace.plan.pending} == {"Unschedulable"}


def test_with_shared_cards_as_whole_cards_no_node_is_overbooked(trace: Trace) -> None:
    assert free(trace).shape == (len(trace.nodes), RESOURCES)
    assert (free(trace) >= 0).all()
    assert max(Counter(binds(trace).values()).values()) <= 110


def test_every_bound_pod_is_on_a_node_with_a_card_model_that_its_gpu_spec_allows(trace: Trace) -> None:
    models = {node["sn"]: node["model"] for node in trace.nodes}
    specs = {pod["name"]: pod["gpu_spec"] for pod in trace.pods}
    wrong = [name for name, node in binds(trace).items() if specs[name] and models[node] not in specs[name].split("|")]
    assert wrong == []


def test_with_shared_cards_as_whole_cards_no_pod_waits_that_fits_on_an_allowed_node(trace: Trace) -> None:
    left, bound = free(trace), binds(trace)
    models = np.array([node["model"] for node in trace.nodes])
    fitting = []
    for pod in trace.pods:
        if pod["name"] not in bound:
            fits = (left >= asked(pod)).all(axis=1)
            if pod["gpu_spec"]:
                fits &= np.isin(models, pod["gpu_spec"].split("|"))
            if fits.any():
                fitting.append(pod["name"])
    assert fitting == []


def test_the_plan_is_the_same_whatever_the_order_of_the_objects(trace: Trace) -> None:
    again = cycle(build_state(list(reversed(trace.cluster.objects))), conf(), trace.cluster.newest)
    assert again == trace.plan
