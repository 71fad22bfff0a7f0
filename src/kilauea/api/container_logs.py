"""Logs of containers, on their way from the process that runs them to the API server."""

from __future__ import annotations

from typing import NamedTuple


class LogLine(NamedTuple):
    """A line of output and its moment, in microseconds since 1970."""

    moment: int
    text: str


class ContainerLog(NamedTuple):
    """The log of one run of a container.

    Attributes:
        lines: what it has written so far.
        started: when the run started, by its status; empty if there was none.
        running: whether it may write more.
        waits: why the container has not run yet; empty if it has, or does not exist.
    """

    lines: tuple[LogLine, ...] = ()
    started: str = ""
    running: bool = False
    waits: str = ""
