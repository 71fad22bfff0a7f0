"""A day of a whole cluster under virtual time: do memory, objects and metric series stay flat?

    python benchmarks/bench_soak.py [--smoke] [--hours 24] [--pods 20000] [--visits 60]

So many pods an hour, ten in a job of Volcano, each runs half a minute; its job goes a minute after its end. Server (its
log on disk), admission, scheduler, controllers and nodes are those of `kilauea up`, in one process. Besides, once in so
many seconds, other clients come (`visitors.py`): they list, apply, watch, define kinds, make and delete namespaces, ask
for tokens that expire, and send requests that are wrong. Virtual time is
that of the tests (`tests/support/virtual_time.py`, `tests/system`), which this file puts on the path.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from bench_apiserver import resident  # noqa: E402
from bench_vcjobs import job  # noqa: E402
from visitors import Visitors  # noqa: E402

from kilauea.admission.review import Settings  # noqa: E402
from kilauea.api.kinds import VC_JOBS  # noqa: E402
from kilauea.api.ports import Controller  # noqa: E402
from kilauea.api.wellknown import ALL_SCHEDULERS, GANG_SCHEDULERS  # noqa: E402
from kilauea.apiserver.admission.chain import admission_steps  # noqa: E402
from kilauea.apiserver.backend import Backend  # noqa: E402
from kilauea.apiserver.bootstrap import create_first_objects  # noqa: E402
from kilauea.apiserver.core import ApiServer  # noqa: E402
from kilauea.apiserver.custom_resources.bundled import install_bundled  # noqa: E402
from kilauea.apiserver.event_expiry import expire_events  # noqa: E402
from kilauea.apiserver.resources.builtin import builtin_types  # noqa: E402
from kilauea.apiserver.resources.registry import Registry  # noqa: E402
from kilauea.apiserver.storage import Retention, Store  # noqa: E402
from kilauea.client.limits import RateLimit  # noqa: E402
from kilauea.client.recording import Recorder  # noqa: E402
from kilauea.client.rest import Client  # noqa: E402
from kilauea.client.view import Cache  # noqa: E402
from kilauea.controllers.registry import kubernetes_controllers, volcano_controllers  # noqa: E402
from kilauea.nodes.heartbeats import Heartbeats, speaks_for  # noqa: E402
from kilauea.nodes.machine import Machine  # noqa: E402
from kilauea.nodes.pods import Pods  # noqa: E402
from kilauea.nodes.registration import Registration  # noqa: E402
from kilauea.runtime.cluster.admission import VolcanoAdmission  # noqa: E402
from kilauea.runtime.cluster.direct import DirectClient  # noqa: E402
from kilauea.runtime.cluster.in_process import Definitions  # noqa: E402
from kilauea.runtime.cluster.up import EVENTS, RENEW_SECONDS  # noqa: E402
from kilauea.runtime.inputs.template_rules import template_errors  # noqa: E402
from kilauea.runtime.manager.reconciling import Driver  # noqa: E402
from kilauea.runtime.scheduler.conf_reload import ConfReload  # noqa: E402
from kilauea.runtime.scheduler.live import LiveOptions, LiveScheduler, at_once  # noqa: E402
from kilauea.telemetry.metrics import SchedulerMetrics  # noqa: E402
from support.virtual_time import LoopClock, VirtualLoop, virtual_loop  # noqa: E402
from system.server import DelayedWriter, FaultyLog, scratch  # noqa: E402

SIZE, NODES, WATCHERS = 10, 20, 5
RUN_SECONDS, TTL_SECONDS = 30, 60
SLACK = 1.05
"""Allowed growth from the largest of the first half to that of the second; some objects live an hour."""


class Figures(NamedTuple):
    """The state at one moment.

    Attributes:
        pods: that were made and are gone.
        resident: bytes of memory.
        tracked: Python objects that the collector knows.
        stored: objects in the store.
        file: bytes of the store's log.
        series: of the scheduler's metrics.
        busy: keys and writes that wait or are worked on.
    """

    pods: int
    resident: int
    tracked: int
    stored: int
    file: int
    series: int
    busy: int


class Soak:
    """The cluster, and who submits to it."""

    def __init__(self, loop: VirtualLoop, folder: Path, visits: float) -> None:
        self._loop, self._folder = loop, folder
        clock, rng = LoopClock(loop), Random(1)
        self._clock = clock
        log = FaultyLog(folder, Random(2), lambda row: None)
        self._store = Store.of_log(
            log,
            lambda committed, failed: DelayedWriter(log, loop, Random(3), committed, failed),
            Retention(),
            loop.time,
        )
        api = self._api = ApiServer(Backend(self._store, Registry(builtin_types()), clock.now, rng))
        settings = Settings(GANG_SCHEDULERS, check_template=template_errors)
        api.backend.admission = admission_steps(VolcanoAdmission(api.backend, settings))
        self.submitted = 0
        self._user = self._client("user")
        client, cache = self._client("kilauea-controllers"), Cache()
        recorder = Recorder(client, clock, RateLimit(EVENTS, EVENTS, clock))
        machine = Machine()
        nodes: list[Controller] = [Registration(NODES, machine), Heartbeats(machine, RENEW_SECONDS), Pods()]
        everybody = [*volcano_controllers(GANG_SCHEDULERS), *kubernetes_controllers(speaks_for=speaks_for), *nodes]
        self._driver = Driver(client, cache, clock, rng, recorder.record, everybody)
        self._metrics = SchedulerMetrics()
        self._scheduler = LiveScheduler(
            self._client("kilauea-scheduler"), LiveOptions(names=ALL_SCHEDULERS), ConfReload(None),
            clock, rng, recorder.record, self._metrics, run=at_once,
        )  # fmt: skip
        self._work: list[Coroutine[Any, Any, None]] = [
            cache.run(client, clock, rng), self._driver.run(), recorder.run(),
            self._scheduler.watch(), self._scheduler.schedule(), expire_events(api.backend, clock),
        ]  # fmt: skip
        self.visitors = Visitors(api, clock, visits)

    def _client(self, name: str) -> Client:
        return DirectClient(self._api, name, Random(name))

    async def start(self) -> None:
        """Begin with everything, and let it become ready."""
        await create_first_objects(self._api)
        await install_bundled(self._api)
        self._definitions = Definitions(self._api, self._clock)
        await self._definitions.start()
        self._tasks = [self._loop.create_task(work) for work in self._work]
        await asyncio.sleep(10)
        callers = [self.visitors.visit(), *[self.visitors.watch() for _ in range(WATCHERS)]]
        self._tasks += [self._loop.create_task(work) for work in callers]

    async def play(self, seconds: float, every: float) -> None:
        """Submit a job each so many seconds, for a time.

        Raises:
            AssertionError: a part of the cluster has come to its end.
        """
        end = self._loop.time() + seconds
        due = self._loop.time()
        while due < end:
            body = job(f"job-{self.submitted}", SIZE, "100m")
            body["spec"]["ttlSecondsAfterFinished"] = TTL_SECONDS
            template = body["spec"]["tasks"][0]["template"]
            template["metadata"] = {"annotations": {"kilauea.dev/run-time": f"{RUN_SECONDS}s"}}
            template["spec"]["restartPolicy"] = "Never"
            await self._user.create(VC_JOBS, "default", body)
            self.submitted += 1
            due += every
            await asyncio.sleep(max(0.0, due - self._loop.time()))
        ended = [task for task in self._tasks if task.done()]
        assert not ended, f"these have ended: {ended}: {ended[0].exception()}"

    async def end(self) -> None:
        """End everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._definitions.stop()

    def figures(self) -> Figures:
        """The current counts; pods of existing jobs do not count as done."""
        gc.collect()
        there = len(self._store.list("/core/pods/").items)
        series = sum(len(metric.samples) for metric in self._metrics.registry.collect())
        return Figures(
            self.submitted * SIZE - there,
            resident(os.getpid()),
            len(gc.get_objects()),
            sum(len(self._store.list(root).items) for root in {each.root for each in self._api.backend.registry}),
            sum(file.stat().st_size for file in self._folder.iterdir()),
            series,
            self._driver.busy + self._scheduler.busy,
        )


