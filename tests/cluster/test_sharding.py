"""Two `kilauea scheduler` processes share out the nodes of one `kilauea up`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cluster.api_process import Client, Server
from cluster.test_scheduler_command import scheduling
from cluster.up_process import PODS, Obj, apply, group, pod, running_up, until

SHARDS = "/apis/shard.volcano.sh/v1alpha1/nodeshards"
SHARING = """
schedulerConfigs:
- {name: east, policies: [{name: node-limit, arguments: {maxNodes: 2}}]}
- {name: west}
shardSyncPeriod: 1s
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_up(tmp_path_factory.mktemp("shards") / "data", "--nodes", "4", "--no-scheduler") as running:
        yield running


def shards(client: Client) -> dict[str, Any]:
    return {each["metadata"]["name"]: each for each in client.get(SHARDS)["items"]}


def in_use(client: Client) -> dict[str, int]:
    """The number of nodes that each scheduler works on."""
    return {name: len(each.get("status", {}).get("nodesInUse", [])) for name, each in shards(client).items()}


def team(name: str, size: int) -> list[Obj]:
    """A group whose pods are for the scheduler of this name."""
    pods = [pod(f"{name}-{number}", group=name) for number in range(size)]
    for each in pods:
        each["spec"]["schedulerName"] = name
    return [group(name, 1), *pods]


def nodes_of(client: Client, name: str, size: int) -> set[str]:
    return {client.get(f"{PODS}/{name}-{number}")["spec"].get("nodeName", "") for number in range(size)}


def test_each_scheduler_keeps_to_its_nodes_and_a_plan_agrees(server: Server, tmp_path: Path) -> None:
    client = server.client()
    config = {"apiVersion": "v1", "kind": "ConfigMap"}
    metadata = {"name": "volcano-sharding-configmap", "namespace": "volcano-system"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}}
    apply(server, space, {**config, "metadata": metadata, "data": {"sharding.yaml": SHARING}})
    until(lambda: set(shards(client)) == {"east", "west"}, "NodeShards")
    with ExitStack() as stack:
        for name in ("east", "west"):
            flags = ("--leader-elect=false", "--scheduler-name", name, "--scheduler-sharding-mode=hard")
            stack.enter_context(scheduling(server, tmp_path / name, *flags, "--scheduler-sharding-name", name))
        until(lambda: in_use(client) == {"east": 2, "west": 2}, "nodes in use")
        apply(server, *team("east", 6), *team("west", 6))
        until(lambda: "" not in nodes_of(client, "east", 6) | nodes_of(client, "west", 6), "pods on nodes")
        own = {name: set(each["spec"]["nodesDesired"]) for name, each in shards(client).items()}
        assert nodes_of(client, "east", 6) <= own["east"]
        assert nodes_of(client, "west", 6) <= own["west"]
        later = [{**each, "metadata": {**each["metadata"], "name": "later"}} for each in team("west", 1)[1:]]
        command = [sys.executable, "-m", "kilauea", "plan", "--kubeconfig", str(server.kubeconfig), "-f", "-"]
        options = ("--scheduler-name=west", "--scheduler-sharding-mode=hard", "--scheduler-sharding-name=west")
        given = json.dumps(later[0])
        done = subprocess.run(
            [*command, *options, "-o", "json"], input=given, capture_output=True, text=True, check=True
        )
        (node,) = json.loads(done.stdout)["binds"].values()
        assert node in own["west"]
