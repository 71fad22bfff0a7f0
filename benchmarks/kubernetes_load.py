"""A real Kubernetes API server to measure at: its processes, what they spend, and the requests that it answers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bench_apiserver import CONNECTIONS, Client, cpu_seconds

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "kubernetes"))

from playing import Client as Administrator
from playing import install_definitions
from real_binaries import missing
from real_server import free_ports, real_server

_Item = TypeVar("_Item")

SERVERS = ("etcd", "kube-apiserver")
MERGE = "application/merge-patch+json"
PATIENCE = 600
"""Seconds after which a load is given up."""


@dataclass(frozen=True)
class Real:
    """A real API server with the definitions of our kinds.

    Attributes:
        kubeconfig: of its administrator.
        pids: of its processes, by name.
    """

    kubeconfig: Path
    pids: dict[str, int]

    async def clients(self, count: int = CONNECTIONS) -> list[Client]:
        """Connections to it."""
        return [await Client(self.kubeconfig).open() for _ in range(count)]


@contextmanager
def real_kubernetes() -> Iterator[Real]:
    """A real API server until the end of the block.

    Raises:
        SystemExit: its binaries are not built, which does not count as a failure.
    """
    if lacking := missing(SERVERS):
        print(f"skipped: {', '.join(lacking)} is not built; run `make kubernetes-binaries`")
        raise SystemExit(0)
    with real_server() as server:
        install_definitions(Administrator.from_kubeconfig(server.kubeconfig))
        real = Real(server.kubeconfig, {name: pid for pid, name in _children() if name in SERVERS})
        subprocess.run(
            [sys.executable, "-c", "import kilauea.runtime.scheduler.process"], env=_compiled(real), check=True
        )
        yield real


def _compiled(real: Real) -> dict[str, str]:
    """An environment in which modules are compiled once, as those of an installed package are."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(real.kubeconfig.parent / "compiled")}


def _children() -> Iterator[tuple[int, str]]:
    """Process numbers and names of the children of this process."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if int(rest.split()[1]) == os.getpid():
            yield int(folder.name), name


@contextmanager
def component(real: Real, name: str, *options: str) -> Iterator[int]:
    """A command of `kilauea` at the server until the end of the block; its log goes to KILAUEA_BENCH_LOGS, if set."""
    command = [sys.executable, "-m", "kilauea", name, "--kubeconfig", str(real.kubeconfig), *options]
    logs = os.environ.get("KILAUEA_BENCH_LOGS")
    path = Path(logs, f"{name}.log") if logs else Path(os.devnull)
    with path.open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log, env=_compiled(real)) as process:
        real.pids[name] = process.pid
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)
            del real.pids[name]


def free_port() -> int:
    """A port of loopback that no one listened on a moment ago."""
    return free_ports(1)[0]


class Meter:
    """CPU time of the processes at a server, and requests to it, from one moment on."""

    def __init__(self, real: Real, administrator: Client) -> None:
        self._real = real
        self._administrator = administrator

    async def start(self, fresh: Iterable[str] = ()) -> None:
        """Begin to count; processes named `fresh` count from their start."""
        self._requests = await self._counts()
        self._spent = {name: cpu_seconds(pid) for name, pid in self._real.pids.items() if name not in fresh}

    def spent(self) -> dict[str, float]:
        """Seconds of CPU of each process."""
        return {name: cpu_seconds(pid) - self._spent.get(name, 0.0) for name, pid in self._real.pids.items()}

    async def requests(self) -> Counter[str]:
        """Requests since the start, by verb and resource, but for leases and this one."""
        found = await self._counts() - self._requests
        return Counter({what: count for what, count in found.items() if not what.endswith((" leases", " "))})

    async def _counts(self) -> Counter[str]:
        _, text = await self._administrator.ask("GET", "/metrics")
        found: Counter[str] = Counter()
        for line in text.decode().splitlines():
            if line.startswith("apiserver_request_total{"):
                labels, _, count = line.partition("{")[2].rpartition("} ")
                known = dict(part.split("=", 1) for part in labels.replace('"', "").split(",") if "=" in part)
                code = "" if known["code"].startswith("2") or known["code"] == "0" else f" ({known['code']})"
                sub = f"/{known['subresource']}" if known["subresource"] else ""
                found[f"{known['verb']} {known['resource']}{sub}{code}"] += int(float(count))
        return found


def tell(what: str, pods: int, seconds: float, spent: dict[str, float], requests: Counter[str]) -> None:
    """Print the figures of a load."""
    print(f"{what}: {pods / seconds:.0f} pods/s ({seconds:.2f} s)")
    each = ", ".join(f"{name} {value / pods * 1000:.2f}" for name, value in spent.items())
    print(f"  CPU in ms for each pod: {each}; together {sum(spent.values()) / pods * 1000:.2f}")
    most = ", ".join(f"{name} {count}" for name, count in requests.most_common(16))
    print(f"  requests: {most}", flush=True)


async def each_of(
    items: Iterable[_Item], clients: Sequence[Client], work: Callable[[Client, _Item], Awaitable[None]]
) -> None:
    """Do work for each item over all connections."""
    left = iter(items)

    async def worker(client: Client) -> None:
        for item in left:
            await work(client, item)

    await asyncio.gather(*map(worker, clients))


async def send(client: Client, method: str, path: str, body: Any, content: str = "application/json") -> None:
    """A request that must succeed."""
    code, text = await client.ask(method, path, json.dumps(body).encode(), content)
    assert code < 300, f"{method} {path}: {code} {text.decode()}"


async def add_nodes(clients: Sequence[Client], count: int, capacity: dict[str, str]) -> None:
    """Register ready nodes without a kubelet."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}

    async def add(client: Client, number: int) -> None:
        name = f"load-{number:05d}"
        labels = {"kubernetes.io/hostname": name, "zone": f"z{number % 8}"}
        await send(client, "POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        await send(client, "PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, MERGE)
        await send(client, "PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, MERGE)

    await each_of(range(count), clients, add)


async def until_all(client: Client, path: str, count: int, done: Callable[[dict[str, Any]], bool]) -> float:
    """Watch until so many objects are done; returns the time of the first. A server may end a watch at any time."""
    found: set[str] = set()
    version, first = json.loads((await client.ask("GET", f"{path}?limit=1"))[1])["metadata"]["resourceVersion"], 0.0
    while len(found) < count:
        left = b""
        async for chunk in client.chunks(f"{path}?watch=1&resourceVersion={version}"):
            *lines, left = (left + chunk).split(b"\n")
            for event in map(json.loads, lines):
                version = event["object"]["metadata"]["resourceVersion"]
                if done(event["object"]):
                    first = first or asyncio.get_running_loop().time()
                    found.add(event["object"]["metadata"]["name"])
            if len(found) >= count:
                break
    return first
