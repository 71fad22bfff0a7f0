"""Drives controllers: asks them about keys as watches tell of changes, and carries out what they want.

    cache = Cache()
    driver = Driver(client, cache, clock, chance, recorder.record, controllers)  # declares what they want to see
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cache.run(client, clock, chance))
        tasks.create_task(driver.run())

Each controller has a queue of its own, in which a key stands once. A key whose operations fail is asked about again
after a pause that grows; meanwhile it stands in nobody's way. A key about which something was written is asked about
again only once the cache shows it, so that a controller never acts twice on the same old picture.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from random import Random

from kilauea.api.kinds import EVENTS
from kilauea.api.ports import (
    ALL_KINDS,
    Api,
    ApiError,
    Clock,
    Controller,
    Create,
    Interest,
    Key,
    Obj,
    Operation,
    Patch,
    Record,
    Resource,
    Single,
    Together,
)
from kilauea.client.backoff import pause
from kilauea.client.view import Cache
from kilauea.runtime.echoes import Echoes
from kilauea.runtime.operations import NotYet, Trace, carry_out, told, written
from kilauea.runtime.timers import Timers
from kilauea.runtime.work_queue import WorkQueue

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 60.0
"""Seconds after the first failure of a key, and at most."""
SIDE_BY_SIDE = 16
"""Operations for one key that are under way at a time, where their order does not matter."""
REFUSALS = (400, 403)
"""Codes of answers to changes that come to the same when tried again: admission denies them, or one may not."""
CONCURRENCY = 32
"""Keys of one controller whose operations are under way at a time."""

log = logging.getLogger(__name__)


class Station:
    """One controller at work: the keys that it is to be asked about, and how often each has failed in a row."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.queue = WorkQueue()
        self.failures: dict[Key, int] = {}

    def concerned(self, interest: Interest, old: Obj | None, new: Obj | None) -> Iterable[Key]:
        """The keys that a changed object concerns, and those that it has concerned."""
        if interest.matters is not None and not interest.matters(old, new):
            return ()
        before, now = self._keys(interest, old), self._keys(interest, new)
        return now if not before or before == now else (*before, *now)

    def _keys(self, interest: Interest, obj: Obj | None) -> tuple[Key, ...]:
        if obj is None:
            return ()
        try:
            return tuple(interest.keys(obj))
        except Exception:
            log.exception("%s: cannot say which keys are concerned", self.controller.name)
            return ()


_Moment = tuple[Station, Key, bool]
"""When to ask about a key: because it was put off (True), or because the controller or a failure wants it."""


