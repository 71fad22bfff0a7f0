"""Cards that pods share on a real `kilauea up`: the scheduler gives them, the simulated device plugins check them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cluster.api_process import Client, Server
from cluster.up_process import PODS, Obj, apply, group, pod, running_up, said, until

CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.NodeLockEnable: true
      deviceshare.SchedulePolicy: binpack
      deviceshare.KnownGeometriesCMName: our-cards
"""
RECORD = "volcano.sh/vgpu-ids-new"
MIG = """
nvidia:
  knownMigGeometries:
  - models: [SPLIT]
    allowedGeometries:
    - {group: g1, geometries: [{name: half, memory: 50, count: 2}]}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A cluster to which each test adds nodes with cards of its own."""
    folder = tmp_path_factory.mktemp("cards")
    conf = folder / "cards.conf"
    conf.write_text(CONF)
    with running_up(folder / "data", "--nodes", "1", "--scheduler-conf", str(conf)) as running:
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "kube-system"}}
        config["metadata"] |= {"name": "our-cards"}  # type: ignore[operator]  # it is a dict
        config["data"] = {"device-config.yaml": MIG}
        apply(running, config)
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> Client:
    """Requests to it."""
    return server.client()


def card_node(name: str, of: str, mode: str, model: str = "A100") -> Obj:
    """A node whose device plugin registers one card; its label says which test it belongs to."""
    text = f"{name}-0,4,100,NVIDIA-{model},true,{mode}:"
    metadata = {"name": name, "labels": {"test": of}, "annotations": {"volcano.sh/node-vgpu-register": text}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def asking(name: str, memory: int, of: str, **annotations: str) -> list[Obj]:
    """A group of one pod that asks for memory of a card of a test."""
    made = pod(name, group=name)
    made["spec"]["nodeSelector"] = {"test": of}
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(memory)}
    made["spec"]["containers"][0]["resources"] |= {"limits": limits}
    made["spec"]["containers"][0]["resources"]["requests"] |= limits
    made["metadata"]["annotations"] |= annotations
    return [group(name, 1), made]


def phase(client: Client, name: str) -> str:
    return str(client.get(f"{PODS}/{name}")["status"].get("phase"))


def annotation(client: Client, name: str, key: str = RECORD) -> str:
    return str(client.get(f"{PODS}/{name}")["metadata"]["annotations"].get(key, ""))


def test_nodes_offer_the_cards_that_they_register(server: Server, client: Client) -> None:
    apply(server, card_node("offering", "offer", "hami-core"))
    path = "/api/v1/nodes/offering"
    until(lambda: client.get(path)["status"].get("allocatable"), "the node to register")
    offered = client.get(path)["status"]["allocatable"]
    assert (offered["volcano.sh/vgpu-number"], offered["volcano.sh/vgpu-memory"]) == ("4", "100")


def test_pods_get_their_cards_and_start_one_after_the_other_on_a_locked_node(server: Server, client: Client) -> None:
    nodes, names = ("gpu-a", "gpu-b"), ["one", "two", "three"]
    apply(server, *(card_node(name, "lock", "hami-core") for name in nodes))
    for name in names:
        apply(server, *asking(name, 60, "lock", **{"volcano.sh/vgpu-mode": "hami-core"}))
    until(lambda: [phase(client, name) for name in names].count("Running") == 2, "two of three pods to run")
    running = [name for name in names if phase(client, name) == "Running"]
    assert {annotation(client, name) for name in running} == {"gpu-a-0,NVIDIA,60,0:", "gpu-b-0,NVIDIA,60,0:"}
    until(
        lambda: all(annotation(client, name, "volcano.sh/bind-phase") == "success" for name in running),
        "the binds to succeed",
    )
    (waiting,) = set(names) - set(running)
    client.send("DELETE", f"{PODS}/{running[0]}")
    until(lambda: phase(client, waiting) == "Running", "the third pod to get the card that is free again")

    def are_unlocked() -> bool:
        found = [client.get(f"/api/v1/nodes/{name}")["metadata"]["annotations"] for name in nodes]
        return all("hamivgpu" not in annotations for annotations in found)

    until(are_unlocked, "the nodes to be unlocked, which is written after the status of the pod")


def test_a_plan_at_the_cluster_names_the_instance_that_a_pod_would_get(
    server: Server, client: Client, tmp_path: Path
) -> None:
    apply(server, card_node("split", "plan", "mig", "SPLIT"))
    until(lambda: client.get("/api/v1/nodes/split")["status"].get("allocatable"), "the node to register")
    conf = tmp_path / "cards.conf"
    conf.write_text(CONF)
    manifest = yaml.safe_dump_all(asking("planned", 40, "plan", **{"volcano.sh/vgpu-mode": "mig"}))
    command = [sys.executable, "-m", "kilauea", "plan", "-f", "-", "-o", "json", "--scheduler-conf", str(conf)]
    command += ["--kubeconfig", str(server.kubeconfig)]
    done = subprocess.run(command, input=manifest, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cards"] == {
        "default/planned": [{"kind": "vgpu", "container": 0, "card": "split-0[0-0]", "memory": 50, "cores": 0}]
    }


def test_instances_of_a_card_in_mode_mig_are_given_out(server: Server, client: Client) -> None:
    apply(server, card_node("halves", "mig", "mig", "SPLIT"))
    for name in ("m1", "m2", "m3"):
        apply(server, *asking(name, 40, "mig", **{"volcano.sh/vgpu-mode": "mig"}))
    until(lambda: sum(phase(client, name) == "Running" for name in ("m1", "m2", "m3")) == 2, "two pods to run")
    found = sorted(filter(None, (annotation(client, name) for name in ("m1", "m2", "m3"))))
    assert found == ["halves-0[0-0],NVIDIA,50,0:", "halves-0[0-1],NVIDIA,50,0:"]


def test_a_pod_whose_cards_another_has_is_refused_by_its_node(server: Server, client: Client) -> None:
    apply(server, card_node("taken", "forge", "mig", "SPLIT"))
    apply(server, *asking("owner", 40, "forge", **{"volcano.sh/vgpu-mode": "mig"}))
    until(lambda: phase(client, "owner") == "Running", "the owner of the card to run")
    _, forged = asking("forged", 40, "forge")
    forged["spec"]["nodeName"] = "taken"
    forged["metadata"]["annotations"] |= {RECORD: annotation(client, "owner"), "volcano.sh/vgpu-node": "taken"}
    apply(server, forged)
    until(lambda: phase(client, "forged") == "Failed", "the forged pod to fail")
    status = client.get(f"{PODS}/forged")["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert "is given to 2 containers" in status["message"]
    until(lambda: "UnexpectedAdmissionError" in said(client, "Pod", "forged"), "the event")
