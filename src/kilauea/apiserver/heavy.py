"""Work on bytes that can take seconds: done elsewhere, so that no request blocks others.

Reading YAML, saying where JSON is broken, writing YAML or protobuf, and checking and evaluating expressions are
functions from bytes to bytes (`heavy_tasks`). What is small is done at once; what is not is given to `Backend.heavy`,
which has other processes for it (`kilauea.runtime.cluster.workers`).
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
    """Work that took longer than it may, or for which too much other work waits."""


class TooManyWaiting(TooHeavy):
    """Work that was not started, as too much other work waits; it may be done later."""


class Heavy(Protocol):
    """Does tasks that may take long."""

    async def run(self, task: Task, data: bytes) -> bytes:
        """Return the result of a task.

        Raises:
            TooHeavy: it took too long, or too many wait.
        """
        ...
