"""A cluster for a story at a real API server: its objects, and processes of ours that work on them over HTTPS."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import rights
from playing import Client, install_definitions
from real_binaries import HERE, build, missing
from real_server import AS_OURS, Server, real_server

CONF = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: capacity
    enabledHierarchy: true
  - name: nodeorder
"""
NODES, CORES = 2, 4
STOP_SECONDS = 6
"""How long a pod takes to end; a scheduler starts in less."""
PATIENCE = 60
QUICK = ("--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=200ms")
"""Another scheduler takes over soon."""
SCHEDULING = "scheduling.volcano.sh/v1beta1"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


class Broken(Exception):
    """Something is not as it must be; the message says what."""


def until(what: str, holds: Callable[[], Any]) -> None:
    """Wait until something holds.

    Raises:
        Broken: it does not in time.
    """
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise Broken(f"{what}: not within {PATIENCE} s")
        time.sleep(0.05)


class Cluster:
    """An API server, the objects of one story there, and the processes that work on them.

    Args:
        kubeconfig: of the server's administrator.
        folder: for logs, configuration and report.
        ends: ends the processes.
    """

    def __init__(self, kubeconfig: Path, folder: Path, ends: ExitStack) -> None:
        self.client = Client.from_kubeconfig(kubeconfig)
        self.namespace = f"plans-{secrets.token_hex(3)}"
        self.report = folder / "report.jsonl"
        self.conf = folder / "scheduler.conf"
        self._kubeconfig, self._folder, self._ends = kubeconfig, folder, ends
        self._access: dict[str, Path] = {}
        self.conf.write_text(CONF)

    # --- objects

    def send(self, method: str, path: str, body: Any = None, as_: str = "application/json") -> Any:
        """What the server answers; an object may be there before it is made, as service accounts are on some servers.

        Raises:
            Broken: it refuses.
        """
        data = None if body is None else json.dumps(body).encode()
        answer = self.client.send(method, path, data, {"Content-Type": as_})
        if answer.code >= 300 and answer.code != 409:
            raise Broken(f"{method} {path}: {answer.code} {answer.body}")
        return answer.body

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def pods(self, group: str) -> list[dict[str, Any]]:
        """The pods of a group."""
        items: list[dict[str, Any]] = self.send("GET", f"{self._pods}?labelSelector=group%3D{group}")["items"]
        return items

    def running(self, group: str) -> list[dict[str, Any]]:
        """Those that run and are not on their way out."""
        return [each for each in self.pods(group) if each["status"].get("phase") == "Running" and not goes(each)]

    def prepare(self) -> None:
        """Definitions, the roles of the chart, a namespace whose pods the server lets in, priorities, and queues."""
        install_definitions(self.client)
        rights.install(self.client)
        self._access = rights.kubeconfigs(self.client, self._kubeconfig, self._folder)
        self.send("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        self.send("POST", accounts, {"metadata": {"name": "default"}})
        for name, value in (("low", 10), ("high", 1000)):
            body = {"metadata": {"name": name}, "value": value}
            self.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        for name, parent, cores in (("company", "root", 8), ("red", "company", 4), ("blue", "company", 4)):
            spec = {"parent": parent, "weight": 1, "reclaimable": True, "deserved": {"cpu": cores}}
            self.send(
                "POST", QUEUES, {"apiVersion": SCHEDULING, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
            )

    def gang(self, name: str, queue: str, priority: str, minimum: int, size: int, cores: int) -> None:
        """A pod group, and its pods once it is known."""
        spec = {"minMember": minimum, "queue": queue, "priorityClassName": priority}
        group = {"apiVersion": SCHEDULING, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
        self.send("POST", f"/apis/{SCHEDULING}/namespaces/{self.namespace}/podgroups", group)
        time.sleep(1)
        for number in range(size):
            self.send("POST", self._pods, _pod(name, number, priority, cores))

    def untaint(self, count: int = NODES) -> None:
        """Take off the taint of new nodes, so many, as the controller manager does when they are ready."""

        def nodes() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = self.send("GET", "/api/v1/nodes")["items"]
            return found

        until("nodes to register", lambda: len(nodes()) == count)
        for node in nodes():
            path = f"/api/v1/nodes/{node['metadata']['name']}"
            self.send("PATCH", path, {"spec": {"taints": None}}, "application/merge-patch+json")

    def history(self, version: str) -> list[dict[str, Any]]:
        """All states of pods since a version, in order."""
        where = f"{self._pods}?watch=1&resourceVersion={version}&timeoutSeconds=1"
        answer = self.client.send("GET", where, None, {}).body
        events = answer if isinstance(answer, list) else [answer]
        wrong = [each for each in events if each["type"] not in ("ADDED", "MODIFIED", "DELETED")]
        if wrong:
            raise Broken(f"watch of pods since {version}: {wrong}")
        return [each["object"] for each in events]

    def version(self) -> str:
        """Of the pods, now."""
        return str(self.send("GET", self._pods)["metadata"]["resourceVersion"])

    # --- processes

    def run(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """A command of `kilauea` that runs until the end of the story, with its rights in the chart if it has any."""
        return self._start(name, [sys.executable, "-m", "kilauea", name], words)

    def scheduler(self) -> subprocess.Popen[bytes]:
        """A scheduler whose plans are compared; ready."""
        program = [sys.executable, str(HERE / "compared_scheduler.py"), str(self.report), str(self._kubeconfig)]
        conf = str(self._folder / "scheduler.conf")
        options = ("--enable-metrics=false", *QUICK, "--scheduler-conf", conf)
        return self._start("scheduler", program, options)

    def _start(self, name: str, program: Sequence[str], options: Iterable[str]) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("ab") as log:
            command = [*program, "--kubeconfig", str(self._access.get(name, self._kubeconfig)), *options]
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self._ends.callback(_kill, process)
        return process

    def logs(self) -> str:
        """What the processes have said."""
        return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in sorted(self._folder.glob("*.log")))


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def goes(pod: dict[str, Any]) -> bool:
    """Whether a pod is on its way out."""
    return "deletionTimestamp" in pod["metadata"]


def promised_node(pod: dict[str, Any]) -> str:
    """The node on which a pod is promised room; empty if it is not."""
    return str(pod["status"].get("nominatedNodeName") or "")


def _pod(group: str, number: int, priority: str, cores: int) -> dict[str, Any]:
    """A pod that runs until it is told to go, and takes its time then."""
    notes = {"scheduling.k8s.io/group-name": group, "kilauea.dev/stop-time": f"{STOP_SECONDS}s"}
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cores)}}}
    return {
        "metadata": {"name": f"{group}-{number}", "labels": {"group": group}, "annotations": notes},
        "spec": {
            "schedulerName": "volcano",
            "automountServiceAccountToken": False,
            "priorityClassName": priority,
            "terminationGracePeriodSeconds": 4 * STOP_SECONDS,
            "containers": [container],
        },
    }


def open_queues(cluster: Cluster) -> set[str]:
    """The queues that take work."""
    items = cluster.send("GET", QUEUES)["items"]
    return {each["metadata"]["name"] for each in items if each.get("status", {}).get("state") == "Open"}


def tell(what: str, story: Callable[[Cluster, Server, ExitStack], str]) -> int:
    """Play a story at the real API server and print how it ended, or why it cannot be played; returns the exit code.

    Args:
        what: the story's name.
        story: gets its cluster, the server, and what ends with it; returns what it has seen.
    """
    if missing() and shutil.which("go") is None:
        print("test-kubernetes: Go is not installed and not everything was built before; skipped")
        return 0
    build()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kilauea-story-") as folder, ExitStack() as ends:
        server = ends.enter_context(real_server((), AS_OURS))
        cluster = Cluster(server.kubeconfig, Path(folder), ends)
        try:
            told = story(cluster, server, ends)
        except Broken as broken:
            print(f"{cluster.logs()}\ntest-kubernetes: {what}: {broken}")
            return 1
    print(f"test-kubernetes: {what}: {told}; {time.monotonic() - started:.0f} s")
    return 0
