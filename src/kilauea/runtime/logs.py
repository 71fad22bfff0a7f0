"""Logs of long-running commands: lines for people, or JSON with the fields of Kubernetes' components."""

from __future__ import annotations

import json
import logging

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
LEVELS = ("debug", "info", "warning", "error")
LINE = "%(asctime)s %(levelname).1s %(name)s: %(message)s"
DEBUG_FROM = 4
"""Verbosity (`-v`) from which debug messages are logged."""


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
        return json.dumps(entry, ensure_ascii=False)


def start_log(form: str, level: str, verbosity: int) -> None:
    """Log to standard error.

    Args:
        form: one of `FORMATS`.
        level: lowest level that is logged, one of `LEVELS`; empty to follow the verbosity.
        verbosity: as klog counts it: debug messages are logged from 4 up.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == JSON else logging.Formatter(LINE))
    lowest = level.upper() or ("DEBUG" if verbosity >= DEBUG_FROM else "INFO")
    logging.basicConfig(level=lowest, handlers=[handler])
