"""Drives controllers: calls them with keys when watches report changes, and carries out their operations.

    cache = Cache()
    driver = Driver(client, cache, clock, rng, recorder.record, controllers)  # declares their interests
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cache.run(client, clock, rng))
        tasks.create_task(driver.run())

Each controller has a separate queue, which contains a key at most once. A key whose operations fail is retried after a
growing pause and does not block other keys. After a write, the driver reconciles the key again only once the cache
shows the write, so that a controller never acts twice on the same old state.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, NoReturn, TypeVar

from kilauea.api.kinds import EVENTS
from kilauea.api.ports import (
    ALL_KINDS,
    CREATION_REFUSED,
    Api,
    ApiError,
    Clock,
    Controller,
    Create,
    Interest,
    Key,
    Obj,
    Operation,
    Outcome,
    Patch,
    Record,
    Reference,
    Resource,
    Single,
    Steps,
    Together,
    no_keys,
)
from kilauea.api.times import SECOND
from kilauea.client.backoff import pause
from kilauea.client.indexer import Indexer, Listener
from kilauea.client.view import Cache
from kilauea.controllers.objects import ItsController, controller_of
from kilauea.runtime.manager.expectations import Expectations
from kilauea.runtime.manager.operations import NotYet, Trace, carry_out, told, written
from kilauea.runtime.manager.timers import Timers
from kilauea.runtime.manager.work_queue import Lane, WorkQueue

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 60.0
"""Shortest and longest pause before a retry of a key, in seconds."""
SIDE_BY_SIDE = 16
"""Concurrent operations besides the first of a key, if their order does not matter; for all keys together.

More do not make a server faster, and each needs a connection: when many jobs arrive at once, a TLS handshake costs half
as much as the creation of a pod.
"""
REFUSALS = (400, 403)
"""Status codes of refusals that a retry does not change: admission or authorization denies the change."""
PASSING = (409, 429, 503, 504)
"""Status codes of failures independent of the object: creating it may be retried unchanged."""
CONCURRENCY = 32
"""Concurrent keys of one controller."""
LONG = SECOND // 10
"""Microseconds of work on a key after which similar keys, and keys of its namespace, rest for the same time.

