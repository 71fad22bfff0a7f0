"""Logs of long-running commands: lines for people, or JSON with the fields of Kubernetes' components."""

from __future__ import annotations

import json
import logging
import os
import select
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import Any

from kilauea.api.printing import printable

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
LEVELS = ("debug", "info", "warning", "error")
LINE = "%(asctime)s %(levelname).1s %(name)s: %(message)s"
DEBUG_FROM = 4
"""Verbosity (`-v`) from which debug messages are logged."""
MOST_WAITING = 1 << 20
"""Maximum number of characters of waiting messages."""
FLUSH_SECONDS = 1.0
"""Seconds that an ending process waits for its messages to be read."""
DROPPED = "%d messages were dropped here, because standard error was not read"


class JsonFormatter(logging.Formatter):
    """One JSON object per message: `ts` (milliseconds since 1970), `level`, `logger`, `caller`, `msg`, maybe `err`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        entry = {
            "ts": round(record.created * 1000, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.exc_info:
            entry["err"] = self.formatException(record.exc_info)
        line = json.dumps(entry, ensure_ascii=False)
        return line if line.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


class TextFormatter(logging.Formatter):
    """Lines for people. Text from objects cannot contain control characters or look like another message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, the name is logging's
        """Return the line, with control characters spelled out and further lines indented."""
        record.message = "\n    ".join(map(printable, record.message.split("\n")))
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802, the name is logging's
        """Return a traceback in the same form, since the text of an error may come from an object, too."""
        return "\n".join(f"    {printable(line)}" for line in super().formatException(ei).split("\n"))


class StandardError(logging.Handler):
    """Writes to standard error in a separate thread, so that a reader that has stopped blocks only this thread.

    A pipe that is not read accepts 64 KiB, and then a write blocks. The number of waiting messages is limited; further
    ones are dropped, and a line reports their number once the reader continues.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[str] = deque()
        self._size = 0
        self._dropped = 0
        self._writing = False
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a message, or drop it if too many are waiting."""
        try:
            line = self.format(record) + "\n"
        except Exception:
            self.handleError(record)
            return
        with self._changed:
            if self._waiting and self._size + len(line) > MOST_WAITING:
                self._dropped += 1
                return
            self._tell_dropped()
            self._put(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until everything is written, but not for a reader that has stopped."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._writing, FLUSH_SECONDS)

    def _put(self, line: str) -> None:
        self._waiting.append(line)
        self._size += len(line)

    def _tell_dropped(self) -> None:
        if self._dropped:
            name = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING"}
            self._put(self.format(logging.makeLogRecord({**name, "msg": DROPPED, "args": (self._dropped,)})) + "\n")
            self._dropped = 0

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                line = self._waiting.popleft()
                self._writing = True
            with suppress(OSError, ValueError):  # closed: errors cannot be reported
                _write_all(line.encode(errors="backslashreplace"))
            with self._changed:
                self._writing = False
                self._size -= len(line)
                if not self._waiting:
                    self._tell_dropped()
                self._changed.notify_all()


def _write_all(data: bytes) -> None:
    """Write to the descriptor: a stream of Python has a lock, for which the end of the process would wait.

    Raises:
        OSError, ValueError: standard error is closed.
    """
    descriptor = sys.__stderr__.fileno() if sys.__stderr__ else 2
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


def start_log(form: str, level: str, verbosity: int) -> None:
    """Log to standard error.

    Args:
        form: one of `FORMATS`.
        level: lowest level to log, one of `LEVELS`; empty to use the verbosity.
        verbosity: as klog counts it: debug messages are logged from 4 up.
    """
    lowest = level.upper() or ("DEBUG" if verbosity >= DEBUG_FROM else "INFO")
    _log_with(JsonFormatter() if form == JSON else TextFormatter(LINE), lowest)


def log_warnings() -> None:
    """Log warnings and errors to standard error, as plain sentences."""
    _log_with(TextFormatter(), "WARNING")


def _log_with(formatter: logging.Formatter, lowest: str) -> None:
    handler = StandardError()
    handler.setFormatter(formatter)
    logging.basicConfig(level=lowest, handlers=[handler])
