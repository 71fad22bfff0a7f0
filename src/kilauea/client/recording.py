"""Events of Kubernetes about objects: aggregated, rate-limited, and written in the background.

    recorder = Recorder(client, clock)
    recorder.record("kubelet", Record(pod, "Normal", "Started", "Started container main"))   # does not wait
    await recorder.run()                                                                     # elsewhere: writes them

Equal events are one with a count. After many that differ only in their message, the rest of them are one too. An object
with too many events gets fewer, its warnings apart from the rest. What waits is bounded: warnings and events about
anything but pods go first and have much room; if they back up, only the newest of a reason is kept of each object. What
goes well with pods (`Scheduled`, `Started`) is written slowly while the process is busy, until half of its room is
taken; from then on more is written at once, and the latest is dropped only if that is not enough. What cannot be
written for long is dropped too: events are best effort.
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
"""Events about one object by one component at once, and then one in this many seconds."""
IMPORTANT, REST = 65536, 16384
"""Events that wait to be written: those that matter, and those that tell that all is well with a pod.

A job of ten thousand pods starts faster than its events are written. Each event takes about 1 KB until it is.
"""
REMEMBERED = 4096
"""Of events, reasons and objects, those that are counted on."""
TOGETHER = 8
"""Events that are written at once, so that they share the wait for the server and its disk."""
CROWDED = 64
"""The same while more than half of the room for good news of pods is taken, so that they leave as fast as they come."""
RUSH = 10
"""Events a second that tell that all is well with a pod, while the process has more urgent work: each costs a bind."""
TRIES, RETRY_SECONDS = 5, 2.0
COMBINED = "(combined from similar events): "

log = logging.getLogger(__name__)

_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


class _Recent(OrderedDict[_Name, _Value], Generic[_Name, _Value]):
    """A mapping that forgets what has not been looked at for longest."""

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
    """The reporter of an event and the object it is about."""

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
    """One event: how often it was told, and how much of that is written."""

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
    """Messages for one reason since a moment of the monotonic clock."""

    since: int
    messages: set[str] = field(default_factory=set)


class Recorder:
    """Takes records and writes events.

    Args:
        api: where they are written.
        clock: for their times.
        limit: on all writes; None for no limit.
        instance: name of the process, by which two that work at the same time can be told apart.

    Attributes:
        busy: tells if the process has more urgent work than good news of pods, which is written more slowly then.
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
        """Events that are still to be written."""
        return len(self._pending)

    @property
    def dropped(self) -> int:
        """Events that were not written, for lack of room or because of a refusal."""
        return self._unwritten + self._pending.lost

    def record(self, component: str, record: Record) -> None:
        """Tell of something; it is written soon, or dropped."""
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
        """The message by which an event is counted: its own, or one for all that follow many others."""
        now = self._clock.monotonic()
        similar = self._similar.look_up(reason)
        if similar is None or now - similar.since > SIMILAR_SECONDS * SECOND:
            similar = self._similar.remember(reason, _Similar(now))
        if message in similar.messages or len(similar.messages) < SIMILAR:
            similar.messages.add(message)
            return message
        return COMBINED

    async def run(self) -> None:
        """Write, until cancelled."""
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
        """Return True if only good news of pods is to be written, there is room for more, and other work is urgent."""
        return not self._pending.important and len(self._pending) < REST // 2 and self.busy()

    def _taken(self) -> list[_Reported]:
        """The next events, as many as are written together; the limit allows the first of them."""
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
    """The object of an event as events name it."""
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
    """A time in whole seconds, as events have it."""
    return format_time(us // SECOND * SECOND)
