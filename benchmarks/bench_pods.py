"""Pods as processes on `kilauea up`: a thousand `true` from submission to the end, beside a shell; and exec.

    python benchmarks/bench_pods.py [--smoke] [--pods 1000]

The shell starts the same program as often, one after the other, in the same run. Processor time is shown for the
cluster and for the supervisor of its processes, which is another process. The time of an exec is that of
`kubectl exec POD -- true`, with the start of kubectl, which is shown beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from bench_apiserver import Client
from bench_processes import cpu_seconds, run_shell
from bench_up import running
from bench_vcjobs import JOBS

PATIENCE = 600
ENDED = ("Completed", "Failed", "Terminated", "Aborted")


def job(pods: int) -> dict[str, Any]:
    """A job of pods that do nothing."""
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [{"name": "main", "image": "any", "command": ["true"]}],
    }
    task = {"name": "t", "replicas": pods, "template": {"spec": pod}}
    spec = {"schedulerName": "volcano", "minAvailable": 1, "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "true"}, "spec": spec}


def supervisor(folder: Path) -> int:
    """The number of the process that supervises the processes of a cluster in a folder."""
    found: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
            parent = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            continue
        ours = any(word.startswith(bytes(folder)) for word in words)
        if ours and any(word.endswith(b"supervisor/__main__.py") for word in words):
            found[int(path.parent.name)] = parent
    return next(pid for pid, parent in found.items() if parent not in found)  # others are its children


async def ended(client: Client) -> dict[str, Any]:
    """Watch until the job has ended; return its status."""
    left = b""
    async for chunk in client.chunks(f"{JOBS}?watch=true"):
        *lines, left = (left + chunk).split(b"\n")
        for line in lines:
            status = json.loads(line)["object"].get("status") or {}
            if (status.get("state") or {}).get("phase") in ENDED:
                found: dict[str, Any] = status
                return found
    raise AssertionError("the watch has ended before the job")


async def measure(kubeconfig: Path, cluster: int, pods: int) -> None:
    """Submit the job and wait for its end."""
    client = await Client(kubeconfig).open()
    watching = asyncio.create_task(ended(await Client(kubeconfig).open()))
    processes = supervisor(kubeconfig.parent)
    before, begin = [cpu_seconds(cluster), cpu_seconds(processes)], time.monotonic()
    code, text = await client.ask("POST", JOBS, json.dumps(job(pods)).encode())
    assert code == 201, text
    async with asyncio.timeout(PATIENCE):
        status = await watching
    seconds = time.monotonic() - begin
    spent = [cpu_seconds(pid) - had for pid, had in zip((cluster, processes), before, strict=True)]
    assert status.get("succeeded") == pods, status
    print(f"pods: {1000 * seconds / pods:.2f} ms each from submission to the end of the job")
    parts = ", ".join(
        f"{name} {1000 * each / pods:.2f} ms" for name, each in zip(("cluster", "processes"), spent, strict=True)
    )
    print(f"  processor time each: {parts}")


def kubectl(kubeconfig: Path, *arguments: str) -> float:
    """Run kubectl; return the milliseconds that it took."""
    begin = time.monotonic()
    subprocess.run(["kubectl", f"--kubeconfig={kubeconfig}", *arguments], check=True, stdout=subprocess.DEVNULL)
    return 1000 * (time.monotonic() - begin)


def measure_exec(kubeconfig: Path, times: int) -> None:
    """Run a command in a running container, several times."""
    kubectl(kubeconfig, "run", "waits", "--image=host", "--restart=Never", "--", "sleep", "600")
    kubectl(kubeconfig, "wait", "pod/waits", "--for=condition=Ready", "--timeout=60s")
    took = sorted(kubectl(kubeconfig, "exec", "waits", "--", "true") for _ in range(times))
    alone = sorted(kubectl(kubeconfig, "version", "--client") for _ in range(times))
    middle = times // 2
    print(f"exec: {took[middle]:.0f} ms in the middle of {times}, of them {alone[middle]:.0f} ms to start kubectl")
    kubectl(kubeconfig, "delete", "pod", "waits", "--grace-period=1")


def main() -> None:
    """Run the shell, then the pods."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a few pods")
    parser.add_argument("--pods", type=int, default=1000)
    options = parser.parse_args()
    pods = 20 if options.smoke else options.pods
    run_shell(pods)
    with running(1, "--runtime", "process") as (kubeconfig, pid):
        asyncio.run(measure(kubeconfig, pid, pods))
        if shutil.which("kubectl"):
            measure_exec(kubeconfig, 3 if options.smoke else 20)


if __name__ == "__main__":
    main()
