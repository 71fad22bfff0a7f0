"""The tracer that records with OpenTelemetry; `pip install "kilauea[tracing]"` installs its dependencies.

    tracer = OpenTelemetryTracer("vc-scheduler")

Spans go to a collector by OTLP over HTTP. Its address, the sampling and all else are set by the environment variables
that OpenTelemetry defines, such as `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_TRACES_SAMPLER`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import context, propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode

from kilauea.telemetry.tracing import Attributes, Span, Tracer


class _Recorded(Span):
    """A span that is recorded."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def note(self, attributes: Attributes) -> None:
        """Add attributes."""
        self._span.set_attributes(attributes)

    def fail(self, message: str) -> None:
        """Mark the span as failed."""
        self._span.set_status(Status(StatusCode.ERROR, message))


class OpenTelemetryTracer(Tracer):
    """Records spans, and sends them in the background.

    Args:
        service: the name of this process, unless `OTEL_SERVICE_NAME` gives another.
    """

    on = True

    def __init__(self, service: str) -> None:
        named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": service}
        self._provider = TracerProvider(resource=Resource.create(named))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("kilauea")

    @contextmanager
    def _span(self, name: str, attributes: Attributes) -> Iterator[Span]:
        kind = trace.SpanKind.CLIENT if "http.request.method" in attributes else trace.SpanKind.INTERNAL
        with self._tracer.start_as_current_span(name, kind=kind, attributes=dict(attributes)) as span:
            yield _Recorded(span)

    def span(self, name: str, attributes: Attributes | None = None) -> Any:
        """A span for the length of a block; an exception that leaves the block marks it as failed."""
        return self._span(name, attributes or {})

    def took(self, name: str, microseconds: int, attributes: Attributes | None = None) -> None:
        """Record a span that has just ended."""
        end = time.time_ns()
        span = self._tracer.start_span(name, attributes=dict(attributes or {}), start_time=end - microseconds * 1000)
        span.end(end_time=end)

    def current(self) -> object | None:
        """The span around this code; None if there is none that is recorded."""
        return context.get_current() if trace.get_current_span().get_span_context().is_valid else None

    @contextmanager
    def _within(self, span: object | None) -> Iterator[None]:
        token = context.attach(span or context.Context())
        try:
            yield
        finally:
            context.detach(token)

    def within(self, span: object | None) -> Any:
        """Continue within a span, for the length of a block; with None outside of all spans."""
        return self._within(span)

    def headers(self) -> Mapping[str, str]:
        """The headers `traceparent` and `tracestate` of this code."""
        found: dict[str, str] = {}
        propagate.inject(found)
        return found

    def close(self) -> None:
        """Send what is recorded; what no collector takes within a few seconds is lost."""
        self._provider.shutdown()
