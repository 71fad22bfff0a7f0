"""Logs of containers, on their way from the container runtime to the API server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

from kilauea.api.ports import ApiError, Obj
from kilauea.api.times import format_time

LogStream = Literal["stdout", "stderr"]


class LogEntry(NamedTuple):
    """Some output of a container.

    Attributes:
        time: the time of the write, in the format of `log_time`, whose lexical order is that of time.
        stream: the output stream.
        data: a line with its end, or a part of a line that continues in the next entry.
    """

    time: str
    stream: LogStream
    data: bytes


class LogReader(Protocol):
    """The log of one run of a container, read from its start or from one of its last lines."""

    @property
    def ended(self) -> bool:
        """True once everything was read and the container has ended."""
        ...

    def begin(self) -> Iterable[None]:
        """Seek to the first line to read, in steps between which other requests have their turn."""
        ...

    def read(self) -> Sequence[LogEntry]:
        """Return the next entries, about 64 KiB; none if no more are available now."""
        ...

    def close(self) -> None:
        """Stop reading."""
        ...


class LogSource(Protocol):
    """The source of container logs."""

    def open(self, pod: Obj, container: str, *, previous: bool, tail: int | None, now: Callable[[], int]) -> LogReader:
        """Open the log of a container.

        Args:
            pod: the pod.
            container: the name of one of its containers.
            previous: True for the run before the last one.
            tail: the number of lines at the end to read; None for all.
            now: returns the time, in microseconds since 1970.

        Raises:
            ApiError: the run does not exist; worded as by kubelets.
        """
        ...


def log_time(moment: int) -> str:
    """Format a time in microseconds since 1970 as kubelets do: in UTC, with nine fractional digits."""
    text, _, fraction = format_time(moment).removesuffix("Z").partition(".")
    return f"{text}.{fraction:0<9}Z"


def waits_to_start(container: str, pod: str, reason: str) -> ApiError:
    """Return the error for the log of a container that has not run yet."""
    return _refusal(f'container "{container}" in pod "{pod}" is waiting to start: {reason}')


def no_previous_run(container: str, pod: str) -> ApiError:
    """Return the error for the log of a previous run that does not exist."""
    return _refusal(f'previous terminated container "{container}" in pod "{pod}" not found')


def not_available(container: str, pod: str) -> ApiError:
    """Return the error for the log of a container that is not in the status of its pod."""
    return _refusal(f'container "{container}" in pod "{pod}" is not available')


def _refusal(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)
