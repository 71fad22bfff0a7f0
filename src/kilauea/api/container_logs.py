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
        time: when it was written, in the form of `log_time`, so that times compare as texts do.
        stream: to which it was written.
        data: a line with its end, or a part of a line, which goes on in the next entry.
    """

    time: str
    stream: LogStream
    data: bytes


class LogReader(Protocol):
    """The log of one run of a container, read from its start or from one of its last lines."""

    @property
    def ended(self) -> bool:
        """True once all was read and the container writes no more."""
        ...

    def begin(self) -> Iterable[None]:
        """Go to the first line to read, in steps between which others have their turn."""
        ...

    def read(self) -> Sequence[LogEntry]:
        """Return what comes next, about 64 KiB; nothing if there is no more at the moment."""
        ...

    def close(self) -> None:
        """Stop reading."""
        ...


class LogSource(Protocol):
    """The logs of what runs pods."""

    def open(self, pod: Obj, container: str, *, previous: bool, tail: int | None, now: Callable[[], int]) -> LogReader:
        """Open the log of a container.

        Args:
            pod: the pod.
            container: name of one of its containers.
            previous: True for the run before the last one.
            tail: the number of lines at the end to read; None for all.
            now: returns the time, in microseconds since 1970.

        Raises:
            ApiError: there is no such run, as kubelets word it.
        """
        ...


def log_time(moment: int) -> str:
    """Return a moment in microseconds since 1970 as kubelets write it: in UTC, with nine digits of a second."""
    text, _, fraction = format_time(moment).removesuffix("Z").partition(".")
    return f"{text}.{fraction:0<9}Z"


def waits_to_start(container: str, pod: str, reason: str) -> ApiError:
    """Return the refusal to show the log of a container that has not run yet."""
    return _refusal(f'container "{container}" in pod "{pod}" is waiting to start: {reason}')


def no_previous_run(container: str, pod: str) -> ApiError:
    """Return the refusal to show the log of a run before the first."""
    return _refusal(f'previous terminated container "{container}" in pod "{pod}" not found')


def not_available(container: str, pod: str) -> ApiError:
    """Return the refusal to show the log of a container that the status of its pod does not have."""
    return _refusal(f'container "{container}" in pod "{pod}" is not available')


def _refusal(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)