class Driver:
    """Keeps controllers at work.

    Args:
        api: where operations are carried out.
        cache: what controllers see; their interests are declared in it. Somebody else runs it.
        clock: tells controllers the time, and when keys are due.
        chance: for the length of pauses.
        record: takes records, with the name of the controller that makes them; does not wait.
        controllers: to be driven.
        concurrency: keys of one controller that are worked on at a time.
        failed: is told of each error that makes a key wait; returns True for one that need not be logged.
    """

    def __init__(
        self,
        api: Api,
        cache: Cache,
        clock: Clock,
        chance: Random,
        record: Callable[[str, Record], None],
        controllers: Sequence[Controller],
        concurrency: int = CONCURRENCY,
        failed: Callable[[Exception], bool] = lambda error: False,
    ) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._chance = chance
        self._record = record
        self._concurrency = concurrency
        self._tell_failure = failed
        self._timers: Timers[_Moment] = Timers(clock, lambda moment: moment[0].queue.add(moment[1]))
        self._stations = [Station(controller) for controller in controllers]
        self._echoes = Echoes(cache)
        for station in self._stations:
            for interest in station.controller.interests:
                if interest.resource == ALL_KINDS:
                    cache.on_every_kind(partial(self._follow_unless_events, station, interest))
                else:
                    self._follow(station, interest, interest.resource)

    @property
    def busy(self) -> int:
        """Keys that wait or are worked on; those that wait for their time are not among them."""
        return sum(len(station.queue) for station in self._stations)

    async def run(self) -> None:
        """Drive, from when the cache is complete until cancelled."""
        await self._cache.complete()
        for station in self._stations:
            for interest in station.controller.interests:
                for key in interest.always:
                    station.queue.add(key)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._timers.run(), name="timers")
            for station in self._stations:
                for number in range(self._concurrency):
                    tasks.create_task(self._work(station), name=f"{station.controller.name} {number}")

    def _follow(self, station: Station, interest: Interest, resource: Resource) -> None:
        """Tell a controller of the objects of a kind."""
        shelf = self._cache.declare(resource, interest.labels, interest.indexes, metadata_only=interest.metadata_only)
        shelf.listeners.append(partial(self._changed, station, replace(interest, resource=resource)))
        self._echoes.follow(shelf)

    def _follow_unless_events(self, station: Station, interest: Interest, resource: Resource) -> None:
        """Events own nothing and are owned by nothing, and there are many."""
        if resource != EVENTS:
            self._follow(station, interest, resource)

    def _changed(self, station: Station, interest: Interest, old: Obj | None, new: Obj | None) -> None:
        """An object has changed that a controller wants to see."""
        for key in station.concerned(interest, old, new):
            if interest.delay:
                self._timers.bring_forward((station, key, True), interest.delay)
            else:
                station.queue.add(key, written(interest.resource, new) if new is not None else None)

    async def _work(self, station: Station) -> None:
        """Take one key after another."""
        while True:
            key = await station.queue.take()
            self._timers.cancel((station, key, True))
            traces: list[Trace] = []
            own: Trace | None = None
            try:
                if await self._reconcile(station, key, traces) and len(traces) == 1:
                    own = traces[0]
            except NotYet as wait:
                station.failures.pop(key, None)
                self._timers.set((station, key, False), wait.again)
            except Exception as error:
                self._failed(station, key, error)
            self._echoes.after(traces, partial(station.queue.done, key, own))
            if not traces:  # one key after another could go on for long without others having their turn
                await asyncio.sleep(0)

    async def _reconcile(self, station: Station, key: Key, traces: list[Trace]) -> bool:
        """Ask about a key and do what is wanted; notes what was done, also if it fails in the midst of it.

        Returns whether the controller has foreseen what comes of it.
        """
        asked = self._clock.monotonic()
        outcome = station.controller.reconcile(key, self._cache, self._clock.now())
        await self._chain(station.controller.name, outcome.operations, traces)
        station.failures.pop(key, None)
        moment = (station, key, False)
        if outcome.again is None:
            self._timers.cancel(moment)
        else:
            self._timers.set(moment, outcome.again, asked)
        return outcome.foreseen

    async def _chain(self, name: str, operations: Sequence[Operation], traces: list[Trace]) -> None:
        """Carry out operations in order; the first that fails ends them."""
        for operation in operations:
            if isinstance(operation, Together):
                await self._together(name, operation, traces)
                continue
            trace = await self._carry_out(name, operation)
            if trace is not None:
                traces.append(trace)

    async def _together(self, name: str, together: Together, traces: list[Trace]) -> None:
        """Carry out chains, some at a time; whoever meets a failure takes no further one."""
        waiting = iter(together.chains)

        async def work() -> None:
            for chain in waiting:
                await self._chain(name, chain, traces)

        workers = [work() for _ in range(min(SIDE_BY_SIDE, len(together.chains)))]
        for ended in await asyncio.gather(*workers, return_exceptions=True):
            if ended is not None:
                raise ended

    async def _carry_out(self, name: str, operation: Single) -> Trace | None:
        if isinstance(operation, Record):
            self._record(name, operation)
            return None
        try:
            return await carry_out(self._api, operation, name)
        except ApiError as error:
            error.add_note(told(operation))
            complaint = self._complaint(operation, error)
            if complaint is not None:
                self._record(name, complaint)
            raise

    def _complaint(self, operation: Single, error: ApiError) -> Record | None:
        """What is told of an object that may not be changed, or about which something may not be made."""
        if isinstance(operation, Create) and operation.about is not None and error.code:
            return Record(operation.about, "Warning", "FailedCreate", f"Error creating: {error.message}")
        if isinstance(operation, Patch) and error.code in REFUSALS:
            about = self._cache.get(operation.resource, operation.key)
            if about is not None:
                return Record(about, "Warning", "FailedUpdate", f"Error updating: {error.message}")
        return None

    def _failed(self, station: Station, key: Key, error: Exception) -> None:
        """Ask about a key again later, the later the oftener it has failed."""
        failures = station.failures[key] = station.failures.get(key, 0) + 1
        seconds = pause(failures, self._chance, FIRST_PAUSE, LONGEST_PAUSE)
        if isinstance(error, ApiError):
            seconds = max(seconds, error.retry_after)
        self._timers.set((station, key, False), seconds)
        if self._tell_failure(error):
            return
        if isinstance(error, ApiError):
            level = logging.DEBUG if error.reason == "Conflict" else logging.WARNING
            what = "; ".join(getattr(error, "__notes__", ()))
            log.log(level, "%s %s: %s: %s (again in %.1f s)", station.controller.name, key, what, error, seconds)
        else:
            log.error("%s %s (again in %.1f s)", station.controller.name, key, seconds, exc_info=error)
