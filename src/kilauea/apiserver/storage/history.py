"""Recent events in memory, for watches and for lists at an earlier revision.

Events lie in one ring per resource, so that a reader of pods never walks over leases; they leave in the order of
revisions over all resources, whole batches at a time. What left is also what the log on disk may compact away, up to
`floor`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from kilauea.apiserver.storage.errors import Expired
from kilauea.apiserver.storage.packing import Ageing
from kilauea.apiserver.storage.records import Event, Stored, covers, resource_of

OVERHEAD = 400  # bytes of an event beside its key and values, about
CHECK_EVERY = 256  # revisions; the age of events is not looked at more often
APART = 1.0  # seconds; how exactly it is known when a revision was changed
RENEWALS = 5000
"""Events of leases that are kept at most: each node renews one every few seconds, and old renewals tell nothing."""
FEWER: Mapping[str, int] = {"/coordination.k8s.io/leases/": RENEWALS}
"""Events that are kept at most of some resources, however young they are."""
_revision = attrgetter("now.revision")


@dataclass(frozen=True)
class Retention:
    """Limits of the history.

    Events younger than `seconds`, and the newest `revisions` of any age, but never more than `size` bytes; of some
    resources fewer (`FEWER`). A watch may begin at any of them. A list is as of an earlier revision only until
    `seconds` after that was changed, as where etcd compacts, so that no page undoes what a quiet cluster has kept.
    """

    seconds: float = 300.0
    revisions: int = 1000
    size: int = 32 << 20


class Ring:
    """The events of one resource, oldest first; all of them after `floor`. Its values are packed as they age.

    Args:
        floor: the revision after which they begin.
        most: events that are kept at most, about; None for any number.
    """

    def __init__(self, floor: int, most: int | None = None) -> None:
        self.floor = floor
        self.most = most
        self.newest = floor
        """Of the events that have ever been here."""
        self.events: list[Event] = []
        self.ageing = Ageing()

    def add(self, event: Event) -> None:
        """Take in the next event."""
        self.events.append(event)
        self.newest = event.now.revision
        self.ageing.add(event.now)
        if self.most is not None and len(self.events) > self.most:
            self._drop(max(self.most // 10, 1))  # several at a time, as each time moves the others

    def check(self, revision: int) -> None:
        """Refuse a revision below the oldest from which events go on without a gap.

        Raises:
            Expired: it is below.
        """
        if revision < self.floor:
            raise Expired(revision, self.floor)

    def after(self, revision: int, most: int | None = None) -> list[Event]:
        """Events above a revision.

        Raises:
            Expired: some of them are no longer here.
        """
        self.check(revision)
        first = bisect_right(self.events, revision, key=_revision)
        return self.events[first:] if most is None else self.events[first : first + most]

    def drop_through(self, revision: int) -> None:
        """Forget the events up to a revision."""
        count = bisect_right(self.events, revision, key=_revision)
        if count:
            self._drop(count)

    def _drop(self, count: int) -> None:
        """Forget the oldest events, at least one."""
        self.floor = self.events[count - 1].revision
        del self.events[:count]


class History:
    """The rings of all resources; `revision` is the newest in them, `floor` the newest that left them."""

    def __init__(self, retention: Retention, clock: Callable[[], float], floor: int) -> None:
        self.revision = floor
        self.floor = floor
        self._begin = floor
        self._retention = retention
        self._clock = clock
        self._rings: dict[str, Ring] = {}
        self._batches: deque[tuple[float, int, int]] = deque()
        """Of each batch, oldest first: its time, its bytes, its last revision."""
        self._size = 0
        self._next_check = floor + CHECK_EVERY
        self._expired = -1
        """The newest revision of which there are no more lists."""
        self._outdated: deque[tuple[float, int]] = deque()
        """Times, at least `APART` seconds from each other, and the newest revision that was not current any more."""

    def ring(self, prefix: str) -> Ring:
        """The ring of the resource of a key or prefix."""
        resource = resource_of(prefix)
        ring = self._rings.get(resource)
        if ring is None:
            ring = self._rings[resource] = Ring(self._begin, FEWER.get(resource))
        return ring

    def add(self, events: Sequence[Event]) -> None:
        """Take in a batch of events in order, at least one, and forget what is beyond the retention."""
        now = self._clock()
        if not self._outdated or now - self._outdated[-1][0] >= APART:
            self._let_lists_expire()
            self._outdated.append((now, self.revision))
        size = 0
        for event in events:
            key, before = event.now.key, event.before
            ring = self.ring(key)
            ring.add(event)
            # What is current is in memory anyway; what history alone keeps is the value before.
            if ring.most is None:
                size += OVERHEAD + len(key) + (0 if before is None else before.size)
        self.revision = events[-1].revision
        self._batches.append((now, size, self.revision))
        self._size += size
        if self._size > self._retention.size or self.revision >= self._next_check:
            self._forget()

    def undone(self, prefix: str, revision: int) -> dict[str, Stored | None]:
        """Return the objects that differ from now at an earlier revision, as they were; None where there was none.

        Raises:
            Expired: history does not reach back so far, or the revision is out of date for longer than it may be.
        """
        self._let_lists_expire()
        if revision <= self._expired:
            raise Expired(revision, self._expired + 1)
        then: dict[str, Stored | None] = {}
        for event in self.ring(prefix).after(revision):
            if covers(prefix, event.key):
                then.setdefault(event.key, event.before)
        return then

    def _let_lists_expire(self) -> None:
        before = self._clock() - self._retention.seconds
        while self._outdated and self._outdated[0][0] < before:
            self._expired = self._outdated.popleft()[1]

    def _forget(self) -> None:
        self._next_check = self.revision + CHECK_EVERY
        limit = self._retention.size
        if self._size > limit:
            limit -= limit // 10  # some room, so that not every write has to make its own
        before = self._clock() - self._retention.seconds
        floor = self.floor
        while self._batches:
            time, size, last = self._batches[0]
            old = time < before and self.revision - last >= self._retention.revisions
            if not old and self._size <= limit:
                break
            self._batches.popleft()
            self._size -= size
            self.floor = last
        if self.floor != floor:
            for ring in self._rings.values():
                ring.drop_through(self.floor)
