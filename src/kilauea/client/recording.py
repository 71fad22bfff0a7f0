"""Recording of Kubernetes events: aggregated, rate-limited, and written in the background.

    recorder = Recorder(client, clock)
    recorder.record("kubelet", Record(pod, "Normal", "Started", "Started container main"))   # does not wait
    await recorder.run()                                                                     # elsewhere: writes them

Equal events are combined into one with a count. After many that differ only in their message, further ones are combined
too. Events per object are limited, separately for warnings and others. The queue is bounded: warnings and events about
objects other than pods come first and have much room; if they accumulate, only the newest per reason and object is
kept. Normal events of pods (`Scheduled`, `Started`) are written slowly while the process is busy, until their queue is
half full; from then on more are written at once, and the latest are dropped only if that is not enough. Events that
cannot be written for long are dropped too: events are best effort.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from kilauea.api.kinds import EVENTS
from kilauea.api.ports import Api, ApiError, Clock, Key, Record
from kilauea.api.times import SECOND, format_time
from kilauea.client.backlog import Backlog
from kilauea.client.limits import RateLimit

SIMILAR = 10
"""Messages for the same reason about one object, within `SIMILAR_SECONDS`, after which further ones are combined."""
SIMILAR_SECONDS = 600
BURST, EACH_SECONDS = 25, 300.0
"""Burst of events about one object by one component, and seconds per further event."""
IMPORTANT, REST = 65536, 16384
"""Maximum number of waiting events: important ones, and normal events of pods.

