"""The whole product at the real Kubernetes: its API server and controller manager, and every process of ours.

with running_product(folder) as product:
    product.kubectl("get", "nodes")

Scheduler, controllers and webhooks act as service accounts with the roles of the chart; the nodes are simulated by the
administrator. They are the three of the recordings: 16 cpus, 64Gi and four GPUs each.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cluster.up_process import until

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("controllers", "scheduler", "webhooks", "nodes")
OFFER = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4"}


@dataclass(frozen=True)
class Product:
    """Our processes and the kubeconfig that they use.

    Attributes:
        kubeconfig: of the real server's administrator.
        folder: where the logs are, `scheduler.log` and so on.
        access: the kubeconfig of each command.
        processes: by the name of their command.
    """

    kubeconfig: Path
    folder: Path
    access: dict[str, Path]
    processes: dict[str, subprocess.Popen[bytes]]

    def log(self, name: str) -> str:
        """What a process has said."""
        return (self.folder / f"{name}.log").read_text()

    def ask(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl, whatever comes of it."""
        environment = os.environ | {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)}
        return subprocess.run(
            ["kubectl", *words], input=given, capture_output=True, text=True, timeout=60, env=environment, check=False
        )

    def kubectl(self, *words: str, given: str = "") -> str:
        """What kubectl prints; it must not fail."""
        done = self.ask(*words, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def get(self, *words: str) -> Any:
        """Objects, decoded."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))


def recorded_nodes() -> dict[str, Any]:
    """The nodes of the recordings as a list that kubectl takes."""
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number}", "labels": {"kubernetes.io/hostname": f"node-{number}"}},
            "status": {"capacity": OFFER, "allocatable": OFFER},
        }
        for number in (1, 2, 3)
    ]
    return {"apiVersion": "v1", "kind": "List", "items": nodes}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def options_of(command: str) -> list[str]:
    """The options with which a command is started."""
    port = _free_port()
    webhooks = ["--listen-address", "127.0.0.1", "--port", str(port), "--webhook-url", f"https://127.0.0.1:{port}"]
    return {
        "scheduler": ["--listen-address", f"127.0.0.1:{port}"],
        "controllers": [],
        "webhooks": webhooks,
        "nodes": ["--count", "0"],
    }[command]


def start(product: Product, command: str, *options: str) -> subprocess.Popen[bytes]:
    """Start a command of the product, or start it again; its log goes on."""
    words = [sys.executable, "-m", "kilauea", command, "--kubeconfig", str(product.access[command])]
    with (product.folder / f"{command}.log").open("ab") as out:
        process = subprocess.Popen([*words, *options_of(command), *options], stdout=out, stderr=out)
    product.processes[command] = process
    return process


@contextmanager
def running_product(folder: Path, **options: Sequence[str]) -> Iterator[Product]:
    """Everything for the length of a block; skips the test where the binaries of Kubernetes are not built.

    Args:
        folder: for logs and credentials; `rights.asked` reads from there what the components have asked.
        options: more options, by command.
    """
    sys.path.insert(0, str(ROOT / "tests/kubernetes"))
    try:
        import rights  # noqa: PLC0415 - only these tests need them
        from playing import Client  # noqa: PLC0415
        from real_binaries import missing  # noqa: PLC0415
        from real_server import real_server  # noqa: PLC0415
    finally:
        sys.path.remove(str(ROOT / "tests/kubernetes"))
    if missing():
        pytest.skip(f"no {', '.join(missing())}: run `make kubernetes-binaries`")
    with real_server(["*"], rights.audit(folder)) as server, ExitStack() as ends:
        client = Client.from_kubeconfig(server.kubeconfig)
        rights.install(client)
        access = rights.kubeconfigs(client, server.kubeconfig, folder)
        by_command = {"scheduler": access["scheduler"], "controllers": access["controllers"]}
        by_command |= {"webhooks": access["admission"], "nodes": server.kubeconfig}
        product = Product(server.kubeconfig, folder, by_command, {})
        product.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy/crds"))
        product.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        product.kubectl("create", "-f", "-", given=json.dumps(recorded_nodes()))
        ends.callback(_end, product)
        for command in COMMANDS:
            start(product, command, *options.get(command, ()))
            # The controllers create the first queues; the scheduler creates what is missing when it starts.
            until(lambda: product.kubectl("get", "queue", "default", "--ignore-not-found"), "the first queues")
        _wait_until_ready(product)
        yield product


def _end(product: Product) -> None:
    for process in product.processes.values():
        process.kill()
        process.wait()


def _wait_until_ready(product: Product) -> None:
    until(lambda: "webhooks are ready" in product.log("webhooks"), "webhooks")
    product.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")
    for name in ("root", "default"):
        until(partial(_is_open, product, name), f"queue {name} to be open")


def _is_open(product: Product, queue: str) -> bool:
    return "Open" in product.ask("get", "queue", queue, "-o", "yaml").stdout


if __name__ == "__main__":
    with running_product(Path(sys.argv[1])) as running:
        print(f"KUBECONFIG={running.kubeconfig}", flush=True)
        sys.stdin.read()
