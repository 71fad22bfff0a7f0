"""A component as a process of its own: it may die at any moment, and what comes after it knows nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from random import Random
from typing import Any

from kilauea.api.kinds import LEASES
from kilauea.api.ports import Controller, Key
from kilauea.api.times import SECOND
from kilauea.client.lease import LeaseLost, Terms
from kilauea.client.recording import Recorder
from kilauea.client.rest import Client
from kilauea.client.transport import Answer
from kilauea.client.view import Cache
from kilauea.engine.plan import Plan
from kilauea.runtime.leading import Leadership
from kilauea.runtime.manager.reconciling import Driver
from kilauea.runtime.scheduler.conf_reload import ConfReload
from kilauea.runtime.scheduler.live import LiveOptions, LiveScheduler
from kilauea.telemetry.metrics import SchedulerMetrics
from support.faults import FaultyTransport
from support.replans import Given, Replans
from system.server import Line, ServerProcess

Works = Sequence[Coroutine[Any, Any, None]]
NAMES = ("volcano", "default-scheduler")
PERIOD = 5 * SECOND
"""Between cycles when nothing happens; a history is long, and what happens wakes the scheduler anyway."""
WORKERS = 4
"""Keys of one controller that are worked on at a time."""
RESTART_SECONDS = 1.0
"""Until a process that ended is started again."""


class Process:
    """Lives and dies.

    Args:
        server: what it speaks to.
        name: of the component.
        seed: of what goes wrong on its way to the server.
    """

    def __init__(self, server: ServerProcess, name: str, seed: str) -> None:
        self.server = server
        self.name = name
        self.rng = Random(f"{seed} {name}")
        self.faults = FaultyTransport(Line(server, name), Random(f"{seed} faults of {name}"), 0.0)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def lives(self) -> bool:
        """Whether it was started and not killed since."""
        return bool(self._tasks)

    def start(self) -> None:
        """Begin without memory."""
        client = Client(self.faults, self.name, Random(self.rng.random()), page=self.rng.choice((0, 3, 500)))
        self._tasks = self.server.spawn(*self._works(client))

    def kill(self) -> None:
        """Die in the midst of everything."""
        for task in self._tasks:
            task.cancel()
        self.server.run(asyncio.wait(self._tasks))
        self._tasks = []

    def ended(self) -> list[str]:
        """What of it has come to an end by itself, which nothing should."""
        return [f"{self.name}: {task}" for task in self._tasks if task.done()]

    def _works(self, client: Client) -> Works:
        raise NotImplementedError


class Controllers(Process):
    """Controllers with a cache of their own, made again at each start."""

    def __init__(
        self, server: ServerProcess, name: str, seed: str, make: Callable[[int], Sequence[Controller]]
    ) -> None:
        super().__init__(server, name, seed)
        self._make = make

    def _works(self, client: Client) -> Works:
        clock, cache, rng = self.server.clock, Cache(), Random(self.rng.random())
        recorder = Recorder(client, clock)
        driver = Driver(client, cache, clock, rng, recorder.record, self._make(clock.now()), WORKERS)
        return cache.run(client, clock, rng), driver.run(), recorder.run()


class Guarded(Line):
    """A way to the server that asks about each request when it is sent."""

    def __init__(self, server: ServerProcess, component: str, check: Callable[[str, str], None]) -> None:
        super().__init__(server, component)
        self._check = check

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Ask, if that is permitted."""
        self._check(method, target)
        return await super().request(method, target, headers, body)


class SchedulerProcess(Process):
    """The live scheduler; an observer looks at each plan before it is carried out.

    Args:
        server: what it speaks to.
        name: of the component.
        seed: of what goes wrong, and of ties.
        conf: file with the configuration.
        look: is given each plan while the state is still that of which it was made.
        broken: takes where plans on a dump would decide otherwise.
        lease: to hold while scheduling; None to schedule without.
    """

    def __init__(
        self,
        server: ServerProcess,
        name: str,
        seed: str,
        conf: str,
        look: Callable[[LiveScheduler, Plan], None],
        broken: list[str],
        lease: Key | None = None,
    ) -> None:
        super().__init__(server, name, seed)
        self.faults = FaultyTransport(Guarded(server, name, self._check), Random(f"{seed} faults of {name}"), 0.0)
        self._conf = conf
        self._look = look
        self._lease = lease
        self._leadership: Leadership
        self.scheduler: LiveScheduler
        self.replans = Replans(broken)

    @property
    def compared(self) -> int:
        """Cycles whose plan was made again from a dump."""
        return self.replans.compared

    @property
    def leads(self) -> bool:
        """Whether it schedules now."""
        if not self.lives or self._lease is None:
            return self.lives
        election = self._leadership._election
        return self._leadership._led and election is not None and election.valid

    def _check(self, method: str, target: str) -> None:
        """Refuse writes of a process that lost its lease, but for those of the lease."""
        if f"/{LEASES.plural}" not in target:
            self._leadership.check(method)

    def _works(self, client: Client) -> Works:
        return (self._run(client),)

    async def _run(self, client: Client) -> None:
        """Schedule; a process that lost its lease ends, and is started again without memory."""
        while True:
            works = self._one_life(client)
            try:
                async with asyncio.TaskGroup() as tasks:
                    for work in works:
                        tasks.create_task(work)
            except* LeaseLost:
                pass
            await self.server.clock.sleep(RESTART_SECONDS)

    def _one_life(self, client: Client) -> Works:
        clock = self.server.clock
        self._leadership = Leadership(clock, Random(self.rng.random()), self._lease, Terms())
        recorder = Recorder(client, clock)
        self.scheduler = scheduler = LiveScheduler(
            client,
            LiveOptions(names=NAMES, period=PERIOD),
            ConfReload(self._conf),
            clock,
            Random(self.rng.random()),
            recorder.record,
            SchedulerMetrics(),
            run=self._runner(),
        )
        self.replans.follow(scheduler.feed.state)
        return scheduler.watch(), self._leadership.lead(client, scheduler.schedule), recorder.run()

    def _runner(self) -> Callable[[Callable[[], Plan]], Awaitable[Plan]]:
        async def run(work: Callable[[], Plan]) -> Plan:
            plan = work()
            inner = self.scheduler.scheduler
            self.replans.look(Given(NAMES, inner.conf, self.server.clock.now(), inner.backoff), plan)
            self._look(self.scheduler, plan)
            return plan

        return run
