"""Pods with volume claims on `kilauea up`: claims are bound where pods go, and reasons end when they are heeded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cluster.api_process import Server
from cluster.up_process import EXAMPLES, apply, ask, kubectl, running_up, until

SELECTED = "volume.kubernetes.io/selected-node"
STORAGE = list(yaml.safe_load_all((EXAMPLES / "volumes" / "storage.yaml").read_text()))
JOBS = list(yaml.safe_load_all((EXAMPLES / "volumes" / "jobs.yaml").read_text()))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two nodes, with the storage of the example."""
    with running_up(tmp_path_factory.mktemp("volumes") / "data", "--nodes", "2") as server:
        until(lambda: get(server, "storageclass", "standard"), "the default class, as there is no other yet")
        apply(server, *STORAGE)
        yield server


def get(server: Server, kind: str, name: str) -> dict[str, Any]:
    found = ask(server, "get", kind, name, "-o", "json")
    return json.loads(found.stdout) if found.returncode == 0 else {}


def node_of(server: Server, pod: str) -> str:
    return str(get(server, "pod", pod).get("spec", {}).get("nodeName", ""))


def running(server: Server, *pods: str) -> bool:
    return all(get(server, "pod", pod).get("status", {}).get("phase") == "Running" for pod in pods)


def user(name: str, *claims: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    spec = {"containers": [container], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def claim(name: str, of: str | None = None, size: str = "1Gi", **more: Any) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **more}
    spec |= {"storageClassName": of} if of else {}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def test_the_example_runs_and_what_waits_says_why_until_that_is_mended(server: Server) -> None:
    apply(server, *JOBS)
    until(lambda: running(server, "training-worker-0", "training-worker-1", "serving-server-0"), "the pods to run")
    for number in (0, 1):
        node = node_of(server, f"training-worker-{number}")
        data = get(server, "pvc", f"training-worker-{number}-data")
        assert data["spec"]["volumeName"] == f"disk-of-{node}"
        assert data["status"]["phase"] == "Bound"
    cache = get(server, "pvc", "cache")
    assert cache["metadata"]["annotations"][SELECTED] == node_of(server, "serving-server-0") == "node-1"
    reason = "claim archive asks for 50Gi of class fast"

    def said() -> str:
        conditions = get(server, "pod", "archiving-writer-0").get("status", {}).get("conditions") or ()
        return " ".join(str(each.get("message", "")) for each in conditions)

    until(lambda: "did not have enough free storage" in said(), "the reason in the pod")
    until(lambda: reason in kubectl(server, "describe", "podgroups"), "the claim in the pod group")
    larger = {**STORAGE[-1], "capacity": "60Gi"}
    apply(server, larger)
    until(lambda: running(server, "archiving-writer-0"), "the pod to run, now that there is room")


def test_a_claim_without_a_class_gets_a_volume_of_the_default_class(server: Server) -> None:
    apply(server, claim("plain"), user("web", "plain"))
    until(lambda: running(server, "web"), "the pod to run")
    plain = get(server, "pvc", "plain")
    assert plain["spec"]["storageClassName"] == "standard"
    assert plain["metadata"]["annotations"][SELECTED] == node_of(server, "web")


def test_pods_that_share_a_claim_run_with_one_volume(server: Server) -> None:
    apply(server, claim("shared", "fast"), user("one", "shared"), user("two", "shared"))
    until(lambda: running(server, "one", "two"), "both pods to run")
    assert node_of(server, "one") == node_of(server, "two")


def test_a_claim_for_one_pod_at_a_time_makes_the_second_wait(server: Server) -> None:
    apply(server, claim("single", "fast", accessModes=["ReadWriteOncePod"]), user("first", "single"))
    until(lambda: running(server, "first"), "the first pod to run")
    apply(server, user("second", "single"))
    words = "ReadWriteOncePod access mode already in-use by another pod"
    until(lambda: words in kubectl(server, "describe", "pod", "second"), "the reason")
    kubectl(server, "delete", "pod", "first", "--now")
    until(lambda: running(server, "second"), "the second pod to run")
