"""Extended resources that devices serve on `kilauea up`: a pod gets a claim, runs, and its claim goes with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cluster.api_process import Server
from cluster.up_process import apply, ask, kubectl, running_up, until
from kilauea.cli.main import main

GPU = "example.com/gpu"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two nodes; a driver offers one device of node-1."""
    with running_up(tmp_path_factory.mktemp("extended") / "data", "--nodes", "2") as server:
        pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d", "nodeName": "node-1", "pool": pool, "devices": [{"name": "a"}]}
        meta = {"apiVersion": "resource.k8s.io/v1"}
        apply(server, meta | {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec})
        served = {"extendedResourceName": GPU}
        apply(server, meta | {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": served})
        yield server


def user(name: str, command: str) -> dict[str, Any]:
    amounts = {"cpu": "1", GPU: "1"}
    resources = {"requests": amounts, "limits": {GPU: "1"}}
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", command], "resources": resources}
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def pod(server: Server, name: str) -> dict[str, Any]:
    found = ask(server, "get", "pod", name, "-o", "json")
    return json.loads(found.stdout) if found.returncode == 0 else {}


def phase(server: Server, name: str) -> str:
    return str(pod(server, name).get("status", {}).get("phase", ""))


def claims(server: Server) -> list[str]:
    return kubectl(server, "get", "resourceclaims", "-o", "name").split()


def test_a_device_goes_from_pod_to_pod_and_no_claim_is_left(server: Server, tmp_path: Path) -> None:
    apply(server, user("first", "sleep 3600"))
    until(lambda: phase(server, "first") == "Running", "the first pod to run")
    first = pod(server, "first")
    assert first["spec"]["nodeName"] == "node-1"
    (claim,) = claims(server)
    assert claim.endswith(first["status"]["extendedResourceClaimStatus"]["resourceClaimName"])
    apply(server, user("second", "sleep 1"))

    def said() -> str:
        conditions = pod(server, "second").get("status", {}).get("conditions") or ()
        return " ".join(str(each.get("message", "")) for each in conditions)

    until(lambda: f"{GPU} needs 1 device of class gpu (1 device matches, in use)" in said(), "the reason")
    dump = tmp_path / "dump.yaml"
    dump.write_text(kubectl(server, "get", "nodes,pods,resourceclaims,resourceslices,deviceclasses,queues,podgroups",
                            "-A", "-o", "yaml"))  # fmt: skip
    assert planned(dump) == {"binds": [], "pending": ["default/second"]}
    kubectl(server, "delete", "pod", "first")
    until(lambda: phase(server, "second") == "Succeeded", "the second pod to run and end")
    until(lambda: not claims(server), "the claims to go")
    apply(server, user("third", "true"))
    until(lambda: phase(server, "third") == "Succeeded", "the third pod to run and end")


def planned(dump: Path) -> dict[str, Any]:
    """What a plan says of a dump."""
    result = CliRunner().invoke(main, ["plan", "-f", str(dump), "-o", "json"])
    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)
    return {
        "binds": sorted(each["pod"] for each in plan["binds"]),
        "pending": sorted(each["pod"] for each in plan["pending"]),
    }


RULE = {
    "apiVersion": "resource.k8s.io/v1beta2",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "broken"},
    "spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "broken", "effect": "NoExecute"}},
}


def test_a_pod_is_evicted_from_a_device_that_an_administrator_taints(server: Server) -> None:
    apply(server, user("victim", "sleep 3600"))
    until(lambda: phase(server, "victim") == "Running", "the pod to run")
    apply(server, RULE)
    until(lambda: not pod(server, "victim"), "the pod to be evicted")
    told = kubectl(server, "get", "devicetaintrule", "broken", "-o", "jsonpath={.status.conditions[0].reason}")
    assert told in ("PodsPendingEviction", "Completed")
    apply(server, user("later", "sleep 3600"))
    message = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}"
    until(lambda: "Insufficient" in kubectl(server, "get", "pod", "later", "-o", message), "the next pod to wait")
    kubectl(server, "delete", "devicetaintrule", "broken")
    until(lambda: phase(server, "later") == "Running", "the next pod to run once the rule is gone")
    kubectl(server, "delete", "pod", "later")
    until(lambda: not claims(server), "its claim to go")
