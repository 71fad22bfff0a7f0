"""One measurement of the API server's store, as JSON on standard output; run by bench_storage.py.

python benchmarks/storage_probe.py writes FOLDER DURABILITY WRITERS COUNT
python benchmarks/storage_probe.py cluster FOLDER NODES PODS
python benchmarks/storage_probe.py fanout FOLDER WATCHERS OTHERS RATE COUNT
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

from kilauea.apiserver.storage import Store

Probe = Callable[..., Coroutine[None, None, dict[str, float]]]
BODY = random.Random(0).randbytes(1500)
PODS = "/core/pods/"


def encode(revision: int) -> bytes:
    """A pod of 1.5 KB."""
    return b"%d" % revision + BODY


def pod(number: int) -> str:
    return f"/core/pods/namespace-{number % 50}/pod-{number:06}"


def quickest(call: Callable[[], object], runs: int = 5) -> float:
    """The best of several runs, in seconds."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


async def writes(folder: str, durability: str, writers: str, count: str) -> dict[str, float]:
    store = await Store.open(Path(folder), durability)  # type: ignore[arg-type]
    each = int(count) // int(writers)
    latencies = []

    async def write(number: int) -> None:
        for i in range(each):
            started = time.perf_counter()
            await store.write(pod(number * each + i), 0, encode)
            latencies.append(time.perf_counter() - started)

    started, busy = time.perf_counter(), time.thread_time()
    await asyncio.gather(*[write(number) for number in range(int(writers))])
    total, busy = time.perf_counter() - started, time.thread_time() - busy
    await store.close()
    points = statistics.quantiles(latencies, n=100)
    return {"rate": len(latencies) / total, "loop": busy / len(latencies), "p50": points[49], "p99": points[98]}


async def fill(store: Store, keys: list[str]) -> None:
    for start in range(0, len(keys), 256):
        await asyncio.gather(*[store.write(key, None, encode) for key in keys[start : start + 256]])


async def cluster(folder: str, nodes: str, pods: str) -> dict[str, float]:
    names = [f"/core/nodes/node-{i:05}" for i in range(int(nodes))] + [pod(i) for i in range(int(pods))]
    random.Random(0).shuffle(names)
    store = await Store.open(Path(folder))
    started = time.perf_counter()
    await fill(store, names)
    filled = time.perf_counter() - started
    revision = store.revision
    await fill(store, names[:1000])
    middle = store.list(PODS, limit=int(pods) // 2).next_key
    found = {
        "fill": filled,
        "list": quickest(lambda: store.list(PODS)),
        "namespace": quickest(lambda: store.list(PODS + "namespace-7/")),
        "page": quickest(lambda: store.list(PODS, limit=500, after_key=middle)),
        "earlier": quickest(lambda: store.list(PODS, at_revision=revision)),
        "earlier_page": quickest(lambda: store.list(PODS, limit=500, after_key=middle, at_revision=revision)),
    }
    await store.close()
    started = time.perf_counter()
    store = await Store.open(Path(folder))
    found["open"] = time.perf_counter() - started
    await store.close()
    return found


async def fanout(folder: str, watchers: str, others: str, rate: str, count: str) -> dict[str, float]:
    """Writes at a steady rate; watchers of all pods, and others that each watch one object without writes."""
    store = await Store.open(Path(folder))
    sent: dict[int, float] = {}
    latencies: list[float] = []

    async def watch(prefix: str) -> None:
        async for batch in store.watch(prefix, store.revision):
            now = time.perf_counter()
            latencies.extend(now - sent[event.revision] for event in batch)

    def stamped(revision: int) -> bytes:
        sent[revision] = time.perf_counter()
        return encode(revision)

    tasks = [asyncio.create_task(watch(PODS)) for _ in range(int(watchers))]
    tasks += [asyncio.create_task(watch(f"/core/secrets/default/{i}")) for i in range(int(others))]
    await asyncio.sleep(0)
    pending, started, busy = [], time.perf_counter(), time.thread_time()
    for i in range(int(count)):
        pending.append(asyncio.create_task(store.write(pod(i % 1000), None, stamped)))
        await asyncio.sleep(max(started + i / int(rate) - time.perf_counter(), 0) if rate != "0" else 0)
    await asyncio.gather(*pending)
    busy, total = time.thread_time() - busy, time.perf_counter() - started
    await store.close()
    await asyncio.gather(*tasks)
    assert len(latencies) == int(watchers) * int(count), "a watcher missed events"
    points = statistics.quantiles(latencies, n=100)
    return {"rate": int(count) / total, "loop": busy / int(count), "p50": points[49], "p99": points[98]}


if __name__ == "__main__":
    probes: dict[str, Probe] = {"writes": writes, "cluster": cluster, "fanout": fanout}
    probe = probes[sys.argv[1]]
    json.dump(asyncio.run(probe(*sys.argv[2:])), sys.stdout)
