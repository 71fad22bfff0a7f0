"""Columns of `squeue` and `sacct`, by Slurm's letters and names for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kilauea.api.printing import printable
from kilauea.api.times import SECOND, format_time
from kilauea.cli.jobs.host_lists import host_list
from kilauea.cli.jobs.records import STATES, Record, cpu_count, elapsed
from kilauea.cli.slurm import DAY, HOUR, MINUTE
from kilauea.cli.vcctl.command import CommandError

_FIELD = re.compile(r"%(\.?)(\d*)([A-Za-z%])")
UNLIMITED = "UNLIMITED"


class Column(NamedTuple):
    """A column.

    Attributes:
        title: heading.
        cell: the text for a record at a time.
    """

    title: str
    cell: Callable[[Record, int], str]


def clock(seconds: int) -> str:
    """Format a time like Slurm: `1-02:03:04`, `2:03:04`, `3:04`."""
    days, rest = divmod(seconds, DAY)
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _long_clock(seconds: int) -> str:
    days, rest = divmod(seconds, DAY)
    text = f"{rest // HOUR:02}:{rest % HOUR // MINUTE:02}:{rest % MINUTE:02}"
    return f"{days}-{text}" if days else text


def _place(record: Record) -> str:
    if record.state in ("PENDING", "SUSPENDED", "REQUEUED"):
        return f"({record.reason}: {record.message})" if record.message else f"({record.reason})"
    return host_list(record.nodes)


def _moment(at: int | None) -> str:
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at // SECOND)) if at is not None else "Unknown"


def _exit(record: Record) -> str:
    """Exit code and signal in the format of `sacct`."""
    return f"0:{record.exit_code - 128}" if record.exit_code > 128 else f"{record.exit_code}:0"


SQUEUE: Mapping[str, Column] = {
    "i": Column("JOBID", lambda r, now: r.id),
    "A": Column("JOBID", lambda r, now: r.job),
    "F": Column("ARRAY_JOB_ID", lambda r, now: r.job),
    "P": Column("PARTITION", lambda r, now: r.queue),
    "j": Column("NAME", lambda r, now: r.name),
    "u": Column("USER", lambda r, now: r.user),
    "t": Column("ST", lambda r, now: STATES[r.state]),
    "T": Column("STATE", lambda r, now: r.state),
    "M": Column("TIME", lambda r, now: clock(elapsed(r, now))),
    "l": Column("TIME_LIMIT", lambda r, now: clock(r.limit) if r.limit else UNLIMITED),
    "L": Column("TIME_LEFT", lambda r, now: clock(max(0, r.limit - elapsed(r, now))) if r.limit else UNLIMITED),
    "D": Column("NODES", lambda r, now: str(len(r.nodes) or r.wanted_nodes)),
    "C": Column("CPUS", lambda r, now: cpu_count(r)),
    "N": Column("NODELIST", lambda r, now: host_list(r.nodes)),
    "R": Column("NODELIST(REASON)", lambda r, now: _place(r)),
    "r": Column("REASON", lambda r, now: r.reason or "None"),
    "V": Column("SUBMIT_TIME", lambda r, now: _moment(r.submitted)),
    "S": Column("START_TIME", lambda r, now: _moment(r.started).replace("Unknown", "N/A")),
}
SQUEUE_FORMAT = "%i %P %j %u %t %M %D %R"
SACCT: Mapping[str, Column] = {
    "JobID": Column("JobID", lambda r, now: r.id),
    "JobName": Column("JobName", lambda r, now: r.name),
    "Partition": Column("Partition", lambda r, now: r.queue),
    "User": Column("User", lambda r, now: r.user),
    "AllocCPUS": Column("AllocCPUS", lambda r, now: cpu_count(r)),
    "NNodes": Column("NNodes", lambda r, now: str(len(r.nodes))),
    "NodeList": Column("NodeList", lambda r, now: host_list(r.nodes) or "None assigned"),
    "State": Column("State", lambda r, now: r.state),
    "ExitCode": Column("ExitCode", lambda r, now: _exit(r)),
    "Elapsed": Column("Elapsed", lambda r, now: _long_clock(elapsed(r, now))),
    "Submit": Column("Submit", lambda r, now: _moment(r.submitted)),
    "Start": Column("Start", lambda r, now: _moment(r.started)),
    "End": Column("End", lambda r, now: _moment(r.ended)),
    "Timelimit": Column("Timelimit", lambda r, now: _long_clock(r.limit) if r.limit else UNLIMITED),
}
SACCT_FORMAT = "JobID,JobName,Partition,User,AllocCPUS,State,ExitCode,Elapsed"


def squeue_lines(form: str, records: Sequence[Record], now: int, *, heading: bool) -> list[str]:
    """Lines of a format such as `%.18i %t`; without widths, columns are as wide as their cells.

    Raises:
        CommandError: a letter is unknown.
    """
    fields = list(_FIELD.finditer(form))
    for field in fields:
        if field[3] != "%" and field[3] not in SQUEUE:
            raise CommandError(f'--format: "%{field[3]}" is not known: use {", ".join(f"%{each}" for each in SQUEUE)}')
    rows = [[_cell(field[3], record, now) for field in fields] for record in records]
    if heading:
        rows.insert(0, ["%" if field[3] == "%" else SQUEUE[field[3]].title for field in fields])
    widths = [int(field[2] or 0) or max((len(row[at]) for row in rows), default=0) for at, field in enumerate(fields)]
    lines = []
    for row in rows:
        parts, end = [], 0
        for field, cell, width in zip(fields, row, widths, strict=True):
            parts.append(form[end : field.start()])
            cut = cell[: int(field[2])] if field[2] else cell
            parts.append(cut.rjust(width) if field[1] else cut.ljust(width))
            end = field.end()
        lines.append("".join([*parts, form[end:]]).rstrip())
    return lines


def _cell(letter: str, record: Record, now: int) -> str:
    return "%" if letter == "%" else printable(SQUEUE[letter].cell(record, now))


def sacct_columns(text: str) -> list[Column]:
    """Columns by name, case-insensitively; a width such as `%20` after a name has no effect.

    Raises:
        CommandError: a name is unknown.
    """
    known = {name.lower(): column for name, column in SACCT.items()}
    found = []
    for name in filter(None, text.split(",")):
        column = known.get(name.partition("%")[0].strip().lower())
        if column is None:
            raise CommandError(f'--format: "{name}" is not known: use {", ".join(SACCT)}')
        found.append(column)
    return found


def record_data(record: Record, now: int) -> dict[str, object]:
    """A record as plain data, with stable names."""
    times = {"submit": record.submitted, "start": record.started, "end": record.ended}
    return {
        "id": record.id,
        "job": record.job,
        "namespace": record.namespace,
        "name": record.name,
        "partition": record.queue,
        "user": record.user,
        "state": record.state,
        **{name: format_time(at) if at is not None else None for name, at in times.items()},
        "elapsedSeconds": elapsed(record, now),
        "timeLimitSeconds": record.limit or None,
        "nodes": list(record.nodes),
        "cpus": record.cpus / 1000,
        "exitCode": record.exit_code,
        "reason": record.reason or None,
        "message": record.message or None,
    }
