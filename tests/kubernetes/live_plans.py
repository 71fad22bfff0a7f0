"""Reclaim and preempt at the real API server: each live decision is what a plan says, and promises outlive `kill -9`.

    python tests/kubernetes/live_plans.py                          # what `make test-kubernetes` runs
    python tests/kubernetes/live_plans.py --kubeconfig KUBECONFIG  # at an empty API server, which keeps the objects

The processes `kilauea controllers`, `nodes` and `scheduler` work over HTTPS on two nodes of four cpus, with two queues
in a tree. Controllers and scheduler have the rights that the chart grants, and nothing may be refused to them. One
queue borrows all, and its pods take a while to end. A gang of the other queue reclaims its share, then an urgent pod of
the first queue preempts. Each time the scheduler is killed between eviction and bind, and another one takes over. The
exit code is 1 if something is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import rights
from live_cluster import CORES, NODES, Broken, Cluster, goes, open_queues, promised_node, until
from real_binaries import build, missing
from real_server import real_server


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
    until(f"{victims} pods to go for {name}", lambda: sum(map(goes, cluster.pods("borrower"))) == victims)
    scheduler.kill()
    scheduler.wait()
    promises = {each["metadata"]["name"]: promised_node(each) for each in cluster.pods(name)}
    if not all(promises.values()):
        raise Broken(f"{name}: pods go for it, and its promises are {promises}")
    scheduler = cluster.scheduler()
    until(f"{name} to run", lambda: len(cluster.running(name)) == len(promises))
    places = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in cluster.pods(name)}
    if places != promises:
        raise Broken(f"{name}: promised {promises}, bound to {places}")
    time.sleep(1)
    _check_order(cluster.history(version), name, victims)
    return scheduler


def _check_order(history: list[dict[str, Any]], name: str, victims: int) -> None:
    """No pod goes before all promises are written, and no more go than needed."""
    promised: dict[str, int] = {}
    told: dict[str, int] = {}
    for pod in history:
        key, version = pod["metadata"]["name"], int(pod["metadata"]["resourceVersion"])
        if pod["metadata"]["labels"]["group"] == name:
            if promised_node(pod):
                promised.setdefault(key, version)
        elif goes(pod) or any(each["type"] == "DisruptionTarget" for each in pod["status"].get("conditions") or ()):
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
    cluster.run("controllers")
    cluster.run("nodes", "--count", str(NODES), "--node-cpu", str(CORES))
    cluster.untaint()
    scheduler = cluster.scheduler()
    until("queues to open", lambda: open_queues(cluster) >= {"company", "red", "blue"})
    cluster.gang("borrower", "red", "low", 1, 10, 1)
    until("the borrower to hold all", lambda: len(cluster.running("borrower")) == NODES * CORES)
    scheduler = claim(cluster, scheduler, "share", lambda: cluster.gang("share", "blue", "low", 2, 2, 1), 2)
    claim(cluster, scheduler, "urgent", lambda: cluster.gang("urgent", "red", "high", 1, 1, 2), 2)


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


def check_rights(folder: Path) -> None:
    """Look into the audit log, if there is one.

    Raises:
        Broken: a component was refused something, or asked for what the chart does not grant.
    """
    if not (folder / rights.LOG).exists():
        return
    for component, requests in rights.asked(folder).items():
        granted = rights.granted(component)
        foreign = [str(each) for each in requests.asked if not any(right.covers(each) for right in granted)]
        if requests.refused or foreign:
            raise Broken(f"{component}: refused {sorted(requests.refused)}, not granted {sorted(foreign)}")


def main() -> int:
    """Play, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path, help="of an empty API server; by default the real one is started")
    options = parser.parse_args()
    if options.kubeconfig is None and missing() and shutil.which("go") is None:
        print("test-kubernetes: Go is not installed and nothing was built before; skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="kilauea-plans-") as folder, ExitStack() as ends:
        if options.kubeconfig is None:
            build()
            options.kubeconfig = ends.enter_context(real_server((), rights.audit(Path(folder)))).kubeconfig
        started, cluster = time.monotonic(), Cluster(options.kubeconfig, Path(folder), ends)
        try:
            play(cluster)
            told = check_report(cluster.report)
            check_rights(Path(folder))
        except Broken as broken:
            print(f"{cluster.logs()}\ntest-kubernetes: live plans: {broken}")
            return 1
        print(f"test-kubernetes: live plans: {told}; {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