HEADING = (
    f"{'after':>10} {'pods gone':>10} {'memory':>9} {'tracked':>10} {'stored':>8} {'log':>9} {'series':>7} {'busy':>5} "
)


def show(after: str, found: Figures, seconds: float) -> None:
    """A line of the table; `seconds` are real ones."""
    print(
        f"{after:>10} {found.pods:>10,} {found.resident / 1e6:>6.0f} MB {found.tracked:>10,} {found.stored:>8,}"
        f" {found.file / 1e6:>6.1f} MB {found.series:>7,} {found.busy:>5}   in {seconds:.0f} s",
        flush=True,
    )


def verdict(found: Sequence[Figures]) -> list[str]:
    """Counts whose largest value of the second half is larger than that of the first."""
    middle = len(found) // 2
    grown = []
    for name in ("resident", "tracked", "stored", "file", "series"):
        before, now = (max(getattr(each, name) for each in half) for half in (found[:middle] or found, found[middle:]))
        if now > before * SLACK:
            grown.append(f"{name} grew from {before:,} to {now:,}")
    return grown


def soak(hours: int, pods: int, hour: float, visits: float) -> list[str]:
    """Play so many hours of so many seconds; returns what grew."""
    found: list[Figures] = []
    print(HEADING)
    with scratch() as folder, virtual_loop() as loop:
        cluster = Soak(loop, Path(folder), visits)
        loop.run_until_complete(cluster.start())
        for number in range(1, hours + 1):
            begin = time.perf_counter()
            loop.run_until_complete(cluster.play(hour, 3600 * SIZE / pods))
            found.append(cluster.figures())
            show(f"{number * hour / 3600:.2f} h", found[-1], time.perf_counter() - begin)
        loop.run_until_complete(cluster.end())
        came = cluster.visitors
        print(f"visitors: {came.answers:,} answers, {came.events:,} events, {came.expired:,} expired tokens refused")
    return verdict(found)


def main() -> int:
    """Play, and say whether anything grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="some minutes")
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--pods", type=int, default=20_000, help="an hour")
    parser.add_argument("--visits", type=float, default=60.0, help="seconds between visits of other clients")
    options = parser.parse_args()
    parts, part = (4, 60.0) if options.smoke else (options.hours, 3600.0)
    grown = soak(parts, options.pods, part, options.visits)
    if options.smoke:
        print("too short for a verdict: events live an hour")
        return 0
    print("\n".join(grown) or "flat: nothing is larger in the second half than in the first")
    return bool(grown)


if __name__ == "__main__":
    sys.exit(main())
