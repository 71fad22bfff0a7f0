"""The API server over TLS as a process of its own: creates of pods, a list of all of them, watch events under load.

    python benchmarks/bench_apiserver.py [--smoke] [--pods 100000]

Durability is full. The client keeps as few Python objects as it can, so that the server is what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import yaml

CONNECTIONS = 32
PODS = "/api/v1/namespaces/default/pods"


def pod(number: int) -> dict[str, Any]:
    """A pod of a batch job as its client sends it, about 1.1 KB; stored it has about 2.5 KB with managedFields."""
    gang = f"training-{number // 100}"
    container = {
        "name": "main",
        "image": "registry.example.com/team/trainer:1.2.3",
        "command": ["python", "train.py"],
        "env": [{"name": "RANK", "value": str(number)}, {"name": "WORLD_SIZE", "value": "100"}],
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}},
        "ports": [{"containerPort": 8080, "name": "http"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{gang}-worker-{number}",
            "labels": {"volcano.sh/job-name": gang, "volcano.sh/queue-name": "research", "app": "trainer"},
            "annotations": {"scheduling.k8s.io/group-name": gang, "volcano.sh/task-spec": "worker"},
        },
        "spec": {
            "schedulerName": "volcano",
            "restartPolicy": "OnFailure",
            "containers": [container],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "nodeSelector": {"zone": "a"},
        },
    }


class Client:
    """One TLS connection with keep-alive."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        self._host, port = cluster["server"].removeprefix("https://").split(":")
        self._port = int(port)
        coded = cluster.get("certificate-authority-data")
        authority = base64.b64decode(coded).decode() if coded else Path(cluster["certificate-authority"]).read_text()
        self._tls = ssl.create_default_context(cadata=authority)
        self._head = f"Host: {self._host}\r\nAuthorization: Bearer {user['token']}\r\nUser-Agent: bench/1\r\n"

    async def open(self) -> Client:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=1 << 24)
        return self

    async def send(
        self, method: str, path: str, body: bytes = b"", content: str = "application/json"
    ) -> tuple[int, bytes]:
        """A request; returns the code and the head of the answer. Servers close connections that are idle for long."""
        if self._reader.at_eof():
            await self.open()
        length = f"Content-Type: {content}\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{length}\r\n".encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        return int(head[9:12]), head

    async def ask(
        self, method: str, path: str, body: bytes = b"", content: str = "application/json"
    ) -> tuple[int, bytes]:
        """A request and its whole answer."""
        code, head = await self.send(method, path, body, content)
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
        if not length:
            return code, b"".join([chunk async for chunk in self._chunks()])
        return code, await self._reader.readexactly(int(length))

    async def chunks(self, path: str) -> AsyncIterator[bytes]:
        """The chunks of an answer in parts."""
        code, head = await self.send("GET", path)
        assert code == 200, head
        async for chunk in self._chunks():
            yield chunk

    async def _chunks(self) -> AsyncIterator[bytes]:
        while True:
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            data = await self._reader.readexactly(size + 2)
            if not size:
                return
            yield data[:-2]


async def create(clients: list[Client], bodies: list[bytes]) -> float:
    """Create pods over all connections; returns how many a second."""
    left: Iterator[bytes] = iter(bodies)

    async def work(client: Client) -> None:
        for body in left:
            code, text = await client.ask("POST", PODS, body)
            assert code == 201, text

    begin = time.perf_counter()
    await asyncio.gather(*map(work, clients))
    return len(bodies) / (time.perf_counter() - begin)


async def list_all(client: Client) -> tuple[float, int]:
    """List all pods; returns seconds and bytes."""
    begin, size = time.perf_counter(), 0
    async for chunk in client.chunks("/api/v1/pods"):
        size += len(chunk)
    return time.perf_counter() - begin, size


async def delays(watcher: Client, writers: list[Client], count: int, rate: float) -> list[float]:
    """Milliseconds from the begin of a write to its event, at a steady rate of writes."""
    started: dict[str, float] = {}
    found: list[float] = []

    async def follow() -> None:
        async for chunk in watcher.chunks("/api/v1/configmaps?watch=true&fieldSelector=metadata.namespace=default"):
            now = time.perf_counter()
            for line in chunk.splitlines():
                name = json.loads(line)["object"]["metadata"]["name"]
                if name in started:
                    found.append((now - started[name]) * 1000)
            if len(found) >= count:
                return

    following = asyncio.create_task(follow())
    await asyncio.sleep(0.3)
    start = time.perf_counter()

    async def write(number: int, client: Client) -> None:
        for each in range(number, count, len(writers)):
            await asyncio.sleep(max(start + each / rate - time.perf_counter(), 0))
            body = json.dumps({"metadata": {"name": f"note-{each}"}, "data": {"text": "x" * 1000}}).encode()
            started[f"note-{each}"] = time.perf_counter()
            code, text = await client.ask("POST", "/api/v1/namespaces/default/configmaps", body)
            assert code == 201, text

    await asyncio.gather(*(write(number, client) for number, client in enumerate(writers)))
    await asyncio.wait_for(following, 30)
    return sorted(found)


async def measure(kubeconfig: Path, count: int, events: int, pid: int) -> None:
    """All figures."""
    clients = [await Client(kubeconfig).open() for _ in range(CONNECTIONS)]
    bodies = [json.dumps(pod(number)).encode() for number in range(count)]
    await create(clients, bodies[: count // 10])
    before = cpu_seconds(pid)
    rate = await create(clients, bodies[count // 10 :])
    each = (cpu_seconds(pid) - before) / (count - count // 10) * 1e6
    print(f"creates: {rate:.0f} a second with {CONNECTIONS} connections, {each:.0f} us of the server's CPU each")
    seconds, size = await list_all(clients[0])
    print(f"list of {count} pods: {seconds:.2f} s, {size / 1e6:.0f} MB")
    found = await delays(await Client(kubeconfig).open(), clients, events, 1000)
    middle, late = found[len(found) // 2], found[len(found) * 99 // 100]
    print(f"write to watch event at 1,000 writes a second: p50 {middle:.1f} ms, p99 {late:.1f} ms")
    print(f"memory of the server: {resident(pid) / 1e6:.0f} MB")


def resident(pid: int) -> int:
    """Resident bytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Start a server, measure, stop it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few pods")
    parser.add_argument("--pods", type=int, default=100_000)
    options = parser.parse_args()
    count, events = (500, 200) if options.smoke else (options.pods, 5000)
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        command = [sys.executable, "-m", "kilauea", "apiserver", "--listen", "127.0.0.1:0"]
        command += ["--data-dir", folder, "--kubeconfig", str(kubeconfig)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as server:
            assert server.stdout is not None
            server.stdout.readline()
            try:
                asyncio.run(measure(kubeconfig, count, events, server.pid))
            finally:
                server.terminate()
                server.wait(20)


if __name__ == "__main__":
    main()
