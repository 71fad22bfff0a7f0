"""Lines of a trace, and their errors: each names file, line, column, value and fix.

Invalid lines are left out, and the first errors of each kind are reported with their line numbers; a trace without a
valid line is rejected.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from kilauea.api.numbers import plural
from kilauea.api.times import SECOND, parse_duration, parse_time
from kilauea.runtime.inputs.files import SourceError

MOST_LINES = 2_000_000
"""Maximum number of lines of a file."""
TOLD = 5
"""Number of errors of one kind to report individually."""
LONGEST_NAME = 50
LONGEST_VALUE = 40
"""Maximum number of characters of a value in messages."""
MOST_SECONDS = 100 * 366 * 86_400
"""Longer times are considered errors."""
T = TypeVar("T")


class TraceError(SourceError):
    """A trace is entirely unusable."""


class BadValue(ValueError):
    """An invalid value: the column, the value and the fix."""


class Findings:
    """Errors in the lines of a file.

    Attributes:
        left_out: number of lines that are left out.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.left_out = 0
        self._told: list[str] = []
        self._counts: Counter[str] = Counter()

    def leave_out(self, line: int, kind: str, message: str) -> None:
        """Record a line that is left out."""
        self.left_out += 1
        self.note(line, kind, f"{message}; the line is left out")

    def note(self, line: int, kind: str, message: str) -> None:
        """Record a remark about a line."""
        self._counts[kind] += 1
        if self._counts[kind] <= TOLD:
            self._told.append(f"{self.source}:{line}: {message}")

    def tell(self, message: str) -> None:
        """Record a remark about the file."""
        self._told.append(f"{self.source}: {message}")

    def all(self) -> tuple[str, ...]:
        """All reports, with the number of suppressed ones."""
        more = [
            f"{self.source}: {plural(count - TOLD, 'more line')}: {kind}"
            for kind, count in self._counts.items()
            if count > TOLD
        ]
        return (*self._told, *more)


class Row:
    """A line of a table.

    Attributes:
        line: its number in the file, from 1.
    """

    def __init__(self, line: int, cells: Mapping[str, str]) -> None:
        self.line = line
        self._cells = cells

    @property
    def columns(self) -> Iterable[str]:
        """The names of all columns."""
        return self._cells

    def signed(self, column: str) -> int:
        """A whole number, truncated; -1 means unknown."""
        return int(self._number(column, self.text(column)))

    def text(self, column: str, default: str = "") -> str:
        """A cell."""
        return self._cells.get(column, "").strip() or default

    def count(self, column: str, default: int | None = None, *, least: int = 0) -> int:
        """A whole number; a float such as `3.0` is one.

        Raises:
            BadValue: it is not, or is too small.
        """
        text = self.text(column)
        if not text and default is not None:
            return default
        value = self._number(column, text)
        if value != int(value) or value < least:
            raise BadValue(f"{column}: {shown(text)} is not a whole number of {least} or more")
        return int(value)

    def amount(self, column: str, default: float | None = None) -> float:
        """A number of 0 or more.

        Raises:
            BadValue: it is not such a number.
        """
        text = self.text(column)
        if not text and default is not None:
            return default
        value = self._number(column, text)
        if value < 0:
            raise BadValue(f"{column}: {shown(text)} is negative: use 0 or more")
        return value

    def time(self, column: str, unit: int = SECOND) -> int:
        """Microseconds of a time: a number of units, or RFC 3339.

        Raises:
            BadValue: it is neither.
        """
        text = self.text(column)
        if "T" in text.upper() and "-" in text:
            try:
                return parse_time(text)
            except ValueError as error:
                raise BadValue(f"{column}: {error}") from error
        return self._span(column, text, unit, "a time: use seconds, or RFC 3339 such as 2025-01-31T12:00:00Z")

    def duration(self, column: str, unit: int = SECOND) -> int:
        """Microseconds of a duration: a number of units, or text such as `1h30m`.

        Raises:
            BadValue: it is neither, or negative.
        """
        text = self.text(column)
        if text and text[-1].isalpha():
            try:
                value = parse_duration(text)
            except ValueError as error:
                raise BadValue(f"{column}: {error}") from error
        else:
            value = self._span(column, text, unit, "a duration: use seconds, or a value such as 1h30m")
        if value < 0:
            raise BadValue(f"{column}: {shown(text)} is negative: a job runs for 0 or more seconds")
        return value

    def _span(self, column: str, text: str, unit: int, form: str) -> int:
        if not text:
            raise BadValue(f"{column}: the cell is empty, not {form}")
        try:
            value = float(text)
        except ValueError:
            raise BadValue(f"{column}: {shown(text)} is not {form}") from None
        if not abs(value) * unit <= MOST_SECONDS * SECOND:
            raise BadValue(f"{column}: {shown(text)} is out of bounds: use at most {MOST_SECONDS} seconds")
        return round(value * unit)

    def _number(self, column: str, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise BadValue(f"{column}: {shown(text)} is not a number") from None
        if not abs(value) < 1e15:
            raise BadValue(f"{column}: {shown(text)} is out of bounds")
        return value


def shown(text: str) -> str:
    """A value for messages."""
    return f'"{text}"' if len(text) <= LONGEST_VALUE else f'"{text[:LONGEST_VALUE]}..."'


def text_of(source: str, data: bytes) -> str:
    """The text of a file.

    Raises:
        TraceError: it is empty, or no text.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TraceError(f"{source}: not UTF-8 text (byte {error.start}): give a CSV or SWF file") from error
    if not text.strip():
        raise TraceError(f"{source}: the file is empty: it needs a header line and a line for each job")
    if "\0" in text:
        raise TraceError(f"{source}: contains NUL characters: give a CSV or SWF file")
    return text


def columns_of(text: str) -> list[str]:
    """The names in the header line of a table."""
    return [name.strip() for name in next(csv.reader(io.StringIO(text[: 1 << 16])), [])]


def rows_of(text: str, findings: Findings) -> Iterator[Row]:
    """Yield the lines of a table after its header.

    Raises:
        TraceError: too many lines.
    """
    reader = csv.reader(io.StringIO(text))
    header = [name.strip() for name in next(reader)]
    repeated = sorted(name for name, count in Counter(header).items() if count > 1)
    if repeated:
        raise TraceError(f"{findings.source}:1: column {shown(repeated[0])} appears twice: name each column once")
    try:
        for number, cells in enumerate(reader):
            if number >= MOST_LINES:
                raise TraceError(f"{findings.source}: more than {MOST_LINES} lines: split the file")
            if not cells:
                continue
            if len(cells) != len(header):
                message = f"{len(cells)} cells, but the header has {len(header)} columns"
                findings.leave_out(reader.line_num, "with a different number of cells than the header", message)
                continue
            yield Row(reader.line_num, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise TraceError(f"{findings.source}:{reader.line_num}: {error}") from error


def converted(rows: Iterable[Row], convert: Callable[[Row], T | None], findings: Findings) -> Iterator[tuple[int, T]]:
    """Convert lines, with their numbers; lines that cannot be converted are left out and reported."""
    for row in rows:
        try:
            found = convert(row)
        except BadValue as error:
            findings.leave_out(row.line, f"{str(error).partition(':')[0]} cannot be used", str(error))
            continue
        if found is not None:
            yield row.line, found


def kubernetes_name(text: str) -> str:
    """Convert a text into a valid Kubernetes name; empty if no valid characters are left."""
    name = re.sub(r"[^a-z0-9-]+", "-", text.lower())[:LONGEST_NAME].strip("-")
    return name
