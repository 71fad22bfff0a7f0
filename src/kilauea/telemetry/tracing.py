"""Spans of a process's work, for a tracing system.

`Tracer` records nothing and costs next to nothing; it is what a process has unless it was started with `--tracing`.
`kilauea.telemetry.opentelemetry` has the one that records.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

Attributes = Mapping[str, str | int | bool]


class Span:
    """A span that is not recorded."""

    def note(self, attributes: Attributes) -> None:
        """Add attributes."""

    def fail(self, message: str) -> None:
        """Mark the span as failed."""


_NO_SPAN: AbstractContextManager[Span] = nullcontext(Span())
_NOTHING: AbstractContextManager[object] = nullcontext()


class Tracer:
    """Records nothing.

    Attributes:
        on: True for a tracer that records.
    """

    on = False

    def span(self, name: str, attributes: Attributes | None = None) -> AbstractContextManager[Span]:
        """A span for the length of a block, within the span around it."""
        return _NO_SPAN

    def took(self, name: str, microseconds: int, attributes: Attributes | None = None) -> None:
        """Record a span that has just ended."""

    def current(self) -> object | None:
        """The span around this code, to continue within it later; None if there is none."""
        return None

    def within(self, span: object | None) -> AbstractContextManager[object]:
        """Continue within a span, for the length of a block."""
        return _NOTHING

    def headers(self) -> Mapping[str, str]:
        """Headers by which a server continues the trace of this code."""
        return {}

    def close(self) -> None:
        """Send what is recorded."""


UNTRACED = Tracer()
