"""`kilauea up` in tests: kubectl at it, objects as they are written, and waiting for what is to come.

with running_up(folder, "--nodes", "2") as server:
    kubectl(server, "get", "nodes")
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from cluster.api_process import Client, Server, running_server, start_server

SECONDS = 240.0
"""After which something that is waited for does not come: far more than it takes on a busy machine."""
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
GROUP = "scheduling.k8s.io/group-name"
SCHEDULING = "scheduling.volcano.sh/v1beta1"
Obj = dict[str, Any]


@contextmanager
def running_up(data_dir: Path, *options: str) -> Iterator[Server]:
    """A cluster for the length of a block, which ends it and asserts that it ended cleanly."""
    with running_server(data_dir, "--durability", "normal", *options, command="up") as server:
        yield server


def start_up(data_dir: Path, *options: str) -> Server:
    """A cluster that the test ends itself."""
    return start_server(data_dir, "--durability", "normal", *options, command="up")


def kubectl(server: Server, *words: str, given: str = "") -> str:
    """What kubectl prints; it must not fail."""
    done = ask(server, *words, given=given)
    assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
    return done.stdout


def ask(server: Server, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run kubectl, whatever comes of it."""
    environment = os.environ | {"KUBECONFIG": str(server.kubeconfig), "HOME": str(server.data_dir)}
    return subprocess.run(
        ["kubectl", *words], input=given, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False
    )


def apply(server: Server, *objects: Obj) -> None:
    """Apply objects with kubectl."""
    kubectl(server, "apply", "-f", "-", given=yaml.safe_dump_all(objects))


def until(true: Callable[[], Any], what: str, seconds: float = SECONDS) -> None:
    """Wait for something that is to become true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"timed out waiting for {what}"
        time.sleep(0.05)


def queue(name: str, **spec: Any) -> Obj:
    """A queue."""
    return {"apiVersion": SCHEDULING, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def group(name: str, size: int, queue: str = "default") -> Obj:
    """A pod group."""
    spec = {"minMember": size, "queue": queue}
    return {"apiVersion": SCHEDULING, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def pod(name: str, *, group: str = "", cpu: str = "1", command: str = "sleep 3600", **annotations: str) -> Obj:
    """A pod for the scheduler named volcano; `_` in the names of annotations stands for itself."""
    if group:
        annotations = {GROUP: group, **annotations}
    container = {"name": "main", "image": "demo", "command": ["sh", "-c", command]}
    spec = {"schedulerName": "volcano", "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    spec["containers"] = [container | {"resources": {"requests": {"cpu": cpu}}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": spec}


def gang(name: str, size: int, *, queue: str = "default", least: int = 0, **given: str) -> list[Obj]:
    """A pod group and its pods, all of which it needs, or the least."""
    members = [pod(f"{name}-{number}", group=name, **given) for number in range(size)]
    return [group(name, least or size, queue), *members]


def phases(client: Client, *names: str) -> Counter[str]:
    """How many pods are in which phase: all, or those whose name begins so."""
    pods = client.get(PODS)["items"]
    return Counter(each["status"]["phase"] for each in pods if each["metadata"]["name"].startswith(names or ("",)))


def uids(client: Client, *names: str) -> dict[str, str]:
    """The uids of pods by name."""
    pods = (each["metadata"] for each in client.get(PODS)["items"])
    return {each["name"]: each["uid"] for each in pods if each["name"].startswith(names or ("",))}


def said(client: Client, kind: str, name: str) -> str:
    """Reasons and messages of the events about an object, one a line."""
    events = client.get("/api/v1/events")["items"]
    about = [e for e in events if (e["involvedObject"].get("kind"), e["involvedObject"].get("name")) == (kind, name)]
    return "\n".join(f"{event['reason']}: {event['message']}" for event in about)
