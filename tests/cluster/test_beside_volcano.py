"""Volcano's own controllers with our scheduler at the real Kubernetes, and our controllers with Volcano's scheduler.

Either pair plays the same story with a job, with the same flags and beside our webhooks. A third pair, both of them
ours, plays it too, and shows that the story is right where Volcano's programs cannot be built.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.deployed import free_port
from cluster.real_product import Product, running_product
from cluster.up_process import until
from support.pages import ROOT

sys.path.insert(0, str(ROOT / "tests/kubernetes"))
try:
    import real_operators
finally:
    sys.path.remove(str(ROOT / "tests/kubernetes"))

PROGRAMS = {"controllers": "vc-controller-manager", "scheduler": "vc-scheduler"}
"""Our commands, and the programs of Volcano that do the same."""
CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
Obj = dict[str, Any]


def program(command: str, whose: str) -> list[str]:
    """The words that start a program."""
    name = PROGRAMS[command]
    if whose == "volcano":
        return [str(real_operators.folder(name) / name)]
    return [sys.executable, "-c", f"from kilauea.cli.programs import {name.replace('-', '_')} as run; run()"]


def instead(product: Product, command: str, whose: str) -> None:
    """Start a program in the place of a command of the product."""
    product.processes[command].kill()
    product.processes[command].wait()
    kubeconfig = product.access[command] if whose == "ours" else product.kubeconfig
    flags = ["--kubeconfig", str(kubeconfig), "--leader-elect=false", "--scheduler-name=volcano"]
    if command == "scheduler":
        conf = product.folder / "volcano-scheduler.conf"
        conf.write_text(CONF)
        flags += [f"--scheduler-conf={conf}", f"--listen-address=127.0.0.1:{free_port()}"]
    with (product.folder / f"{whose}-{command}.log").open("wb") as out:
        process = subprocess.Popen([*program(command, whose), *flags], stdout=out, stderr=out)
    product.processes[command] = process


def task(name: str, replicas: int, cpu: str, **annotations: str) -> Obj:
    """A task of a job."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    metadata = {"annotations": {key.replace("_", "/"): value for key, value in annotations.items()}}
    pod = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"name": name, "replicas": replicas, "template": pod}


def job(name: str, minimum: int, *tasks: Obj, **spec: Any) -> str:
    """A job that needs so many pods."""
    spec = {"schedulerName": "volcano", "queue": "default", "minAvailable": minimum, "maxRetry": 3, **spec}
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}}
    return yaml.safe_dump({**body, "spec": {**spec, "tasks": list(tasks)}})


def command(action: str, product: Product, name: str) -> str:
    """A Command of the bus for a job, as `vcctl job suspend` writes it."""
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "controller": True}
    owner["uid"] = product.get("vcjob", name)["metadata"]["uid"]
    metadata = {"name": f"{name}-{action.lower()}", "namespace": "default", "ownerReferences": [owner]}
    body = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": metadata, "action": action}
    return yaml.safe_dump({**body, "target": owner})


def phase(product: Product, name: str) -> str:
    """The phase of a job."""
    return str(product.get("vcjob", name).get("status", {}).get("state", {}).get("phase", ""))


def pods(product: Product, name: str) -> list[Obj]:
    """The pods of a job."""
    found: list[Obj] = product.get("pods", "-l", f"volcano.sh/job-name={name}")["items"]
    return found


def reaches(product: Product, name: str, wanted: str) -> None:
    """Wait until a job is in a phase; fail with what the programs said."""
    try:
        until(lambda: phase(product, name) == wanted, f"{name} to be {wanted}")
    except AssertionError as error:
        logs = "\n".join(path.read_text()[-2000:] for path in sorted(product.folder.glob("*-*.log")))
        raise AssertionError(f"{error}: it is {phase(product, name)}\n{logs}") from None


def refused(product: Product, name: str) -> bool:
    """True if all pods of a job of four exist and the scheduler has said of each that it has no place."""
    said = [
        any(
            each["type"] == "PodScheduled" and each["status"] == "False" for each in pod["status"].get("conditions", ())
        )
        for pod in pods(product, name)
    ]
    return said == [True] * 4


@pytest.mark.parametrize(("controllers", "scheduler"), [("ours", "ours"), ("volcano", "ours"), ("ours", "volcano")])
def test_a_job_runs_waits_scales_stops_and_resumes_with_controllers_and_scheduler_of_either_kind(
    controllers: str, scheduler: str, tmp_path: Path
) -> None:
    whose = {"controllers": controllers, "scheduler": scheduler}
    for name in (PROGRAMS[part] for part, kind in whose.items() if kind == "volcano"):
        if reason := real_operators.lacks(name):
            pytest.skip(reason)
    with running_product(tmp_path) as product:
        for part, kind in whose.items():
            instead(product, part, kind)
        apply = partial(product.kubectl, "apply", "-f", "-")

        # A gang of two tasks runs whole, and ends with its master.
        end = [{"event": "TaskCompleted", "action": "CompleteJob"}]
        master = {**task("master", 1, "2", **{"kilauea.dev_run-time": "4s"}), "policies": end}
        apply(given=job("train", 4, master, task("worker", 3, "2"), plugins={"svc": [], "env": []}))
        reaches(product, "train", "Running")
        placed = [(pod["spec"]["schedulerName"], bool(pod["spec"].get("nodeName"))) for pod in pods(product, "train")]
        assert placed == [("volcano", True)] * 4
        reaches(product, "train", "Completed")

        # One of which three pods fit is admitted, and none of its pods is bound; a smaller one is.
        apply(given=job("large", 4, task("worker", 4, "11")))
        until(lambda: refused(product, "large"), "the pods of large to be refused")
        assert {pod["spec"].get("nodeName") for pod in pods(product, "large")} == {None}
        fewer = [("minAvailable", 3), ("tasks/0/minAvailable", 3), ("tasks/0/replicas", 3)]
        patch = [{"op": "replace", "path": f"/spec/{path}", "value": value} for path, value in fewer]
        product.kubectl("patch", "vcjob", "large", "--type=json", "-p", yaml.safe_dump(patch))
        reaches(product, "large", "Running")
        assert len({pod["spec"]["nodeName"] for pod in pods(product, "large")}) == 3

        # It is suspended and resumed by commands, and leaves nothing behind.
        product.kubectl("create", "-f", "-", given=command("AbortJob", product, "large"))
        reaches(product, "large", "Aborted")
        until(lambda: not pods(product, "large"), "the pods of large to go")
        product.kubectl("create", "-f", "-", given=command("ResumeJob", product, "large"))
        reaches(product, "large", "Running")
        product.kubectl("delete", "vcjob", "large")
        until(lambda: not pods(product, "large"), "the pods of large to go")
        until(
            lambda: "large" not in product.kubectl("get", "podgroups.scheduling.volcano.sh", "-o", "name"),
            "its group to go",
        )
