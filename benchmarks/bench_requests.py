"""Kinds of requests at the API server: CPU time of the server for each, also beside the code of another checkout.

    python benchmarks/bench_requests.py [--smoke] [--pods 5000] [--rounds 30] [--than CHECKOUT]

Lists of pods, whole, in part and selected, and writes that are sent to watchers. With `--than`, a second server runs
the code of that checkout with the libraries of this one; each request is sent to both in turns, and the ratio is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from bench_apiserver import PODS, Client, create, pod

HERE = Path(__file__).resolve().parents[1]
MAPS = "/api/v1/namespaces/default/configmaps"
WRITES, WATCHERS = 100, 20
LISTS = {
    "list all": "/api/v1/pods",
    "the first 500": "/api/v1/pods?limit=500",
    "select by a label that no pod has": f"{PODS}?labelSelector=app%3Dnone",
    "select by a label that every pod has": f"{PODS}?labelSelector=app%3Dtrainer",
    "select by a field that no pod has": f"{PODS}?fieldSelector=spec.nodeName%3Dnone",
}


class Served:
    """A server with pods and watchers of ConfigMaps."""

    def __init__(self, kubeconfig: Path, pid: int) -> None:
        self._kubeconfig = kubeconfig
        self._threads = Path(f"/proc/{pid}/task")
        self._written = 0

    async def fill(self, count: int) -> None:
        """Create pods and begin to watch."""
        self._clients = [await Client(self._kubeconfig).open() for _ in range(8)]
        await create(self._clients, [json.dumps(pod(number)).encode() for number in range(count)])
        watchers = [await Client(self._kubeconfig).open() for _ in range(WATCHERS)]
        self._watches = [asyncio.create_task(self._follow(each)) for each in watchers]

    async def list(self, path: str) -> None:
        """Send a list request."""
        code, _ = await self._clients[0].ask("GET", path)
        assert code == 200

    async def write(self) -> None:
        """Create ConfigMaps, and wait for the events."""
        for number in range(self._written, self._written + WRITES):
            body = {"metadata": {"name": f"m{number}"}, "data": {"text": "x" * 1000}}
            code, text = await self._clients[0].ask("POST", MAPS, json.dumps(body).encode())
            assert code == 201, text
        self._written += WRITES
        await asyncio.sleep(0.3)

    def ran(self) -> float:
        """CPU time of the server so far, in milliseconds."""
        return sum(int((each / "schedstat").read_text().split()[0]) for each in self._threads.iterdir()) / 1e6

    async def _follow(self, client: Client) -> None:
        async for _ in client.chunks(f"{MAPS}?watch=true"):
            pass


@contextmanager
def server(checkout: Path) -> Iterator[Served]:
    """A server that runs the code of a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        command = [sys.executable, "-m", "kilauea", "apiserver", "--listen", "127.0.0.1:0"]
        command += ["--data-dir", folder, "--kubeconfig", str(kubeconfig)]
        environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd=checkout
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline(), f"the server of {checkout} has not started"
            try:
                yield Served(kubeconfig, process.pid)
            finally:
                process.kill()


async def measure(servers: list[Served], pods: int, rounds: int) -> None:
    """Print the least and the median time of each kind of request, at each server."""
    for each in servers:
        await each.fill(pods)
    work: dict[str, Callable[[Served], Awaitable[None]]] = {
        name: lambda served, path=path: served.list(path)  # type: ignore[misc]
        for name, path in LISTS.items()
    }
    work[f"{WRITES} writes, sent to {WATCHERS} watchers"] = Served.write
    print(
        f"{'ms of CPU, least and median':40}"
        + "".join(f"{each:>20}" for each in ("here", "there", "ratio")[: len(servers) * 2 - 1])
    )
    for name, ask in work.items():
        took: list[list[float]] = [[] for _ in servers]
        for _ in range(rounds):
            for times, served in zip(took, servers, strict=True):
                before = served.ran()
                await ask(served)
                times.append(served.ran() - before)
        figures = [(min(times), median(times)) for times in took]
        cells = [f"{least:.2f}, {middle:.2f}" for least, middle in figures]
        if len(figures) == 2:
            cells.append(", ".join(f"{ours / theirs:.2f}" for ours, theirs in zip(*figures, strict=True)))
        print(f"{name:40}" + "".join(f"{each:>20}" for each in cells), flush=True)


def main() -> None:
    """Start one or two servers, measure, stop them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="few pods and rounds")
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--than", type=Path, metavar="CHECKOUT", help="a folder with the code to compare with")
    options = parser.parse_args()
    pods, rounds = (300, 2) if options.smoke else (options.pods, options.rounds)
    with ExitStack() as stack:
        checkouts = [HERE, *([options.than.resolve()] if options.than else [])]
        servers = [stack.enter_context(server(each)) for each in checkouts]
        asyncio.run(measure(servers, pods, rounds))


if __name__ == "__main__":
    main()
