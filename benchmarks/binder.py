"""Binds all pods of a namespace, one node after another, as fast as it can: what an API server can do at most.

python benchmarks/binder.py KUBECONFIG
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from bench_apiserver import CONNECTIONS, PODS, Client


async def names(client: Client, path: str) -> list[str]:
    """Names of the objects at a path."""
    _, text = await client.ask("GET", path)
    return [each["metadata"]["name"] for each in json.loads(text)["items"]]


async def main(kubeconfig: Path) -> None:
    """Bind, and stay until it is ended, so that what it has spent can be read."""
    clients = [await Client(kubeconfig).open() for _ in range(CONNECTIONS)]
    nodes = await names(clients[0], "/api/v1/nodes")
    left = iter(enumerate(await names(clients[0], PODS)))

    async def work(client: Client) -> None:
        for number, name in left:
            target = {"kind": "Node", "name": nodes[number % len(nodes)]}
            body = json.dumps({"metadata": {"name": name}, "target": target}).encode()
            code, text = await client.ask("POST", f"{PODS}/{name}/binding", body)
            assert code == 201, text

    await asyncio.gather(*map(work, clients))
    sys.stdout.flush()
    await asyncio.sleep(3)


asyncio.run(main(Path(sys.argv[1])))