A job of ten thousand pods starts faster than its events are written. Each waiting event uses about 1 KB.
"""
REMEMBERED = 4096
"""Number of recent events, reasons and objects that are remembered for counting."""
TOGETHER = 8
"""Events that are written concurrently, so that they share the wait for the server and its disk."""
CROWDED = 64
"""The same while the queue of normal pod events is more than half full, so that they leave as fast as they arrive."""
RUSH = 10
"""Normal pod events per second while the process has more urgent work: each costs as much as a bind."""
TRIES, RETRY_SECONDS = 5, 2.0
COMBINED = "(combined from similar events): "

log = logging.getLogger(__name__)

_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


class _Recent(OrderedDict[_Name, _Value], Generic[_Name, _Value]):
    """A mapping that evicts the least recently used entry."""

    def look_up(self, name: _Name) -> _Value | None:
        value = self.get(name)
        if value is not None:
            self.move_to_end(name)
        return value

    def remember(self, name: _Name, value: _Value) -> _Value:
        self[name] = value
        if len(self) > REMEMBERED:
            self.popitem(last=False)
        return value


class _Subject(NamedTuple):
    """The reporter of an event and its object."""

    component: str
    kind: str
    namespace: str
    name: str
    uid: str


class _Reason(NamedTuple):
    subject: _Subject
    type: str
    reason: str


@dataclass(slots=True)
class _Reported:
    """One event: its count, and the part of that already written."""

    reason: _Reason
    api_version: str
    revision: str
    message: str
    first: int
    last: int
    count: int = 0
    key: Key | None = None


@dataclass(slots=True)
class _Similar:
    """Messages with the same reason since a time of the monotonic clock."""

    since: int
    messages: set[str] = field(default_factory=set)


class Recorder:
    """Receives records and writes events.

    Args:
        api: the API server to which events are written.
        clock: the clock for their times.
        limit: the rate limit of all writes; None for no limit.
        instance: the name of the process, which distinguishes concurrent ones.

    Attributes:
        busy: returns True if the process has more urgent work than normal pod events, which are written slowly then.
    """

    def __init__(self, api: Api, clock: Clock, limit: RateLimit | None = None, instance: str = "") -> None:
        self._api = api
        self._clock = clock
        self._limit = limit
        self._instance = instance
        self.busy: Callable[[], bool] = lambda: False
        self._rush = RateLimit(RUSH, 1, clock)
        self._told: _Recent[tuple[_Reason, str], _Reported] = _Recent()
        self._similar: _Recent[_Reason, _Similar] = _Recent()
        self._limits: _Recent[tuple[_Subject, str], RateLimit] = _Recent()
        self._pending: Backlog[_Reason, _Reported] = Backlog(IMPORTANT, REST)
        self._news = asyncio.Event()
        self._numbers = itertools.count()
        self._unwritten = 0

    @property
    def waiting(self) -> int:
        """The number of events to be written."""
        return len(self._pending)

    @property
    def dropped(self) -> int:
        """The number of events that were dropped because the queue was full or the server rejected them."""
        return self._unwritten + self._pending.lost

    def record(self, component: str, record: Record) -> None:
        """Record an event, which is written soon or dropped."""
        metadata = record.about["metadata"]
        subject = _Subject(
            component, record.about.get("kind") or "", metadata.get("namespace") or "", metadata["name"],
            metadata.get("uid") or "",
        )  # fmt: skip
        if not self._may(subject, record.type):
            return
        now = self._clock.now()
        reason = _Reason(subject, record.type, record.reason)
        message = self._combined(reason, record.message)
        told = self._told.look_up((reason, message))
        if told is None:
            version, revision = record.about.get("apiVersion") or "", metadata.get("resourceVersion") or ""
            made = _Reported(reason, version, revision, message, now, now)
            told = self._told.remember((reason, message), made)
        told.count += 1
        told.last = now
        if message.startswith(COMBINED):
            told.message = COMBINED + record.message
        self._have_written(told, message)

    def _have_written(self, told: _Reported, text: str) -> None:
        reason, lost = told.reason, self.dropped
        matters = reason.type == "Warning" or reason.subject.kind != "Pod"
        if self._pending.put(reason, text, told, important=matters):
            self._news.set()
        if self.dropped > lost:
            self._say(lost, "too many wait to be written")

    def _may(self, subject: _Subject, type_: str) -> bool:
        limit = self._limits.look_up((subject, type_))
        if limit is None:
            limit = self._limits.remember((subject, type_), RateLimit(1 / EACH_SECONDS, BURST, self._clock))
        return limit.take()

    def _combined(self, reason: _Reason, message: str) -> str:
        """Return the message under which an event is counted: its own, or a combined one after many others."""
        now = self._clock.monotonic()
        similar = self._similar.look_up(reason)
        if similar is None or now - similar.since > SIMILAR_SECONDS * SECOND:
            similar = self._similar.remember(reason, _Similar(now))
        if message in similar.messages or len(similar.messages) < SIMILAR:
            similar.messages.add(message)
            return message
        return COMBINED

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._pending:
                if self._may_wait():
                    await self._rush.wait()
                if self._limit is not None:
                    await self._limit.wait()
                await asyncio.gather(*map(self._write, self._taken()))

    def _may_wait(self) -> bool:
        """Return True if only normal pod events wait, their queue has room, and other work is urgent."""
        return not self._pending.important and len(self._pending) < REST // 2 and self.busy()

    def _taken(self) -> list[_Reported]:
        """Take the next events to write together, the first of which the limit allows."""
        taken = [self._pending.take()]
        most = TOGETHER if len(self._pending) < REST // 2 else CROWDED
        while self._pending and len(taken) < most and not self._may_wait():
            if self._limit is not None and not self._limit.take():
                break
            taken.append(self._pending.take())
        return taken

    async def _write(self, told: _Reported) -> None:
        for attempt in range(TRIES):
            try:
                return await self._create_or_count(told)
            except ApiError as error:
                if error.code in range(400, 500) and error.code != 429:
                    return self._drop(str(error))  # e.g. the namespace is being deleted
                if attempt + 1 == TRIES:
                    self._drop(str(error))
                else:
                    await self._clock.sleep(max(RETRY_SECONDS, error.retry_after))

    async def _create_or_count(self, told: _Reported) -> None:
        if told.key is not None:
            patch = {"count": told.count, "lastTimestamp": _second(told.last), "message": told.message}
            try:
                await self._api.patch(EVENTS, told.key, patch)
            except ApiError as error:
                if error.code != 404:
                    raise
            else:
                return
        body = self._event(told)
        await self._api.create(EVENTS, body["metadata"]["namespace"], body)
        told.key = Key(body["metadata"]["namespace"], body["metadata"]["name"])

    def _event(self, told: _Reported) -> dict[str, Any]:
        subject, component = told.reason.subject, told.reason.subject.component
        moment = self._clock.now() * 1000 + next(self._numbers) % 1000
        namespace = subject.namespace or "default"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{subject.name}.{moment:x}", "namespace": namespace},
            "involvedObject": _reference(told),
            "type": told.reason.type,
            "reason": told.reason.reason,
            "message": told.message,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": self._instance,
            "firstTimestamp": _second(told.first),
            "lastTimestamp": _second(told.last),
            "count": told.count,
        }

    def _drop(self, words: str) -> None:
        self._unwritten += 1
        self._say(self.dropped - 1, words)

    @staticmethod
    def _say(earlier: int, words: str) -> None:
        log.log(logging.DEBUG if earlier else logging.WARNING, "an event was dropped: %s", words)


def _reference(told: _Reported) -> dict[str, str]:
    """Return the object of an event as an object reference."""
    subject = told.reason.subject
    fields = {
        "apiVersion": told.api_version,
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
        "resourceVersion": told.revision,
    }
    return {name: value for name, value in fields.items() if value}


def _second(us: int) -> str:
    """Format a time in whole seconds, as in events."""
    return format_time(us // SECOND * SECOND)
