"""Recent events in memory, for watches and for lists at an earlier revision.

Each resource has a ring of events, so that a reader of pods never iterates over leases. Events are dropped in the order
of revisions over all resources, in whole batches. The log on disk may compact the dropped revisions, up to `floor`.
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

OVERHEAD = 400  # approximate bytes of an event without its key and values
CHECK_EVERY = 256  # revisions between two checks of the age of events
APART = 1.0  # seconds; precision of the time when a revision was superseded
RENEWALS = 5000
"""The maximum number of lease events: each node renews one every few seconds, and old renewals are not useful."""
FEWER: Mapping[str, int] = {"/coordination.k8s.io/leases/": RENEWALS}
"""The maximum number of events of some resources, regardless of age."""
_revision = attrgetter("now.revision")


@dataclass(frozen=True)
class Retention:
    """Limits of the history.

    Keeps events younger than `seconds`, and the newest `revisions` of any age, but at most `size` bytes; fewer of some
    resources (`FEWER`). A watch may begin at any of them. A list may use an earlier revision only until `seconds` after
    it was superseded, as if etcd compacted it, so that a page never undoes all that a quiet cluster has kept.
    """

    seconds: float = 300.0
    revisions: int = 1000
    size: int = 32 << 20


class Ring:
    """The events of one resource after `floor`, oldest first. Values are packed as they age.

    Args:
        floor: the revision after which events begin.
        most: the approximate maximum number of events; None for no limit.
    """

    def __init__(self, floor: int, most: int | None = None) -> None:
        self.floor = floor
        self.most = most
        self.newest = floor
        """The newest revision of all events that were ever in the ring."""
        self.events: list[Event] = []
        self.ageing = Ageing()

    def add(self, event: Event) -> None:
        """Add the next event."""
        self.events.append(event)
        self.newest = event.now.revision
        self.ageing.add(event.now)
        if self.most is not None and len(self.events) > self.most:
            self._drop(max(self.most // 10, 1))  # several at a time, as each removal moves the others

    def check(self, revision: int) -> None:
        """Check that events after a revision are complete.

        Raises:
            Expired: some of them were dropped.
        """
        if revision < self.floor:
            raise Expired(revision, self.floor)

    def after(self, revision: int, most: int | None = None) -> list[Event]:
        """Return events after a revision.

        Raises:
            Expired: some of them were dropped.
        """
        self.check(revision)
        first = bisect_right(self.events, revision, key=_revision)
        return self.events[first:] if most is None else self.events[first : first + most]

    def drop_through(self, revision: int) -> None:
        """Drop the events up to a revision."""
        count = bisect_right(self.events, revision, key=_revision)
        if count:
            self._drop(count)

    def _drop(self, count: int) -> None:
        """Drop the oldest events, at least one."""
        self.floor = self.events[count - 1].revision
        del self.events[:count]


class Earlier:
    """The differences of an earlier revision from now, found event by event: there can be tens of thousands.

    Args:
        ring: the events of a resource.
        prefix: the prefix of the keys of the objects.
        after_key: the key after which objects are of interest.
        revision: the earlier revision.

    Attributes:
        then: the objects that differ, as of then; None for those that did not exist.
        grown: the number of objects that there are more now.
    """

    def __init__(self, ring: Ring, prefix: str, after_key: str, revision: int) -> None:
        self.revision = revision
        self.then: dict[str, Stored | None] = {}
        self.grown = 0
        self._after_key = after_key
        self._ring = ring
        self._prefix = prefix
        self._seen = revision

    def read(self, most: int | None = None) -> bool:
        """Read the following events, at most so many; return False if these were all.

        Raises:
            Expired: some of them were dropped.
        """
        events = self._ring.after(self._seen, most)
        if not events:
            return False
        self._seen = events[-1].revision
        for event in events:
            key = event.now.key
            if key > self._after_key and covers(self._prefix, key):
                self.then.setdefault(key, event.before)
                self.grown += (event.before is None) - (event.kind == "deleted")
        return len(events) == most


class History:
    """The rings of all resources; `revision` is the newest in them, `floor` the newest dropped one."""

    def __init__(self, retention: Retention, clock: Callable[[], float], floor: int) -> None:
        self.revision = floor
        self.floor = floor
        self._begin = floor
        self._retention = retention
        self._clock = clock
        self._rings: dict[str, Ring] = {}
        self._batches: deque[tuple[float, int, int]] = deque()
        """Time, bytes and last revision of each batch, oldest first."""
        self._size = 0
        self._next_check = floor + CHECK_EVERY
        self._expired = -1
        """The newest revision that is too old for lists."""
        self._outdated: deque[tuple[float, int]] = deque()
        """Times at least `APART` seconds apart, and the newest revision that was superseded by then."""

    def ring(self, prefix: str) -> Ring:
        """Return the ring of the resource of a key or prefix."""
        resource = resource_of(prefix)
        ring = self._rings.get(resource)
        if ring is None:
            ring = self._rings[resource] = Ring(self._begin, FEWER.get(resource))
        return ring

    def add(self, events: Sequence[Event]) -> None:
        """Add a batch of events in order, at least one, and drop events beyond the retention."""
        now = self._clock()
        if not self._outdated or now - self._outdated[-1][0] >= APART:
            self._let_lists_expire()
            self._outdated.append((now, self.revision))
        size = 0
        for event in events:
            key, before = event.now.key, event.before
            ring = self.ring(key)
            ring.add(event)
            # The current value is in memory anyway; only history keeps the previous one.
            if ring.most is None:
                size += OVERHEAD + len(key) + (0 if before is None else before.size)
        self.revision = events[-1].revision
        self._batches.append((now, size, self.revision))
        self._size += size
        if self._size > self._retention.size or self.revision >= self._next_check:
            self._forget()

    def earlier(self, prefix: str, after_key: str, revision: int) -> Earlier:
        """Return what differs at an earlier revision, of which nothing has been read yet.

        Raises:
            Expired: the revision is older than the history, or was superseded too long ago.
        """
        self._let_lists_expire()
        if revision <= self._expired:
            raise Expired(revision, self._expired + 1)
        return Earlier(self.ring(prefix), prefix, after_key, revision)

    def _let_lists_expire(self) -> None:
        before = self._clock() - self._retention.seconds
        while self._outdated and self._outdated[0][0] < before:
            self._expired = self._outdated.popleft()[1]

    def _forget(self) -> None:
        self._next_check = self.revision + CHECK_EVERY
        limit = self._retention.size
        if self._size > limit:
            limit -= limit // 10  # some reserve, so that not every write has to drop events
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
