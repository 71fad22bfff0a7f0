"""Reclaim and preempt at the real API server: each live decision is what a plan says, and promises outlive `kill -9`.

    python tests/kubernetes/live_plans.py                          # what `make test-kubernetes` runs
    python tests/kubernetes/live_plans.py --kubeconfig KUBECONFIG  # at an API server that runs, which keeps the objects

The processes `kilauea controllers`, `nodes` and `scheduler` work over HTTPS on two nodes of four cpus, with two queues
in a tree. One queue borrows all, and its pods take a while to end. A gang of the other queue reclaims its share, then
an urgent pod of the first queue preempts. Each time the scheduler is killed between eviction and bind, and another one
takes over. The exit code is 1 if something is not as it must be.
"""

from __future__ import annotations

import argparse
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

from playing import Client, install_definitions
from real_binaries import HERE, build, missing
from real_server import real_server

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
        self._kubeconfig, self._folder, self._ends = kubeconfig, folder, ends
        (folder / "scheduler.conf").write_text(CONF)

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
        return [each for each in self.pods(group) if each["status"].get("phase") == "Running" and not _goes(each)]

    def prepare(self) -> None:
        """Definitions, a namespace whose pods the server lets in, priorities, and queues in a tree."""
        install_definitions(self.client)
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
        time.sleep(1.5)
        for number in range(size):
            self.send("POST", self._pods, _pod(name, number, priority, cores))

    def untaint(self) -> None:
        """Take off the taint of a new node, as the controller manager does when it is ready."""

        def nodes() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = self.send("GET", "/api/v1/nodes")["items"]
            return found

        until("nodes to register", lambda: len(nodes()) == NODES)
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
        """A command of `kilauea` that runs until the end of the story."""
        return self._start(name, [sys.executable, "-m", "kilauea", name], words)

    def scheduler(self) -> subprocess.Popen[bytes]:
        """A scheduler whose plans are compared; ready."""
        program = [sys.executable, str(HERE / "compared_scheduler.py"), str(self.report)]
        conf = str(self._folder / "scheduler.conf")
        options = ("--leader-elect=false", "--enable-metrics=false", "--scheduler-conf", conf)
        return self._start("scheduler", program, options)

    def _start(self, name: str, program: Sequence[str], options: Iterable[str]) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("ab") as log:
            command = [*program, "--kubeconfig", str(self._kubeconfig), *options]
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self._ends.callback(_kill, process)
        return process

    def logs(self) -> str:
        """What the processes have said."""
        return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in sorted(self._folder.glob("*.log")))


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _goes(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _promised(pod: dict[str, Any]) -> str:
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


# --- the story


def claim(
    cluster: Cluster, scheduler: subprocess.Popen[bytes], name: str, make: Callable[[], None], victims: int
) -> subprocess.Popen[bytes]:
    """A gang for which others go; the scheduler is killed meanwhile. Returns the one that took over.

    Args:
        cluster: where.
        scheduler: is killed.
        name: of the gang.
        make: makes it.
        victims: how many pods of `borrower` go for it.
    """
    version = cluster.version()
    make()
    until(f"{victims} pods to go for {name}", lambda: sum(map(_goes, cluster.pods("borrower"))) == victims)
    scheduler.kill()
    scheduler.wait()
    promises = {each["metadata"]["name"]: _promised(each) for each in cluster.pods(name)}
    if not all(promises.values()):
        raise Broken(f"{name}: pods go for it, and its promises are {promises}")
    scheduler = cluster.scheduler()
    until(f"{name} to run", lambda: len(cluster.running(name)) == len(promises))
    places = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in cluster.pods(name)}
    if places != promises:
        raise Broken(f"{name}: promised {promises}, bound to {places}")
    time.sleep(2)
    _check_order(cluster.history(version), name, victims)
    return scheduler


def _check_order(history: list[dict[str, Any]], name: str, victims: int) -> None:
    """No pod goes before all promises are written, and no more go than needed."""
    promised: dict[str, int] = {}
    told: dict[str, int] = {}
    for pod in history:
        key, version = pod["metadata"]["name"], int(pod["metadata"]["resourceVersion"])
        if pod["metadata"]["labels"]["group"] == name:
            if _promised(pod):
                promised.setdefault(key, version)
        elif _goes(pod) or any(each["type"] == "DisruptionTarget" for each in pod["status"].get("conditions") or ()):
            told.setdefault(key, version)
    if len(told) != victims:
        raise Broken(f"{name}: {victims} pods have to go for it, {sorted(told)} went")
    if max(promised.values()) > min(told.values()):
        raise Broken(f"{name}: promised at versions {promised}, pods told to go at {told}")


def play(cluster: Cluster) -> None:
    """The story.

    Raises:
        Broken: something is not as it must be.
    """
    cluster.prepare()
    cluster.run("controllers", "--leader-elect=false")
    cluster.run("nodes", "--count", str(NODES), "--node-cpu", str(CORES))
    cluster.untaint()
    scheduler = cluster.scheduler()
    until("queues to open", lambda: _open_queues(cluster) >= {"company", "red", "blue"})
    cluster.gang("borrower", "red", "low", 1, 10, 1)
    until("the borrower to hold all", lambda: len(cluster.running("borrower")) == NODES * CORES)
    scheduler = claim(cluster, scheduler, "share", lambda: cluster.gang("share", "blue", "low", 2, 2, 1), 2)
    claim(cluster, scheduler, "urgent", lambda: cluster.gang("urgent", "red", "high", 1, 1, 2), 2)


def _open_queues(cluster: Cluster) -> set[str]:
    items = cluster.send("GET", QUEUES)["items"]
    return {each["metadata"]["name"] for each in items if each.get("status", {}).get("state") == "Open"}


def check_report(path: Path) -> str:
    """What was compared.

    Raises:
        Broken: a plan differs, or what was decided was not compared.
    """
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    broken = [text for line in lines for text in line["broken"]]
    if broken:
        raise Broken("\n".join(broken))
    evicting = [line for line in lines if line["evictions"]]
    actions = {each.split()[0] for line in evicting for each in line["evictions"]}
    if actions != {"preempt", "reclaim"} or not all(line["nominations"] for line in evicting):
        raise Broken(f"evictions by preempt and reclaim with nominations shall be compared, and were: {evicting}")
    served = sum(line["server"] for line in lines)
    if not any(line["server"] for line in evicting):
        raise Broken("no plan with evictions was compared with one of the server's objects")
    return f"{len(lines)} plans compared, {served} with the server's objects too, {len(evicting)} of them evict"


def main() -> int:
    """Play, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--kubeconfig", type=Path, help="of an API server that runs; by default the real one is started"
    )
    options = parser.parse_args()
    if options.kubeconfig is None and missing() and shutil.which("go") is None:
        print("test-kubernetes: Go is not installed and nothing was built before; skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="kilauea-plans-") as folder, ExitStack() as ends:
        if options.kubeconfig is None:
            build()
            options.kubeconfig = ends.enter_context(real_server()).kubeconfig
        started, cluster = time.monotonic(), Cluster(options.kubeconfig, Path(folder), ends)
        try:
            play(cluster)
            told = check_report(cluster.report)
        except Broken as broken:
            print(f"{cluster.logs()}\ntest-kubernetes: live plans: {broken}")
            return 1
        print(f"test-kubernetes: live plans: {told}; {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