Clients of a server in the same process wait meanwhile. Without a pause they would wait for all such keys that are due,
which can be many objects with a million bytes each. Keys that rest wait in the queue, where they occupy no worker.
"""
LONGEST_REST = 5 * SECOND
"""Maximum of that pause in microseconds, since a process that was suspended seems to have worked for hours."""

log = logging.getLogger(__name__)

E = TypeVar("E", bound=Exception)


class CreationRefused(ApiError):
    """The server rejects the creation of an object."""

    wording = CREATION_REFUSED
    """The wording of the report."""


class ByController:
    """Notifies listeners of changes of objects whose controller is of their kind, often few of a kind's objects.

    If the controller of an object changes, both sides are notified.
    """

    def __init__(self) -> None:
        self._listeners: dict[tuple[Any, Any], list[Listener]] = {}

    def add(self, kind: tuple[str, str], listener: Listener) -> None:
        """Add a listener for objects whose controller has this apiVersion and kind."""
        self._listeners.setdefault(kind, []).append(listener)

    def __call__(self, old: Obj | None, new: Obj | None) -> None:
        """Notify listeners of a change."""
        owners = [owner for obj in (old, new) if obj is not None and (owner := controller_of(obj)) is not None]
        for kind in {(owner.get("apiVersion"), owner.get("kind")): None for owner in owners} if owners else ():
            for listener in self._listeners.get(kind, ()):
                listener(old, new)


class ControllerWorker:
    """A controller with its queue of keys, and their consecutive failures.

    Args:
        controller: the controller.
        places: concurrent keys.
        rests: returns True while keys that take long must rest, whichever controller they are of.
        clock: the time.
    """

    def __init__(self, controller: Controller, places: int, rests: Callable[[], bool], clock: Clock) -> None:
        self.controller = controller
        self.queue = WorkQueue(places, self._rest)
        self.failures: dict[Key, int] = {}
        self.stepping = asyncio.Lock()
        """Held while a key of the controller waits for its step, and during the step."""
        self._rests = rests
        self._clock = clock
        self._namespaces: dict[str, int] = {}
        """Monotonic times until which namespaces must rest."""

    def took(self, key: Key, until: int | None) -> None:
        """Record if work on a key took long, and the monotonic time until which its namespace must rest."""
        self.queue.found(key, until is not None)
        if until is not None and key.namespace:
            self._namespaces[key.namespace] = until

    def _rest(self, lane: Lane) -> bool:
        """True while the keys of a lane of the queue must rest."""
        if (until := self._namespaces.get(lane.namespace)) is not None:
            if self._clock.monotonic() < until:
                return True
            del self._namespaces[lane.namespace]
        return lane.heavy and self._rests()

    def keys_of(self, interest: Interest, obj: Obj | None) -> tuple[Key, ...]:
        """The keys of a changed object; empty if they cannot be determined, which is logged."""
        if obj is None:
            return ()
        try:
            return tuple(interest.keys(obj))
        except Exception:
            log.exception("%s: the keys of a changed object cannot be determined", self.controller.name)
            return ()


_Moment = tuple[ControllerWorker, Key, bool]
"""A scheduled retry of a key: delayed by its interest (True), or requested by the controller or a failure."""
_RestOver = int
"""A monotonic time at which resting keys may continue."""


class Driver:
    """Runs controllers.

    Args:
        api: receives the operations.
        cache: the view of the controllers, in which their interests are declared. The caller runs it.
        clock: the time.
        rng: jitter of pauses.
        record: receives records, with the name of the controller; does not block.
        controllers: the controllers to run.
        concurrency: concurrent keys of one controller.
        failed: called with each error that delays a key; returns True if the error should not be logged.
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
        self._spare = SIDE_BY_SIDE
        self._absent: set[Reference] = set()
        """Objects that do not exist: many dependents can have the same missing owners."""
        self._stepping = asyncio.Lock()
        """Held during a step of a key, and before it until others have had their time."""
        self._next_step = 0
        """Monotonic time of the next step: those of all keys together leave half of the time to others."""
        self._rests_until = 0
        """Monotonic time before which no key that takes long is reconciled."""
        self._timers: Timers[_Moment | _RestOver] = Timers(clock, self._due)
        self._workers = [ControllerWorker(each, concurrency, self._is_resting, clock) for each in controllers]
        self._expectations = Expectations(cache)
        self._by_controller: dict[Resource, ByController] = {}
        self._followed: dict[Resource, list[tuple[ControllerWorker, Interest]]] = {}
        """Interests in all kinds that are followed, by kind."""
        for worker in self._workers:
            for interest in worker.controller.interests:
                if interest.resource == ALL_KINDS:
                    cache.on_every_kind(partial(self._follow_unless_events, worker, interest))
                else:
                    self._follow(worker, interest, interest.resource)

    @property
    def busy(self) -> int:
        """Number of keys that are queued or in progress, without those that wait for a timer."""
        return sum(len(worker.queue) for worker in self._workers)

    async def run(self) -> None:
        """Run the controllers once the cache is complete, until cancelled."""
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
        indexer = self._cache.declare(
            resource,
            interest.labels,
            interest.indexes,
            fields=interest.fields,
            signs=interest.signs,
            aggregates=interest.aggregates,
        )
        if interest.keys is not no_keys:
            self._tell(indexer, interest, self._listener(worker, replace(interest, resource=resource)))
        self._expectations.follow(indexer)

    def _tell(self, indexer: Indexer, interest: Interest, changed: Listener) -> None:
        """Notify a listener of the relevant changes of a kind."""
        if isinstance(interest.keys, ItsController):
            by_controller = self._by_controller.get(indexer.resource)
            if by_controller is None:
                by_controller = self._by_controller[indexer.resource] = ByController()
                indexer.listeners.append(by_controller)
            by_controller.add(interest.keys.kind, changed)
        else:
            indexer.listeners.append(changed)
        # The kind may already be listed for another controller; these objects are still new to this one.
        for obj in indexer.all():
            changed(None, obj)

    def _follow_unless_events(self, worker: ControllerWorker, interest: Interest, resource: Resource) -> None:
        """Follow a kind except events: they have no owners or dependents, and are many."""
        followed = self._followed.setdefault(resource, [])
        # A definition that is deleted and created again is announced twice.
        if resource == EVENTS or any(by is worker and what is interest for by, what in followed):
            return
        followed.append((worker, interest))
        self._follow(worker, interest, resource)

    def _listener(self, worker: ControllerWorker, interest: Interest) -> Callable[[Obj | None, Obj | None], None]:
        """Return the function that queues the keys of a changed object.

        All interests in a kind receive each change, and most of them ignore it quickly.
        """
        keys, matters = interest.keys, interest.matters

        def changed(old: Obj | None, new: Obj | None) -> None:
            if matters is not None and not matters(old, new):
                return
            try:
                before = () if old is None else tuple(keys(old))
                now = () if new is None else tuple(keys(new))
            except Exception:
                before, now = worker.keys_of(interest, old), worker.keys_of(interest, new)
            if before or now:
                self._queue(worker, interest, now if not before or before == now else (*before, *now), new)

        return changed

    def _queue(self, worker: ControllerWorker, interest: Interest, keys: Iterable[Key], new: Obj | None) -> None:
        """Queue the keys of a changed object."""
        unless = interest.unless
        for key in keys:
            if unless is not None and unless(key, self._cache):
                continue
            if interest.delay:
                self._timers.bring_forward((worker, key, True), interest.delay)
            else:
                worker.queue.add(key, written(interest.resource, new) if new is not None else None)

    async def _work(self, worker: ControllerWorker) -> None:
        """Process keys in turn."""
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
                if wait.trace is not None:
                    own = wait.trace if not traces else None
                    traces.append(wait.trace)
                self._timers.set((worker, key, False), wait.again)
            except Exception as error:
                self._failed(worker, key, error)
            worker.queue.leave(key)
            self._expectations.after(traces, partial(worker.queue.done, key, own))
            if not traces:  # without this, a long run of keys would keep other tasks from running
                await asyncio.sleep(0)

    async def _reconcile(self, worker: ControllerWorker, key: Key, traces: list[Trace]) -> bool:
        """Reconcile a key and carry out the operations; record those that succeed, even if a later one fails.

        Return True if the controller has foreseen their result.
        """
        asked = self._clock.monotonic()
        try:
            found = worker.controller.reconcile(key, self._cache, self._clock.now())
        finally:
            self._took(worker, key, self._clock.monotonic() - asked)
        outcome = found if isinstance(found, Outcome) else await self._in_steps(worker, key, found, traces)
        try:
            await self._chain(worker.controller.name, outcome.operations, traces)
        except CreationRefused as refusal:
            if outcome.refused is not None:
                await self._say_refused(worker, key, outcome.refused(refusal.wording.reason, refusal.message), traces)
            raise
        worker.failures.pop(key, None)
        moment = (worker, key, False)
        if outcome.again is None:
            self._timers.cancel(moment)
        else:
            self._timers.set(moment, outcome.again, asked)
        return outcome.foreseen

    async def _in_steps(self, worker: ControllerWorker, key: Key, steps: Steps, traces: list[Trace]) -> Outcome:
        """Run the steps in order, taking turns with those of other keys."""
        failures: list[ApiError] = []
        while True:
            async with worker.stepping, self._stepping:  # controllers take turns, however many keys each has
                started = await self._rested()
                try:
                    operations = next(steps)
                except StopIteration as end:
                    if failures:
                        _raise_first(failures)
                    outcome: Outcome = end.value
                    return outcome
                finally:
                    ended = self._clock.monotonic()
                    self._took(worker, key, ended - started)
                    self._next_step = ended + min(ended - started, LONGEST_REST)
            try:
                await self._chain(worker.controller.name, operations, traces)
            except ApiError as error:
                failures.append(error)

    async def _rested(self) -> int:
        """Wait until others have had as much time as the last step took, and return the monotonic time."""
        while (now := self._clock.monotonic()) < self._next_step:
            await self._clock.sleep((self._next_step - now) / SECOND)
        return now

    def _took(self, worker: ControllerWorker, key: Key, micros: int) -> None:
        """Let keys rest after work that took long."""
        if micros <= LONG:
            worker.took(key, None)
            return
        until = self._rests_until = self._clock.monotonic() + min(micros, LONGEST_REST)
        worker.took(key, until)
        self._workers.remove(worker)  # so that controllers take turns
        self._workers.append(worker)
        self._timers.set(until, (until - self._clock.monotonic()) / SECOND)

    def _is_resting(self) -> bool:
        """True while keys that take long must rest."""
        return self._clock.monotonic() < self._rests_until

    def _due(self, moment: _Moment | _RestOver) -> None:
        """Queue a key whose time has come, or let rested keys continue."""
        if not isinstance(moment, int):
            worker, key, _ = moment
            worker.queue.add(key)
        elif (left := moment - self._clock.monotonic()) > 0:  # the time of day was set
            self._timers.set(moment, left / SECOND)
        else:
            for worker in self._workers:
                worker.queue.wake()

    async def _say_refused(
        self, worker: ControllerWorker, key: Key, said: Sequence[Operation], traces: list[Trace]
    ) -> None:
        """Record that an object cannot be created; if that fails too, the next attempt may record it."""
        try:
            await self._chain(worker.controller.name, said, traces)
        except ApiError as error:
            log.debug("%s %s: a rejection cannot be recorded: %s", worker.controller.name, key, error)

    async def _chain(self, name: str, operations: Sequence[Operation], traces: list[Trace]) -> None:
        """Carry out operations in order, up to the first failure."""
        for operation in operations:
            if isinstance(operation, Together):
                await self._together(name, operation, traces)
                continue
            trace = await self._carry_out(name, operation)
            if trace is not None:
                traces.append(trace)

    async def _together(self, name: str, together: Together, traces: list[Trace]) -> None:
        """Carry out chains concurrently: one worker is the key's own, the others are spare workers of the driver.

        A worker stops at a failure.
        """
        waiting = deque(together.chains)
        failures: list[Exception] = []

        async def work() -> None:
            try:
                while waiting:
                    chain = waiting.popleft()
                    if waiting and self._spare:
                        self._spare -= 1
                        tasks.create_task(work()).add_done_callback(give_back)
                    await self._chain(name, chain, traces)
            except Exception as error:
                failures.append(error)

        def give_back(worker: asyncio.Task[None]) -> None:
            self._spare += 1

        async with asyncio.TaskGroup() as tasks:
            await work()
        if failures:
            _raise_first(failures)

    async def _carry_out(self, name: str, operation: Single) -> Trace | None:
        if isinstance(operation, Record):
            self._record(name, operation)
            return None
        try:
            return await carry_out(self._api, operation, name, self._absent)
        except ApiError as error:
            error.add_note(told(operation))
            event = self._event_of(operation, error)
            if event is not None:
                self._record(name, event)
            if isinstance(operation, Create) and error.code and error.code not in PASSING:
                raise _refused(operation, error) from error
            raise

    def _event_of(self, operation: Single, error: ApiError) -> Record | None:
        """Return the event about a refused change or creation; None for other errors."""
        if isinstance(operation, Create) and operation.about is not None and error.code:
            reason, words = operation.wording
            return Record(operation.about, "Warning", reason, f"{words}{error.message}")
        if isinstance(operation, Patch) and error.code in REFUSALS:
            about = self._cache.get(operation.resource, operation.key)
            if about is not None:
                return Record(about, "Warning", "FailedUpdate", f"Error updating: {error.message}")
        return None

    def _failed(self, worker: ControllerWorker, key: Key, error: Exception) -> None:
        """Retry a key after a pause that grows with its failures."""
        failures = worker.failures[key] = worker.failures.get(key, 0) + 1
        seconds = pause(failures, self._rng, FIRST_PAUSE, LONGEST_PAUSE)
        if isinstance(error, ApiError):
            seconds = max(seconds, error.retry_after)
        self._timers.set((worker, key, False), seconds)
        if self._tell_failure(error):
            return
        if isinstance(error, ApiError):
            # A tenant can have ten thousand objects that are rejected each minute: they are logged less and less often.
            is_repetition = failures & (failures - 1)  # not after 1, 2, 4, 8, ... attempts
            level = logging.DEBUG if is_repetition or error.reason == "Conflict" else logging.WARNING
            what = "; ".join(getattr(error, "__notes__", ()))
            log.log(level, "%s %s: %s: %s (again in %.1f s)", worker.controller.name, key, what, error, seconds)
        else:
            log.error("%s %s (again in %.1f s)", worker.controller.name, key, seconds, exc_info=error)


def _refused(create: Create, error: ApiError) -> CreationRefused:
    """Return the error for an object that the server rejects."""
    refusal = CreationRefused(error.code, error.reason, error.message, error.details, error.retry_after)
    refusal.wording = create.wording
    refusal.add_note(told(create))
    return refusal


def _raise_first(failures: list[E]) -> NoReturn:
    """Raise the first of these errors, and empty the list.

    The traceback refers to the frames that use the list, and through them to the objects of the operations. Garbage
    collection would free them late, if the list still referred to the error.
    """
    try:
        raise failures[0]
    finally:
        failures.clear()
