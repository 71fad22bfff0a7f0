"""Keeps the history of a live cluster: follows jobs, pod groups and pods, and records what happens to them.

    recorder = Recorder(client, folder, clock, rng)
    await recorder.run()                  # until cancelled
    recorder.evicted(...)                 # told by the scheduler
    await recorder.flush()                # all that was seen by now is in the file

Watches fill a buffer. Every few seconds, a thread converts it into records and commits them together, so that nothing
waits for the history, and many changes of an object cost as much as one. Problems with the history are logged and
recorded in it as a gap; the cluster continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

import apsw
import msgspec

from kilauea.api.kinds import POD_GROUPS, PODS, VC_JOBS
from kilauea.api.ports import Api, Clock, Resource, Seen, Text
from kilauea.api.times import SECOND
from kilauea.client.reflector import Reflector
from kilauea.history.changes import Changes, Evicted
from kilauea.history.errors import HistoryError
from kilauea.history.recording import Kept, Recording
from kilauea.history.records import JobRecord, PodRecord, Record
from kilauea.history.store import Bounds, History
from kilauea.history.views import read_group, read_job, read_pod

FLUSH_SECONDS = 3.0
"""Seconds between two commits."""
SEEN_SECONDS = 60.0
"""Seconds after which the file records that nothing has happened."""
THIN_SECONDS = 600.0
"""Seconds between two checks of the bounds."""
RETRY_SECONDS = 30.0
"""Seconds until another attempt to open the file."""
GAP = 5 * SECOND
"""Microseconds without a recorder that do not count as a gap: a restart."""
MOST_UNWRITTEN = 200_000
"""Maximum number of records to keep while they cannot be written, for example on a full disk."""
MOST_CREATORS = 20_000
_KINDS: tuple[tuple[Resource, Callable[[bytes], object]], ...] = (
    (VC_JOBS, read_job),
    (POD_GROUPS, read_group),
    (PODS, read_pod),
)
log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass
class _Buffer:
    """The changes from a watch since the last commit."""

    listed: Sequence[Text] | None = None
    seen: list[Seen] = field(default_factory=list)
    version: str = ""

    def on_relist(self, items: Sequence[Text], version: str) -> None:
        """Add a list."""
        self.listed, self.seen, self.version = items, [], version

    def on_events(self, batch: Sequence[Seen]) -> None:
        """Add changes."""
        self.seen += map(_held, batch)
        self.version = batch[-1].version if batch else self.version

    def take(self) -> Changes:
        """Return the collected changes, and start over."""
        taken = Changes(self.listed, self.seen)
        self.listed, self.seen = None, []
        return taken


def _held(seen: Seen) -> Seen:
    """A change without its text if that is stored elsewhere; for a deleted object, it soon is not."""
    return seen._replace(object=b"") if seen.holder is not None and seen.type != "DELETED" else seen


class _Stored(Kept):
    """Looks up records in a store."""

    def __init__(self, history: History) -> None:
        self._history = history

    def job(self, uid: str) -> JobRecord | None:
        """The job with a UID."""
        return self._history.job(uid)

    def pod(self, uid: str) -> PodRecord | None:
        """The pod with a UID."""
        return self._history.pod(uid)

    def last_reason(self, job: str) -> str:
        """The last reason why a job waited."""
        found = self._history.events(job=job, what=("Waiting",), limit=1)
        return f"{found[0].reason}: {found[0].message}" if found else ""


class _Writer:
    """The part that runs in a separate thread: records, and the file."""

    def __init__(self, folder: Path, bounds: Bounds) -> None:
        self._folder = folder
        self._bounds = bounds
        self._history: History | None = None
        self._recording = Recording()
        self._unwritten: list[Record] = []
        self._failed_at = 0
        self._dropped = False
        self.holds = False
        """True if something waits for the next commit, even if nothing happens until then."""

    def open(self, now: int) -> None:
        """Open the file and continue where it ends.

        Raises:
            HistoryError: the file cannot be used.
        """
        history = self._history = History.open(self._folder)
        if history.damage:
            log.warning("the history was damaged: %s", history.damage)
            history.add_gap(history.seen or now, now, "the file was damaged, and records may be missing")
        elif history.seen and now - history.seen > GAP:
            history.add_gap(history.seen, now, "nothing was recorded")
        jobs = {job.uid: job for job in history.open_jobs()}
        pods = {pod.uid: pod for pod in history.open_pods()}
        self._recording = Recording(_Stored(history), history.seen, jobs, pods)

    def take(
        self,
        changes: Sequence[Changes],
        evictions: Sequence[Evicted],
        creators: dict[tuple[str, str, str], tuple[str, Sequence[str]]],
        now: int,
        *,
        seen: bool,
    ) -> None:
        """Create records and commit them; those that cannot be written are kept for the next time."""
        recording, history = self._recording, self._history
        if history is None:
            return
        recording.creators.update(creators)
        while len(recording.creators) > MOST_CREATORS:
            del recording.creators[next(iter(recording.creators))]
        self._unwritten += recording.take(changes[0], changes[1], changes[2], evictions, now)
        self.holds = recording.holds
        if not self._unwritten and not seen:
            return
        try:
            history.put(self._unwritten, now)
            self._unwritten = []
            if self._failed_at:
                log.warning("the history can be written again")
                if self._dropped:
                    history.add_gap(self._failed_at, now, "records could not be written")
            self._failed_at, self._dropped = 0, False
        except HistoryError as error:
            if is_damage(error) and self.replace(now):
                return
            if not self._failed_at:
                log.warning("the history cannot be written, and is kept in memory in the meantime: %s", error)
            self._failed_at = self._failed_at or now
            if len(self._unwritten) > MOST_UNWRITTEN:
                self._dropped = True
                del self._unwritten[:-MOST_UNWRITTEN]

    def replace(self, now: int) -> bool:
        """Set aside a file that was damaged while it was open, and continue with its readable content."""
        recording = self._recording
        self.close()
        try:
            self.open(now)
        except HistoryError as error:
            log.warning("there is no history: %s", error)
            return False
        if self._history is not None:  # more is in memory than could be read
            recording.kept = _Stored(self._history)
            self._recording = recording
            self._unwritten += [*recording.jobs.values(), *recording.pods.values()]
        return True

    def thin(self, now: int) -> bool:
        """Remove some content beyond the bounds; returns True if there is more."""
        try:
            return self._history is not None and self._history.thin(now, self._bounds)
        except HistoryError as error:
            log.warning("the history cannot be thinned: %s", error)
            return False

    def close(self) -> None:
        """Close the file."""
        if self._history is not None:
            self._history.close()
            self._history = None


class Recorder:
    """Records what happens in a cluster.

    Args:
        api: the cluster.
        folder: folder of the history.
        clock: the time.
        rng: randomness for pauses.
        bounds: the amount of history to keep.
    """

    def __init__(self, api: Api, folder: Path, clock: Clock, rng: Random, bounds: Bounds | None = None) -> None:
        self.folder = folder
        self._clock = clock
        self._buffers = [_Buffer() for _ in _KINDS]
        self._reflectors = [
            Reflector(api, kind, buffer, clock, rng, may_lack=True, reduce=_reducer(read))
            for (kind, read), buffer in zip(_KINDS, self._buffers, strict=True)
        ]
        self._evictions: list[Evicted] = []
        self._creators: dict[tuple[str, str, str], tuple[str, Sequence[str]]] = {}
        self._writer = _Writer(folder, bounds or Bounds())
        self._thread = ThreadPoolExecutor(1, "history")
        self._open = False

    def evicted(self, evicted: Evicted) -> None:
        """Record an eviction by the scheduler."""
        self._evictions.append(evicted)
        if len(self._evictions) > MOST_UNWRITTEN:
            del self._evictions[0]

    def created(self, kind: str, namespace: str, name: str, user: str, groups: Sequence[str]) -> None:
        """Record the user who creates an object, from the server; a kind is written as `Job.batch`."""
        self._creators[kind, namespace, name] = (user, groups)
        if len(self._creators) > MOST_CREATORS:
            del self._creators[next(iter(self._creators))]

    async def run(self) -> None:
        """Record until cancelled; raises no other exceptions."""
        following: list[asyncio.Future[None]] = []
        try:
            await self._begin()  # first, as changes are not kept while another process writes the file
            following += [asyncio.ensure_future(each.run()) for each in self._reflectors]
            for each in self._reflectors:
                await each.complete.wait()
            self._open = True
            await self.flush(seen=True)
            told = thinned = self._clock.monotonic()
            while True:
                now = self._clock.monotonic()
                seen = now - told >= SEEN_SECONDS * SECOND
                told = now if seen else told
                await self.flush(seen=seen)
                if now - thinned >= THIN_SECONDS * SECOND:
                    thinned = now
                    while await self._in_thread(lambda: self._writer.thin(self._clock.now())):
                        await self._clock.sleep(0.1)
                await self._clock.sleep(FLUSH_SECONDS)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            # Changes seen so far are written even though this task is being cancelled.
            with suppress(Exception):
                await asyncio.shield(self.flush(seen=True))
            self._open = False
            await asyncio.shield(self._in_thread(self._writer.close))
            self._thread.shutdown(wait=False)

    @property
    def versions(self) -> Mapping[Resource, str]:
        """The known version of each kind; empty before it has been listed."""
        return {kind: buffer.version for (kind, _), buffer in zip(_KINDS, self._buffers, strict=True)}

    async def flush(self, *, seen: bool = False) -> None:
        """Write all changes seen so far.

        Args:
            seen: also record that the history is complete, even if nothing has happened.
        """
        if not self._open:
            return
        changes = [buffer.take() for buffer in self._buffers]
        evictions, self._evictions = self._evictions, []
        creators, self._creators = self._creators, {}
        if not (
            seen or evictions or self._writer.holds or any(each.seen or each.listed is not None for each in changes)
        ):
            if creators:
                self._creators = {**creators, **self._creators}
            return
        now = self._clock.now()
        try:
            await self._in_thread(lambda: self._writer.take(changes, evictions, creators, now, seen=seen))
        except Exception:
            log.exception("a part of the history could not be recorded")

    async def repair(self) -> None:
        """Set aside a damaged file, and continue with its readable content."""
        if self._open:
            await self._in_thread(lambda: self._writer.replace(self._clock.now()))
            await self.flush(seen=True)

    async def _begin(self) -> None:
        """Open the file, with retries."""
        told = ""
        while True:
            try:
                await self._in_thread(lambda: self._writer.open(self._clock.now()))
                return
            except HistoryError as error:
                if str(error) != told:
                    log.warning("there is no history: %s", error)
                told = str(error)
            await self._clock.sleep(RETRY_SECONDS)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def is_damage(error: HistoryError) -> bool:
    """Return True if a file is damaged, not only inaccessible or out of space."""
    return isinstance(error.__cause__, apsw.CorruptError | apsw.NotADBError)


def _reducer(read: Callable[[bytes], object]) -> Callable[[bytes], bytes]:
    """Reduce a listed object to the parts that the history reads."""

    def reduce(text: bytes) -> bytes:
        try:
            return msgspec.json.encode(read(text))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return text

    return reduce
