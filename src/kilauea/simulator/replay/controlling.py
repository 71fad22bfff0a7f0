"""Controllers on the objects of a replay: the driver of `runtime/manager` without a server and without waiting.

A key is reconciled when a related object changes, after the delay of the interest, and when its controller requests it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any

from kilauea.api.kinds import PODS, VC_JOBS
from kilauea.api.ports import (
    Confirm,
    Controller,
    Create,
    Delete,
    Empty,
    Interest,
    Key,
    Obj,
    Operation,
    Patch,
    Record,
    Replace,
    Together,
    finished,
    key_of,
)
from kilauea.api.times import SECOND, format_time
from kilauea.simulator.replay.objects import Objects

MOST_LOOKS = 10_000
"""Number of reconciliations at one time, besides 100 of each key, after which controllers are considered restless."""


class Restless(RuntimeError):
    """Controllers do not come to rest; names the key that is reconciled most often."""


class Controlling:
    """Controllers, and the keys to reconcile.

    Args:
        objects: all objects.
        controllers: the controllers.
        delete_pod: called for a pod that a controller deletes.
    """

    def __init__(self, objects: Objects, controllers: Sequence[Controller], delete_pod: Callable[[Obj], None]) -> None:
        self._objects = objects
        self._delete_pod = delete_pod
        self._controllers = controllers
        self._due: dict[tuple[int, Key], int] = {}
        """The earliest time at which a key of a controller must be reconciled."""
        self._heap: list[tuple[int, int, Key]] = []
        self.now = 0
        self.looks = 0
        for number, controller in enumerate(controllers):
            for interest in controller.interests:
                objects.listen(interest.resource, partial(self._changed, number, interest))
                for name, function in interest.indexes.items():
                    objects.index(interest.resource, name, function)
                for name, aggregation in interest.aggregates.items():
                    objects.aggregate_by(interest.resource, name, aggregation)
                for key in interest.always:
                    self._ask(number, key, 0)

    @property
    def next_due(self) -> int | None:
        """The time of the next reconciliation; None if there is none."""
        while self._heap:
            when, number, key = self._heap[0]
            if self._due.get((number, key)) == when:
                return when
            heappop(self._heap)
        return None

    def run(self, now: int) -> None:
        """Carry out all reconciliations that are due.

        Raises:
            Restless: they do not end.
        """
        self.now = now
        looks = 0
        seen: set[tuple[int, Key]] = set()
        while (due := self.next_due) is not None and due <= now:
            _, number, key = heappop(self._heap)
            del self._due[number, key]
            looks += 1
            seen.add((number, key))
            if looks > MOST_LOOKS + 100 * len(seen):
                raise Restless(f"{self._controllers[number].name} does not finish with {key}")
            self._look(number, key)
        self.looks += looks

    def _changed(self, number: int, interest: Interest, before: Obj | None, after: Obj | None) -> None:
        if interest.matters is not None and not interest.matters(before, after):
            return
        if interest.resource == VC_JOBS and _is_count(before, after):
            return
        when = self.now + round(interest.delay * SECOND)
        for obj in (before, after):
            for key in interest.keys(obj) if obj is not None else ():
                self._ask(number, key, when)

    def _ask(self, number: int, key: Key, when: int) -> None:
        known = self._due.get((number, key))
        if known is None or when < known:
            self._due[number, key] = when
            heappush(self._heap, (when, number, key))

    def _look(self, number: int, key: Key) -> None:
        outcome = finished(self._controllers[number].reconcile(key, self._objects, self.now))
        self._carry_out(outcome.operations)
        if outcome.again is not None:
            self._ask(number, key, self.now + max(1, round(outcome.again * SECOND)))

    def _carry_out(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            match operation:
                case Together(chains):
                    for chain in chains:
                        self._carry_out(chain)
                case Create(resource, body):
                    self._objects.create(resource, body, format_time(self.now))
                case Patch(resource, key, patch):
                    self._objects.change(resource, key, patch)
                case Delete(resource, key, uid):
                    obj = self._objects.get(resource, key)
                    if obj is not None and obj["metadata"]["uid"] == uid:
                        if resource == PODS:
                            self._delete_pod(obj)
                        else:
                            self._objects.remove(resource, key)
                case Replace(resource, body):
                    self._objects.change(resource, key_of(body), body)
                case Record() | Confirm() | Empty():
                    pass


def _is_count(before: Obj | None, after: Obj | None) -> bool:
    """Return True if only numbers in the status of a job have changed, which its controller wrote."""
    if before is None or after is None:
        return False
    old_status, new_status = before.get("status") or {}, after.get("status") or {}
    return (
        before["spec"] is after["spec"]
        and _annotations(before) == _annotations(after)
        and all(old_status.get(name) == new_status.get(name) for name in ("state", "version", "retryCount"))
    )


def _annotations(obj: Obj) -> Any:
    return obj["metadata"].get("annotations")
