"""Drives controllers: asks them about keys as watches tell of changes, and carries out what they want.

    cache = Cache()
    driver = Driver(client, cache, clock, rng, recorder.record, controllers)  # declares what they want to see
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cache.run(client, clock, rng))
        tasks.create_task(driver.run())

Each controller has a queue of its own, in which a key stands once. A key whose operations fail is asked about again
after a pause that grows; meanwhile it blocks no other key. A key about which something was written is asked about
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
from kilauea.runtime.manager.expectations import Expectations
from kilauea.runtime.manager.operations import NotYet, Trace, carry_out, told, written
from kilauea.runtime.manager.timers import Timers
from kilauea.runtime.manager.work_queue import WorkQueue

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 60.0
"""Seconds after the first failure of a key, and at most."""
SIDE_BY_SIDE = 16
"""Operations for one key that are under way at a time, where their order does not matter."""
REFUSALS = (400, 403)
"""Codes of answers to changes that come to the same when tried again: admission denies them, or one may not."""
PASSING = (409, 429, 503, 504)
"""Codes of answers that say nothing against what was to be created: it may be tried again as it is."""
CONCURRENCY = 32
"""Keys of one controller whose operations are under way at a time."""

log = logging.getLogger(__name__)


class CreationRefused(ApiError):
    """The server refuses to create an object."""


class ControllerWorker:
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


_Moment = tuple[ControllerWorker, Key, bool]
"""A scheduled look at a key: delayed by its interest (True), or requested by the controller or a failure."""


class Driver:
    """Keeps controllers at work.

    Args:
        api: where operations are carried out.
        cache: what controllers see; their interests are declared in it. The caller runs it.
        clock: tells controllers the time, and when keys are due.
        rng: for the length of pauses.
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
        rng: Random,
        record: Callable[[str, Record], None],
        controllers: Sequence[Controller],
        concurrency: int = CONCURRENCY,
        failed: Callable[[Exception], bool] = lambda error: False,
    ) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._rng = rng
        self._record = record
        self._concurrency = concurrency
        self._tell_failure = failed
        self._timers: Timers[_Moment] = Timers(clock, lambda moment: moment[0].queue.add(moment[1]))
        self._workers = [ControllerWorker(controller) for controller in controllers]
        self._expectations = Expectations(cache)
        for worker in self._workers:
            for interest in worker.controller.interests:
                if interest.resource == ALL_KINDS:
                    cache.on_every_kind(partial(self._follow_unless_events, worker, interest))
                else:
                    self._follow(worker, interest, interest.resource)

    @property
    def busy(self) -> int:
        """Keys that wait or are worked on; those that wait for their time are not among them."""
        return sum(len(worker.queue) for worker in self._workers)

    async def run(self) -> None:
        """Drive, from when the cache is complete until cancelled."""
        await self._cache.complete()
        for worker in self._workers:
            for interest in worker.controller.interests:
                for key in interest.always:
                    worker.queue.add(key)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._timers.run(), name="timers")
            for worker in self._workers:
                for number in range(self._concurrency):
                    tasks.create_task(self._work(worker), name=f"{worker.controller.name} {number}")

    def _follow(self, worker: ControllerWorker, interest: Interest, resource: Resource) -> None:
        """Pass changes of objects of a kind to a controller."""
        indexer = self._cache.declare(resource, interest.labels, interest.indexes, metadata_only=interest.metadata_only)
        indexer.listeners.append(partial(self._changed, worker, replace(interest, resource=resource)))
        self._expectations.follow(indexer)

    def _follow_unless_events(self, worker: ControllerWorker, interest: Interest, resource: Resource) -> None:
        """Skip events: they own nothing and are owned by nothing, and there are many."""
        if resource != EVENTS:
            self._follow(worker, interest, resource)

    def _changed(self, worker: ControllerWorker, interest: Interest, old: Obj | None, new: Obj | None) -> None:
        """An object has changed that a controller wants to see."""
        for key in worker.concerned(interest, old, new):
            if interest.delay:
                self._timers.bring_forward((worker, key, True), interest.delay)
            else:
                worker.queue.add(key, written(interest.resource, new) if new is not None else None)

    async def _work(self, worker: ControllerWorker) -> None:
        """Take one key after another."""
        while True:
            key = await worker.queue.take()
            self._timers.cancel((worker, key, True))
            traces: list[Trace] = []
            own: Trace | None = None
            try:
                if await self._reconcile(worker, key, traces) and len(traces) == 1:
                    own = traces[0]
            except NotYet as wait:
                worker.failures.pop(key, None)
                self._timers.set((worker, key, False), wait.again)
            except Exception as error:
                self._failed(worker, key, error)
            self._expectations.after(traces, partial(worker.queue.done, key, own))
            if not traces:  # one key after another could go on for long without others having their turn
                await asyncio.sleep(0)

    async def _reconcile(self, worker: ControllerWorker, key: Key, traces: list[Trace]) -> bool:
        """Ask about a key and do what is wanted; notes what was done, also if it fails in the midst of it.

        Returns whether the controller has foreseen what comes of it.
        """
        asked = self._clock.monotonic()
        outcome = worker.controller.reconcile(key, self._cache, self._clock.now())
        try:
            await self._chain(worker.controller.name, outcome.operations, traces)
        except CreationRefused as refusal:
            if outcome.refused is not None:
                await self._say_refused(worker, key, outcome.refused(refusal.message), traces)
            raise
        worker.failures.pop(key, None)
        moment = (worker, key, False)
        if outcome.again is None:
            self._timers.cancel(moment)
        else:
            self._timers.set(moment, outcome.again, asked)
        return outcome.foreseen

    async def _say_refused(
        self, worker: ControllerWorker, key: Key, said: Sequence[Operation], traces: list[Trace]
    ) -> None:
        """Write down that something cannot be created; if that fails too, the next try may do it."""
        try:
            await self._chain(worker.controller.name, said, traces)
        except ApiError as error:
            log.debug("%s %s: cannot say what was refused: %s", worker.controller.name, key, error)

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
        """Carry out chains, some at a time; a worker that meets a failure stops."""
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
            event = self._event_of(operation, error)
            if event is not None:
                self._record(name, event)
            if isinstance(operation, Create) and error.code and error.code not in PASSING:
                refusal = CreationRefused(error.code, error.reason, error.message, error.details, error.retry_after)
                refusal.add_note(told(operation))
                raise refusal from error
            raise

    def _event_of(self, operation: Single, error: ApiError) -> Record | None:
        """Return the event about an object that may not be changed or created; None if it is none of these."""
        if isinstance(operation, Create) and operation.about is not None and error.code:
            return Record(operation.about, "Warning", "FailedCreate", f"Error creating: {error.message}")
        if isinstance(operation, Patch) and error.code in REFUSALS:
            about = self._cache.get(operation.resource, operation.key)
            if about is not None:
                return Record(about, "Warning", "FailedUpdate", f"Error updating: {error.message}")
        return None

    def _failed(self, worker: ControllerWorker, key: Key, error: Exception) -> None:
        """Ask about a key again later, the later the oftener it has failed."""
        failures = worker.failures[key] = worker.failures.get(key, 0) + 1
        seconds = pause(failures, self._rng, FIRST_PAUSE, LONGEST_PAUSE)
        if isinstance(error, ApiError):
            seconds = max(seconds, error.retry_after)
        self._timers.set((worker, key, False), seconds)
        if self._tell_failure(error):
            return
        if isinstance(error, ApiError):
            level = logging.DEBUG if error.reason == "Conflict" else logging.WARNING
            what = "; ".join(getattr(error, "__notes__", ()))
            log.log(level, "%s %s: %s: %s (again in %.1f s)", worker.controller.name, key, what, error, seconds)
        else:
            log.error("%s %s (again in %.1f s)", worker.controller.name, key, seconds, exc_info=error)
