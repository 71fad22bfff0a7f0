"""Spans of the scheduler: a bind is within its cycle, and the server continues the trace of its request."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from kilauea.client.traced import Traced
from kilauea.client.transport import Answer
from kilauea.runtime.daemon import Daemon, DaemonOptions, StartError
from kilauea.telemetry.tracing import UNTRACED, Attributes, Span, Tracer
from support.live_world import live_world


class Noted(Span):
    """A span with its name, attributes and the span around it."""

    def __init__(self, name: str, attributes: Attributes, around: Noted | None) -> None:
        self.name = name
        self.attributes: dict[str, Any] = dict(attributes)
        self.around = around
        self.failure = ""

    def note(self, attributes: Attributes) -> None:
        self.attributes |= attributes

    def fail(self, message: str) -> None:
        self.failure = message

    @property
    def path(self) -> str:
        """Names from the outermost span down to this one."""
        return f"{self.around.path} > {self.name}" if self.around else self.name


class Notes(Tracer):
    """Keeps all spans."""

    on = True

    def __init__(self) -> None:
        self.spans: list[Noted] = []
        self._current: ContextVar[Noted | None] = ContextVar("span", default=None)

    @contextmanager
    def span(self, name: str, attributes: Attributes | None = None) -> Iterator[Span]:
        self.took(name, 0, attributes)
        token = self._current.set(self.spans[-1])
        try:
            yield self.spans[-1]
        finally:
            self._current.reset(token)

    def took(self, name: str, microseconds: int, attributes: Attributes | None = None) -> None:
        self.spans.append(Noted(name, attributes or {}, self._current.get()))

    def current(self) -> Noted | None:
        return self._current.get()

    @contextmanager
    def within(self, span: object | None) -> Iterator[None]:
        assert span is None or isinstance(span, Noted)
        token = self._current.set(span)
        try:
            yield
        finally:
            self._current.reset(token)

    def headers(self) -> Mapping[str, str]:
        found = self._current.get()
        return {"traceparent": found.path} if found else {}


def test_a_bind_is_within_the_cycle_that_decided_it() -> None:
    with live_world() as live:
        tracer = live.tracer = Notes()
        live.restart()
        live.node("n1")
        live.group("gang", 2)
        live.start()
        live.wait(3)
        assert live.node_of("gang-0") == live.node_of("gang-1") == "n1"
    paths = [span.path for span in tracer.spans]
    assert paths.count("cycle > bind > POST") == 2
    assert "cycle > open session" in paths
    assert "cycle > action allocate" in paths
    binds = [span for span in tracer.spans if span.name == "bind"]
    assert {span.attributes["k8s.pod.name"] for span in binds} == {"default/gang-0", "default/gang-1"}
    assert {span.attributes["k8s.node.name"] for span in binds} == {"n1"}
    cycle = binds[0].around
    assert cycle is not None
    assert cycle.attributes == {"kilauea.binds": 2, "kilauea.evictions": 0, "kilauea.pending": 0}


def test_a_status_that_is_written_later_is_in_no_cycle() -> None:
    with live_world() as live:
        tracer = live.tracer = Notes()
        live.restart()
        live.node("n1")
        live.group("gang", 1)
        live.start()
        live.wait(3)
    writes = [span for span in tracer.spans if span.attributes.get("url.path", "").endswith("/podgroups/gang")]
    assert writes
    assert {span.path for span in writes} == {"PATCH"}


class Refusing:
    """A transport that refuses all, and keeps the headers."""

    def __init__(self) -> None:
        self.headers: Mapping[str, str] = {}

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.headers = headers
        return Answer(409, {}, b"")

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        yield b"one\n"

    async def close(self) -> None:
        """Nothing is open."""


def test_a_request_has_the_headers_of_its_own_span_which_says_if_it_failed() -> None:
    below, tracer = Refusing(), Notes()
    answer = asyncio.run(Traced(below, tracer).request("POST", "/api/v1/pods?dryRun=All", {"accept": "x"}, b""))
    assert answer.status == 409
    assert below.headers == {"accept": "x", "traceparent": "POST"}
    (span,) = tracer.spans
    expected = {"http.request.method": "POST", "url.path": "/api/v1/pods", "http.response.status_code": 409}
    assert span.attributes == expected
    assert span.failure == "the server answers 409"


def test_without_tracing_nothing_is_sent_and_nothing_noted() -> None:
    with UNTRACED.span("cycle") as span, UNTRACED.within(UNTRACED.current()):
        span.note({"a": 1})
        span.fail("no")
        UNTRACED.took("action", 1)
        assert UNTRACED.headers() == {}
    assert not UNTRACED.on


@pytest.mark.skipif(importlib.util.find_spec("opentelemetry") is not None, reason="OpenTelemetry is installed here")
def test_tracing_without_opentelemetry_says_what_to_install(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        '{"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], "users": [], '
        '"contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x"}'
    )
    with pytest.raises(StartError, match=r'pip install "kilauea\[tracing\]", or start without --tracing'):
        Daemon("test", DaemonOptions(config, {}, tracing=True))
