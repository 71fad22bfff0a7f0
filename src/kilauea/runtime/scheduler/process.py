"""The live scheduler as a process: its options, connection, health endpoints and lease."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kilauea.runtime.daemon import PAGES_OPTIONS, Daemon, DaemonOptions
from kilauea.runtime.history.recorder import Recorder
from kilauea.runtime.scheduler.conf_reload import ConfReload
from kilauea.runtime.scheduler.live import LiveOptions, LiveScheduler, at_once, in_thread
from kilauea.runtime.settings import plain
from kilauea.runtime.tasks import collect_seldom_after, take_short_turns, until
from kilauea.simulator.extensions import BUILT_IN, Extensions
from kilauea.telemetry.metrics import SchedulerMetrics

COMPONENT = "vc-scheduler"
"""Name of the process in its settings."""
EVENTS = (50, 200)
"""Events per second, and burst."""


@dataclass(frozen=True)
class SchedulerOptions:
    """Options of the scheduler as a process.

    Attributes:
        daemon: how to reach the cluster.
        scheduler_conf: file with the configuration; None for the built-in one.
        strict: without a valid file, do not start.
        live: options of scheduling.
        history: folder in which the process that leads keeps a history of jobs; None to keep none.
    """

    daemon: DaemonOptions
    scheduler_conf: str | None = None
    strict: bool = False
    live: LiveOptions = field(default_factory=LiveOptions)
    history: Path | None = None


async def run_scheduler(options: SchedulerOptions, stop: asyncio.Event, extensions: Extensions = BUILT_IN) -> None:
    """Schedule until told to stop.

    Raises:
        StartError: it cannot start.
        AccessError: no usable description of the cluster.
        SourceError: strict, and the configuration is invalid.
        LeaseLost: another process may schedule now.
    """
    take_short_turns()
    conf = ConfReload(options.scheduler_conf, extensions, strict=options.strict)
    metrics = SchedulerMetrics()
    async with Daemon(f"kilauea-scheduler/{options.live.component}", options.daemon, EVENTS) as daemon:
        history = None
        if options.history is not None:
            history = Recorder(daemon.client, options.history, daemon.clock, daemon.rng)
        live = LiveScheduler(
            daemon.client,
            options.live,
            conf,
            daemon.clock,
            daemon.rng,
            daemon.recorder.record,
            metrics,
            extensions,
            # The watchdog for custom plugins works best in the main thread.
            at_once if extensions.bring_any else in_thread,
            daemon.tracer,
            *([history.evicted] if history is not None else []),
        )
        daemon.recorder.busy = lambda: live.busy > 0

        def settings() -> dict[str, Any]:
            return {COMPONENT: {"options": plain(options), "configuration": plain(conf.conf), "fault": conf.fault}}

        await daemon.serve_pages(live.not_ready, metrics.registry, PAGES_OPTIONS, settings)
        work = [live.watch(), collect_seldom_after(live.complete())]

        async def lead() -> None:
            # Only the leader writes a history, as only it knows the preemptors of its evictions.
            await until(stop, [live.schedule(), *([history.run()] if history is not None else [])])

        await daemon.run(stop, work, lead)
