"""Work on bytes that can take seconds, which runs in other processes so that no request blocks others.

Parsing YAML, locating errors in JSON, writing YAML or protobuf, and checking and evaluating expressions are functions
from bytes to bytes (`heavy_tasks`). Small tasks are done at once; others are passed to `Backend.heavy`, which runs them
in other processes (`kilauea.runtime.cluster.workers`).
"""

from __future__ import annotations

from typing import Literal, Protocol

Task = Literal[
    "apply rules",
    "check",
    "check types",
    "compare rights",
    "evaluate",
    "parse json",
    "parse protobuf",
    "parse yaml",
    "write protobuf",
    "write yaml",
]


class TooHeavy(Exception):
    """Work took too long, or too much other work is waiting."""


class TooManyWaiting(TooHeavy):
    """Work was not started, as too much other work is waiting; it may be retried."""


class Heavy(Protocol):
    """Runs tasks that may take long."""

    async def run(self, task: Task, data: bytes) -> bytes:
        """Return the result of a task.

        Raises:
            TooHeavy: it took too long, or too many are waiting.
        """
        ...
