"""The live scheduler as a process: client, pages, leader election, from start to a clean end."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from kilauea.api.ports import Key
from kilauea.client.finding import find_access
from kilauea.client.http import HttpTransport
from kilauea.client.lease import Terms
from kilauea.client.limits import Limited, RateLimit
from kilauea.client.recording import Recorder
from kilauea.client.rest import Client
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.inputs.extensions import BUILT_IN, Extensions
from kilauea.runtime.leading import Leadership
from kilauea.runtime.scheduler.conf_reload import ConfReload
from kilauea.runtime.scheduler.live import LiveOptions, LiveScheduler, at_once, in_thread
from kilauea.runtime.tasks import settled, take_short_turns, until
from kilauea.telemetry.metrics import SchedulerMetrics
from kilauea.telemetry.serving import serve_pages

log = logging.getLogger(__name__)


class StartError(Exception):
    """A scheduler that cannot start; the message says why and what to do."""


@dataclass(frozen=True)
class Options:
    """How to run the scheduler.

    Attributes:
        kubeconfig: which cluster; None for the usual places.
        environment: variables of the process.
        master: address of the server, if another than the kubeconfig says.
        scheduler_conf: file with the configuration, or None.
        strict: without a usable file there is no configuration.
        pages: addresses at which the pages are served.
        qps: requests a second.
        burst: requests at once.
        lease: the lease to hold while scheduling; None to schedule without.
        terms: times of the lease.
        live: how to schedule.
    """

    kubeconfig: Path | None
    environment: dict[str, str]
    master: str = ""
    scheduler_conf: str | None = None
    strict: bool = False
    pages: tuple[tuple[str, int], ...] = ()
    qps: float = 2000
    burst: int = 2000
    lease: Key | None = None
    terms: Terms = field(default_factory=Terms)
    live: LiveOptions = field(default_factory=LiveOptions)


async def run_scheduler(options: Options, stop: asyncio.Event, extensions: Extensions = BUILT_IN) -> None:
    """Schedule until told to stop.

    Raises:
        StartError: it cannot start.
        AccessError: it is not known how to come to the cluster.
        SourceError: there is no usable configuration, and none is built in.
        LeaseLost: another one may schedule now.
    """
    take_short_turns()
    clock, rng = SystemClock(), Random(uuid.uuid4().int)
    conf = ConfReload(options.scheduler_conf, extensions, strict=options.strict)
    metrics = SchedulerMetrics()
    component = options.live.component
    async with AsyncExitStack() as stack:
        access = find_access(options.kubeconfig, options.environment)
        if options.master:
            access = dataclasses.replace(access, server=options.master)
        leadership = Leadership(clock, rng, options.lease, options.terms)
        own = await stack.enter_async_context(HttpTransport(access))
        transport = await stack.enter_async_context(HttpTransport(access, leadership.check))
        limited = Limited(transport, RateLimit(options.qps, options.burst, clock))
        client = Client(limited, f"kilauea-scheduler/{component}", rng)
        recorder = Recorder(client, clock, RateLimit(50, 200, clock))
        live = LiveScheduler(
            client,
            options.live,
            conf,
            clock,
            rng,
            recorder.record,
            metrics,
            extensions,
            # The watchdog over plugins of users works best in the main thread.
            at_once if extensions.bring_any else in_thread,
        )
        for host, port in options.pages:
            try:
                bound = await stack.enter_async_context(serve_pages(host, port, live.not_ready, metrics.registry))
                log.info("pages at http://%s:%d: /healthz /readyz /metrics", host or "0.0.0.0", bound)
            except OSError as error:
                words = "choose another address with --listen-address"
                raise StartError(f"{host}:{port}: cannot listen ({error.strerror or error}): {words}") from error
        leading = leadership.lead(Client(own, f"kilauea-scheduler/{component}", rng), live.schedule)
        await until(stop, [live.watch(), recorder.run(), leading, settled(live.complete())])
