"""A long-running process for a cluster: connection, rate limit, lease, health endpoints and events.

async with Daemon("vc-controller-manager", options) as daemon:
await daemon.serve_pages(not_ready, metrics.registry, "--listen-address")
await daemon.run(stop, [cache.run(daemon.client, daemon.clock, daemon.rng)], lead=driver.run)
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

from prometheus_client import CollectorRegistry

from kilauea.api.ports import Key
from kilauea.client.finding import find_access
from kilauea.client.http import HttpTransport
from kilauea.client.lease import Terms
from kilauea.client.limits import Limited, RateLimit
from kilauea.client.recording import Recorder
from kilauea.client.reporting import Reporting
from kilauea.client.rest import Client
from kilauea.client.traced import Traced
from kilauea.client.transport import Transport
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.leading import Leadership
from kilauea.runtime.tasks import until
from kilauea.telemetry.serving import Settings, pages, serve_pages
from kilauea.telemetry.tracing import UNTRACED, Tracer

PAGES_OPTIONS = "--listen-address or --healthz-address"
"""The options that set the addresses of the pages, for messages."""

log = logging.getLogger(__name__)


class StartError(Exception):
    """A process cannot start; the message gives the reason and the fix."""


@dataclass(frozen=True)
class DaemonOptions:
    """Connection, limits, lease and health endpoints of a process.

    Attributes:
        kubeconfig: file that describes the cluster; None searches the usual places.
        environment: environment variables of the process.
        master: URL of the API server, instead of the kubeconfig's.
        qps: requests per second; None for no limit.
        burst: size of a burst of requests.
        lease: the lease to hold while working; None to work without one.
        terms: durations of the lease.
        pages: addresses at which to serve health and metrics.
        seed: seed of random pauses; None for a random seed.
        tracing: send spans to a collector.
    """

    kubeconfig: Path | None
    environment: Mapping[str, str]
    master: str = ""
    qps: float | None = None
    burst: int = 1
    lease: Key | None = None
    terms: Terms = field(default_factory=Terms)
    pages: Sequence[tuple[str, int]] = ()
    seed: int | None = None
    tracing: bool = False


class Daemon:
    """The context in which a process works. Entering it opens the connections, leaving it closes them.

    Args:
        name: name of the client, as the API server logs it.
        options: how to reach the cluster.
        events: events per second, and burst; None for no limit.

    Attributes:
        client: the rate-limited client; it does not write once the lease is lost.
        clock: the system's clock.
        rng: jitter of pauses.
        recorder: writes events while the daemon runs.
        tracer: records spans, if enabled.

    Raises:
        AccessError: no usable description of the cluster.
        StartError: tracing is enabled, but OpenTelemetry is not installed.
    """

    def __init__(self, name: str, options: DaemonOptions, events: tuple[float, int] | None = None) -> None:
        self.options = options
        self.clock = SystemClock()
        self.rng = Random(uuid.uuid4().int if options.seed is None else options.seed)
        self._leadership = Leadership(self.clock, self.rng, options.lease, options.terms)
        access = find_access(options.kubeconfig, options.environment)
        if options.master:
            access = dataclasses.replace(access, server=options.master)
        self._transport = HttpTransport(access, self._leadership.check)
        self._lease_transport = HttpTransport(access)
        self._reporting = Reporting(self._transport, self.clock)
        self.tracer = _tracer(name.partition("/")[0]) if options.tracing else UNTRACED
        transport: Transport = Traced(self._reporting, self.tracer) if self.tracer.on else self._reporting
        if options.qps is not None:
            transport = Limited(transport, RateLimit(options.qps, options.burst, self.clock))
        self.client = Client(transport, name, self.rng)
        limit = RateLimit(*events, self.clock) if events else None
        self.recorder = Recorder(self.client, self.clock, limit, self._leadership.identity)
        self._lease_client = Client(Reporting(self._lease_transport, self.clock, quiet=True), name, self.rng)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the connections."""
        for transport in (self._lease_transport, self._transport):
            await self._stack.enter_async_context(transport)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections and pages."""
        await self._stack.aclose()
        await asyncio.to_thread(self.tracer.close)

    async def serve_pages(
        self,
        not_ready: Callable[[], str],
        registry: CollectorRegistry,
        option: str,
        settings: Settings = dict,
    ) -> None:
        """Serve health, metrics and settings until the daemon ends.

        Args:
            not_ready: returns the reason why the process is not ready; empty if it is.
            registry: the metrics.
            option: the option that sets the address, for the message.
            settings: the settings in use, without secrets.

        Raises:
            StartError: it cannot listen.
        """

        def reason() -> str:
            return self.explained(not_ready())

        for host, port in self.options.pages:
            try:
                serving = serve_pages(host, port, pages(reason, registry, settings))
                bound = await self._stack.enter_async_context(serving)
            except OSError as error:
                raise cannot_listen(host, port, error, f"choose another address with {option}") from error
            log.info("pages at http://%s:%d: /healthz /readyz /metrics /configz", host or "0.0.0.0", bound)

    def explained(self, not_ready: str) -> str:
        """Return the reason why the process is not ready, including a fault of the connection."""
        fault = self._reporting.fault
        return f"{fault}; {not_ready}" if not_ready and fault else not_ready

    async def run(
        self,
        stop: asyncio.Event,
        work: Sequence[Coroutine[Any, Any, None]],
        lead: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Work until told to stop.

        Args:
            stop: ends everything when it is set.
            work: coroutines to run from the start.
            lead: work to do only while this process holds the lease.

        Raises:
            LeaseLost: another process may lead now.
        """
        leading = [self._leadership.lead(self._lease_client, lead)] if lead is not None else []
        await until(stop, [*work, self.recorder.run(), *leading])


def _tracer(name: str) -> Tracer:
    """The tracer of a process.

    Raises:
        StartError: OpenTelemetry is not installed.
    """
    try:
        from kilauea.telemetry.opentelemetry import OpenTelemetryTracer  # noqa: PLC0415 - installed where it is used
    except ImportError as error:
        advice = 'pip install "kilauea[tracing]", or start without --tracing'
        raise StartError(f"--tracing: OpenTelemetry is not installed ({error}): {advice}") from error
    return OpenTelemetryTracer(name)


def cannot_listen(host: str, port: int, error: OSError, advice: str) -> StartError:
    """Return the error for an address that is in use or does not belong to this machine."""
    return StartError(f"{host}:{port}: cannot listen ({error.strerror or error}): {advice}")
