"""The store of a history: records on disk, bounded by age and size.

    store = History.open(folder)      # one process writes
    store.put(records)
    store.jobs("default", since=...)

Jobs and pods are stored by uid, the newest record of each; events are added, equal ones once. Beyond `Bounds.detail`,
events that only explain waiting are removed, beyond `Bounds.age` or `Bounds.size` the oldest of everything that has
ended. `since` is the time from which on the history is complete.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import msgspec

from kilauea.api.times import SECOND
from kilauea.history import datafile
from kilauea.history.errors import HistoryError
from kilauea.history.records import VOLCANO_JOB, Event, Header, JobRecord, Line, PodRecord, Record

DAY = 24 * 3600 * SECOND
DETAIL = ("Waiting", "Nominated", "Admitted")
"""Events that are removed first: nothing else depends on them."""
STEP = 2000
"""Maximum number of rows that one step of thinning removes, so that it never blocks writes for long."""
FOREVER = 1 << 62


@dataclass(frozen=True)
class Bounds:
    """The limits of a history.

    Attributes:
        age: microseconds after which ended jobs and pods are removed.
        detail: microseconds after which events that explain waiting are removed.
        size: maximum bytes of the file; beyond it, the oldest content is removed.
    """

    age: int = 400 * DAY
    detail: int = 60 * DAY
    size: int = 1 << 30


_encode = msgspec.json.Encoder().encode
_job = msgspec.json.Decoder(JobRecord).decode
_pod = msgspec.json.Decoder(PodRecord).decode
_event = msgspec.json.Decoder(Event).decode
_line = msgspec.json.Decoder(Line).decode

_PUT: dict[object, str] = {
    JobRecord: "INSERT OR REPLACE INTO jobs VALUES (?,?,?,?,?,?,?,?,?)",
    PodRecord: "INSERT OR REPLACE INTO pods VALUES (?,?,?,?,?,?,?,?,?)",
    Event: "INSERT OR IGNORE INTO events VALUES (?,?,?,?,?,?)",
}


def resources_text(resources: dict[str, int]) -> str:
    """Format amounts as text, equal for equal amounts."""
    return ",".join([f"{name}={resources[name]}" for name in sorted(resources)])


def resources_of(text: str) -> dict[str, int]:
    """Parse amounts from their text."""
    pairs = (part.rpartition("=") for part in text.split(",") if part)
    return {name: int(amount) for name, _, amount in pairs}


def _row(record: Record) -> tuple[Any, ...]:
    data = _encode(record)
    if isinstance(record, PodRecord):
        resources = resources_text(record.resources)
        times = (record.submitted, record.bound, record.ended)
        return (record.uid, record.namespace, record.job, record.queue, *times, resources, data)
    if isinstance(record, JobRecord):
        head = (record.uid, record.namespace, record.name, record.queue, record.user)
        ended = record.ended if record.deleted is None else record.ended or record.deleted
        followed = record.deleted is None and record.kind == VOLCANO_JOB
        return (*head, record.submitted, ended, followed, data)
    return record.time, record.job, record.what, record.pod_uid or record.pod, record.namespace, data


class History:
    """An open history; used by one thread at a time."""

    def __init__(
        self, folder: Path, connection: apsw.Connection, lock: datafile.FolderLock | None, damage: str = ""
    ) -> None:
        self.path = folder / datafile.NAME
        self.damage = damage
        """The damage of the file found when it was opened; empty for none."""
        self._connection = connection
        self._lock = lock

    @classmethod
    def open(cls, folder: Path) -> History:
        """Open or create the history of a folder for writing.

        Raises:
            HistoryError: the folder is unusable, or another process writes to it.
        """
        try:
            return cls(folder, *datafile.open_to_write(folder))
        except (apsw.Error, OSError) as error:
            raise HistoryError(f"{folder / datafile.NAME}: {error}; the folder must be writable") from error

    @classmethod
    def read(cls, folder: Path) -> History:
        """Open the history of a folder for reading, even while another process writes it.

        Raises:
            HistoryError: it does not exist, or cannot be read.
        """
        return cls(folder, datafile.open_to_read(folder), None)

    def close(self) -> None:
        """Close the file, and release its lock."""
        self._connection.close()
        if self._lock is not None:
            self._lock.close()

    # --- writing

    def put(self, records: Iterable[Record], seen: int = 0) -> None:
        """Commit records, all or none.

        Args:
            records: jobs and pods replace those with the same uid; an existing event is not duplicated.
            seen: the time up to which the history is now complete; 0 to keep it unchanged.

        Raises:
            HistoryError: nothing was written, for example because the disk is full.
        """
        rows: dict[object, list[tuple[Any, ...]]] = {}
        for record in records:
            rows.setdefault(type(record), []).append(_row(record))
        try:
            with self._connection as connection:
                for kind, values in rows.items():
                    connection.executemany(_PUT[kind], values)
                if seen:
                    connection.execute("INSERT OR REPLACE INTO facts VALUES ('seen', ?)", (seen,))
                    connection.execute("INSERT OR IGNORE INTO facts VALUES ('since', ?)", (seen,))
        except apsw.Error as error:
            raise HistoryError(f"{self.path}: not written: {error}") from error

    def extend(self, header: Header) -> None:
        """Add the completeness and gaps of an imported history.

        Raises:
            HistoryError: it could not be written.
        """
        since, seen = min(header.since, self.since or header.since), max(header.until, self.seen)
        known = set(self.gaps)
        try:
            with self._connection as connection:
                connection.execute("INSERT OR REPLACE INTO facts VALUES ('since', ?), ('seen', ?)", (since, seen))
                connection.executemany("INSERT INTO gaps VALUES (?,?,?)", set(header.gaps) - known)
        except apsw.Error as error:
            raise HistoryError(f"{self.path}: not written: {error}") from error

    def add_gap(self, start: int, end: int, reason: str) -> None:
        """Record a time span without records.

        Raises:
            HistoryError: it could not be written.
        """
        try:
            self._connection.execute("INSERT INTO gaps VALUES (?,?,?)", (start, end, reason))
        except apsw.Error as error:
            raise HistoryError(f"{self.path}: not written: {error}") from error

    def thin(self, now: int, bounds: Bounds) -> bool:
        """Remove some content beyond the bounds; returns True if there is more to remove.

        Raises:
            HistoryError: it could not be written.
        """
        try:
            with self._connection as connection:
                before = connection.total_changes()
                connection.execute(
                    "DELETE FROM events WHERE (time, job, what, pod) IN (SELECT time, job, what, pod FROM events "
                    f"WHERE time < ? AND what IN {DETAIL} ORDER BY time LIMIT ?)",
                    (now - bounds.detail, STEP),
                )
                cutoff = now - bounds.age
                if self._bytes() > bounds.size:
                    oldest = connection.execute(
                        "SELECT MAX(ended) FROM (SELECT ended FROM pods WHERE ended >= 0 ORDER BY ended LIMIT ?)",
                        (STEP,),
                    ).get
                    if isinstance(oldest, int):
                        cutoff = max(cutoff, oldest + 1)
                    else:  # nothing has ended: only events can be removed
                        self._cut_events(now, STEP)
                self._cut(cutoff)
                removed = connection.total_changes() - before
            self._connection.execute("PRAGMA incremental_vacuum(500)").fetchall()
        except apsw.Error as error:
            raise HistoryError(f"{self.path}: not written: {error}") from error
        return removed >= STEP or (removed > 0 and self._bytes() > bounds.size)

    def _cut(self, cutoff: int) -> None:
        """Remove a step of content that ended before a time, and move the beginning of the history."""
        execute, before = self._connection.execute, self._connection.total_changes()
        execute(
            "DELETE FROM pods WHERE uid IN (SELECT uid FROM pods WHERE ended < ? ORDER BY ended LIMIT ?)",
            (cutoff, STEP),
        )
        execute(
            "DELETE FROM jobs WHERE uid IN (SELECT uid FROM jobs WHERE ended < ? AND NOT EXISTS "
            "(SELECT 1 FROM pods WHERE pods.job = jobs.uid) LIMIT ?)",
            (cutoff, STEP),
        )
        self._cut_events(cutoff, STEP)
        if self._connection.total_changes() > before:
            execute(
                "INSERT INTO facts VALUES ('since', ?) "
                "ON CONFLICT (name) DO UPDATE SET value = MAX(value, excluded.value)",
                (cutoff,),
            )

    def _cut_events(self, before: int, count: int) -> None:
        """Remove the oldest events before a time."""
        self._connection.execute(
            "DELETE FROM events WHERE (time, job, what, pod) IN "
            "(SELECT time, job, what, pod FROM events WHERE time < ? ORDER BY time LIMIT ?)",
            (before, count),
        )

    def _bytes(self) -> int:
        """Used bytes of the file."""
        pages, free = self._connection.pragma("page_count"), self._connection.pragma("freelist_count")
        size = self._connection.pragma("page_size")
        return (int(pages or 0) - int(free or 0)) * int(size or 0)

    # --- reading

    @property
    def since(self) -> int:
        """Time from which on the history is complete; 0 if nothing was recorded yet."""
        return self._fact("since")

    @property
    def seen(self) -> int:
        """Time up to which the history is complete; 0 if nothing was recorded yet."""
        return self._fact("seen")

    @property
    def gaps(self) -> list[tuple[int, int, str]]:
        """Time spans without records, with the reasons."""
        return [(row[0], row[1], row[2]) for row in self._rows("SELECT * FROM gaps ORDER BY start", ())]

    def job(self, uid: str) -> JobRecord | None:
        """The job with a uid."""
        found = self._rows("SELECT data FROM jobs WHERE uid = ?", (uid,))
        return next((_job(row[0]) for row in found), None)

    def pod(self, uid: str) -> PodRecord | None:
        """The pod with a uid."""
        found = self._rows("SELECT data FROM pods WHERE uid = ?", (uid,))
        return next((_pod(row[0]) for row in found), None)

    def jobs(
        self,
        namespace: str = "",
        name: str = "",
        queue: str = "",
        user: str = "",
        since: int | None = None,
        until: int | None = None,
        limit: int | None = None,
    ) -> list[JobRecord]:
        """Jobs in the order of their submission; the newest ones if there are more than the limit.

        Args:
            namespace: only in this one; empty for all.
            name: only of this name.
            queue: only of this queue.
            user: only of this user.
            since: only jobs that had not ended by then.
            until: only jobs that were submitted before.
            limit: maximum number of jobs; None for all.
        """
        where, values = _where({"namespace": namespace, "name": name, "queue": queue, "user": user})
        where += " AND (ended IS NULL OR ended >= ?) AND submitted < ?"
        values += [-FOREVER if since is None else since, FOREVER if until is None else until]
        text = f"SELECT data FROM jobs WHERE {where} ORDER BY submitted DESC, uid LIMIT ?"
        found = [_job(row[0]) for row in self._rows(text, (*values, -1 if limit is None else limit))]
        return found[::-1]

    def pods(
        self, namespace: str = "", job: str = "", since: int | None = None, until: int | None = None
    ) -> list[PodRecord]:
        """Pods in the order of their creation.

        Args:
            namespace: only in this one; empty for all.
            job: only of the job with this uid.
            since: only pods that had not ended by then.
            until: only pods that were created before.
        """
        where, values = _where({"namespace": namespace, "job": job})
        where += " AND (ended IS NULL OR ended >= ?) AND submitted < ?"
        values += [-FOREVER if since is None else since, FOREVER if until is None else until]
        text = f"SELECT data FROM pods WHERE {where} ORDER BY submitted, uid"
        return [_pod(row[0]) for row in self._rows(text, values)]

    def open_pods(self) -> Iterator[PodRecord]:
        """Pods that have not ended."""
        return (_pod(row[0]) for row in self._rows("SELECT data FROM pods WHERE ended IS NULL ORDER BY uid", ()))

    def open_jobs(self) -> Iterator[JobRecord]:
        """Volcano jobs that are not deleted, and other unfinished jobs."""
        text = (
            "SELECT data FROM jobs WHERE followed OR ended IS NULL "
            "OR uid IN (SELECT job FROM pods WHERE pods.ended IS NULL) ORDER BY uid"
        )
        return (_job(row[0]) for row in self._rows(text, ()))

    def events(
        self,
        namespace: str = "",
        job: str = "",
        what: Collection[str] = (),
        since: int | None = None,
        until: int | None = None,
        limit: int | None = None,
    ) -> list[Event]:
        """Events in the order of their times; the newest ones if there are more than the limit.

        Args:
            namespace: only in this one; empty for all.
            job: only of the job with this uid.
            what: only these; empty for all.
            since: only from then on.
            until: only before.
            limit: maximum number of events; None for all.
        """
        where, values = _where({"namespace": namespace, "job": job})
        where += " AND time >= ? AND time < ?"
        values += [-FOREVER if since is None else since, FOREVER if until is None else until]
        if what:
            where += f" AND what IN ({','.join('?' * len(what))})"
            values += sorted(what)
        text = f"SELECT data FROM events WHERE {where} ORDER BY time DESC, job DESC, what DESC, pod DESC LIMIT ?"
        found = [_event(row[0]) for row in self._rows(text, (*values, -1 if limit is None else limit))]
        return found[::-1]

    def held(self, by: str, since: int, until: int, namespace: str = "") -> Iterator[tuple[str, str, int, int, int]]:
        """Usage sums: the key, the resources as text, whole seconds, remaining microseconds, and pods.

        Args:
            by: `queue`, `namespace` or `user`.
            since: start of the time that counts.
            until: end of the time that counts.
            namespace: only in this one; empty for all.
        """
        key = {"queue": "p.queue", "namespace": "p.namespace", "user": "COALESCE(j.user, '')"}[by]
        join = "LEFT JOIN jobs j ON j.uid = p.job" if by == "user" else ""
        span = "(MIN(COALESCE(p.ended, ?1), ?1) - MAX(p.bound, ?2))"
        text = (
            f"SELECT {key}, p.resources, SUM({span} / 1000000), SUM({span} % 1000000), COUNT(*) FROM pods p {join} "
            "WHERE p.bound < ?1 AND (p.ended IS NULL OR p.ended > ?2) AND MIN(COALESCE(p.ended, ?1), ?1) >= p.bound "
            "AND (?3 = '' OR p.namespace = ?3) GROUP BY 1, 2 ORDER BY 1, 2"
        )
        for row in self._rows(text, (until, since, namespace)):
            yield row[0], row[1], row[2], row[3], row[4]

    # --- export and import

    def export(self, until: int, namespace: str = "") -> Iterator[bytes]:
        """The history as lines of JSON, each with its end: a header, jobs, pods, events.

        Args:
            until: the time of the export.
            namespace: only in this one; empty for all.
        """
        yield _encode(Header(since=self.since, until=until, gaps=self.gaps)) + b"\n"
        for table, order in (
            ("jobs", "submitted, uid"),
            ("pods", "submitted, uid"),
            ("events", "time, job, what, pod"),
        ):
            text = f"SELECT data FROM {table} WHERE (?1 = '' OR namespace = ?1) ORDER BY {order}"
            for row in self._rows(text, (namespace,)):
                yield row[0] + b"\n"

    def _fact(self, name: str) -> int:
        return next((row[0] for row in self._rows("SELECT value FROM facts WHERE name = ?", (name,))), 0)

    def _rows(self, text: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """The rows of a query.

        Raises:
            HistoryError: the file cannot be read any further.
        """
        try:
            yield from self._connection.execute(text, values)
        except apsw.Error as error:
            raise HistoryError(f"{self.path}: the history cannot be read any further: {error}") from error


def _where(wanted: dict[str, str]) -> tuple[str, list[Any]]:
    given = {column: value for column, value in wanted.items() if value}
    return " AND ".join(["1", *(f"{column} = ?" for column in given)]), list(given.values())


@dataclass(frozen=True)
class Imported:
    """The records in exported lines.

    Attributes:
        header: the first line; None if it is missing.
        records: all valid records.
        problems: the first hundred invalid lines, each with its number and the reason.
        bad: number of invalid lines.
    """

    header: Header | None
    records: list[Record]
    problems: list[str]
    bad: int


def read_lines(lines: Iterable[bytes], source: str) -> Imported:
    """Parse exported lines. Invalid lines are skipped and reported.

    Raises:
        HistoryError: they were written by a newer version.
    """
    header: Header | None = None
    records: list[Record] = []
    problems: list[str] = []
    bad = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = _line(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            bad += 1
            if len(problems) < 100:
                shown = json.dumps(line[:40].decode(errors="replace"))
                problems.append(f"{source}:{number}: not a line of a history ({error}): {shown}; left out")
            continue
        if not isinstance(found, Header):
            records.append(found)
            continue
        if found.version > Header(since=0, until=0).version:
            raise HistoryError(
                f"{source}: written by a newer Kilauea (version {found.version}); use that one to read it"
            )
        header = found
    return Imported(header, records, problems, bad)
