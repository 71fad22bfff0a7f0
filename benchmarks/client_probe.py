"""One measurement of the client, as JSON on standard output: how many a second; run by bench_client.py.

python benchmarks/client_probe.py relist|events|operations COUNT

The API server is in the same process and keeps everything in memory. Time is that of the processor; what the server
takes is in it for operations and for the frames of events, not for the writes that the events tell of.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Coroutine
from random import Random

from kilauea.api.ports import Interest, Key, Obj, Outcome, Patch, Record, Resource, View, key_of
from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.bootstrap import create_first_objects
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.resources.builtin import builtin_types
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.storage import Store
from kilauea.client.indexer import Indexer
from kilauea.client.rest import Client
from kilauea.client.view import Cache
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.manager.reconciling import Driver
from kilauea.runtime.tasks import YOUNG_OBJECTS

PODS = Resource("", "v1", "pods", "Pod")
CONTAINER = {"name": "main", "image": "busybox:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}


async def client_of(store: Store) -> Client:
    """A client of a server in memory."""
    backend = Backend(store, Registry(builtin_types()), SystemClock().now, Random(0), admission_steps())
    server = ApiServer(backend)
    await create_first_objects(server)
    gc.set_threshold(YOUNG_OBJECTS, 50, 100)  # as the server's process has it
    return Client(DirectTransport(server, "benchmark"), page=0)


async def fill(client: Client, count: int) -> None:
    """Pods of a few applications and owners."""
    for number in range(count):
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": str(number % 100)}
        metadata = {"name": f"pod-{number}", "labels": {"app": str(number % 50)}, "ownerReferences": [owner]}
        await client.create(PODS, "default", {"metadata": metadata, "spec": {"containers": [CONTAINER]}})


async def start_all(client: Client, count: int) -> None:
    """One change of each pod."""
    for number in range(count):
        patch = {"status": {"phase": "Running", "podIP": "10.0.0.1"}}
        await client.patch(PODS, Key("default", f"pod-{number}"), patch, "strategic", "status")


def node_of(obj: Obj) -> str:
    """An index as controllers have it."""
    return str(obj["spec"].get("nodeName", ""))


async def relist(client: Client, count: int) -> float:
    """Seconds of a list into an empty indexer."""
    await fill(client, count)
    indexer = Indexer(PODS)
    indexer.add_indexes(["app"], {"node": node_of})
    started = time.process_time()
    listed = await client.list(PODS)
    indexer.on_relist(listed.items, listed.version)
    return time.process_time() - started


async def events(client: Client, count: int) -> float:
    """Seconds of events, one for each pod, from the server's history into an indexer."""
    await fill(client, count)
    listed = await client.list(PODS)
    indexer = Indexer(PODS)
    indexer.add_indexes(["app"], {"node": node_of})
    indexer.on_relist(listed.items, listed.version)
    await start_all(client, count)
    last = int((await client.list(PODS)).version)
    started = time.process_time()
    async for batch in client.watch(PODS, listed.version):
        indexer.on_events(batch)
        if indexer.version >= last:
            break
    return time.process_time() - started


class Starting:
    """A controller that lets pods run."""

    name = "starting"
    interests = (Interest(PODS, lambda obj: [key_of(obj)]),)

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Patch a pod that does not run."""
        pod = view.get(PODS, key)
        if pod is None or pod["status"].get("phase") == "Running":
            return Outcome()
        return Outcome([Patch(PODS, key, {"status": {"phase": "Running"}}, "strategic", "status")])


def ignore(component: str, record: Record) -> None:
    """No events are written."""


async def operations(client: Client, count: int) -> float:
    """Seconds until a controller has patched each pod, and has seen that."""
    await fill(client, count)
    cache, clock, rng = Cache(), SystemClock(), Random(0)
    driver = Driver(client, cache, clock, rng, ignore, [Starting()])
    started = time.process_time()
    tasks = [asyncio.create_task(work) for work in (cache.run(client, clock, rng), driver.run())]
    await cache.complete()
    await asyncio.sleep(0)
    while driver.busy:
        await asyncio.sleep(0.005)
    seconds = time.process_time() - started
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return seconds


MEASUREMENTS: dict[str, Callable[[Client, int], Coroutine[None, None, float]]] = {
    "relist": relist,
    "events": events,
    "operations": operations,
}


async def main(what: str, count: int) -> float:
    """Rate per second."""
    store = await Store.open(None, "memory")
    try:
        return count / await MEASUREMENTS[what](await client_of(store), count)
    finally:
        await store.close()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], int(sys.argv[2])))))
