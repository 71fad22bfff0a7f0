"""Controllers as a process of their own, beside any Kubernetes."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from kilauea.api.kinds import JOB_FLOWS, PODS, QUEUES, VC_JOBS
from kilauea.api.ports import Controller, Key, Obj, Resource
from kilauea.client.finding import find_access
from kilauea.client.http import HttpTransport
from kilauea.client.lease import Terms
from kilauea.client.limits import Limited, RateLimit
from kilauea.client.recording import Recorder
from kilauea.client.rest import Client
from kilauea.client.view import Cache
from kilauea.controllers.hypernodes.discovery import CONFIGURATION
from kilauea.controllers.registry import chosen, kubernetes_controllers, volcano_controllers
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.leading import Leadership
from kilauea.runtime.manager.reconciling import Driver
from kilauea.runtime.tasks import settled, until
from kilauea.telemetry.controller_metrics import ControllerMetrics
from kilauea.telemetry.serving import serve_pages

COMPONENT = "vc-controller-manager"
"""As events name it."""

log = logging.getLogger(__name__)


class StartError(Exception):
    """Controllers that cannot start; the message says why and what to do."""


@dataclass(frozen=True)
class Options:
    """Which controllers to run, and where.

    Attributes:
        kubeconfig: which cluster; None for the usual places.
        environment: variables of the process.
        volcano: which of Volcano's controllers, as `chosen` reads it.
        kubernetes: which of Kubernetes' own.
        schedulers: names of the schedulers whose plain pods are given pod groups.
        inherit: whether pod groups take over annotations of the pods' owners.
        qps: requests a second.
        burst: requests at once.
        lease: the lease to hold while working; None to work without.
        terms: times of the lease.
        master: address of the server, if another than the kubeconfig says.
        pages: addresses at which the pages are served.
        discovery: the ConfigMap that says how HyperNodes are discovered.
    """

    kubeconfig: Path | None
    environment: Mapping[str, str]
    volcano: Sequence[str] = ("*",)
    kubernetes: Sequence[str] = ()
    schedulers: Sequence[str] = ("volcano",)
    inherit: bool = True
    qps: float = 2000
    burst: int = 2000
    lease: Key | None = None
    terms: Terms = field(default_factory=Terms)
    master: str = ""
    pages: Sequence[tuple[str, int]] = ()
    discovery: Key = CONFIGURATION


def wanted_controllers(options: Options, since: int) -> list[Controller]:
    """The controllers that are asked for.

    Args:
        options: what is asked for.
        since: when they begin, in microseconds since 1970.

    Raises:
        ValueError: one is asked for that there is not.
    """
    volcano = volcano_controllers(options.schedulers, inherit=options.inherit, discovery=options.discovery)
    return [*chosen(volcano, options.volcano), *chosen(kubernetes_controllers(since), options.kubernetes)]


async def run_controllers(options: Options, stop: asyncio.Event) -> None:
    """Run controllers until told to stop.

    Raises:
        StartError: they cannot start.
        AccessError: it is not known how to come to the cluster.
        LeaseLost: another process may work now.
    """
    clock, rng, cache = SystemClock(), Random(), Cache()
    access = find_access(options.kubeconfig, options.environment)
    if options.master:
        access = dataclasses.replace(access, server=options.master)
    async with AsyncExitStack() as stack:
        leadership = Leadership(clock, rng, options.lease, options.terms)
        own = await stack.enter_async_context(HttpTransport(access))
        transport = await stack.enter_async_context(HttpTransport(access, leadership.check))
        limited = Limited(transport, RateLimit(options.qps, options.burst, clock))
        client = Client(limited, COMPONENT, rng)
        recorder = Recorder(client, clock)
        controllers = wanted_controllers(options, clock.now())
        driver = Driver(client, cache, clock, rng, recorder.record, controllers)
        await _serve_pages(options, cache, stack)
        leading = leadership.lead(Client(own, COMPONENT, rng), driver.run)
        await until(stop, [cache.run(client, clock, rng), recorder.run(), leading, settled(cache.complete())])


async def _serve_pages(options: Options, cache: Cache, stack: AsyncExitStack) -> None:
    """Serve health and metrics as long as the stack lasts."""
    watched = {indexer.resource for indexer in cache}

    def objects(resource: Resource) -> Sequence[Obj]:
        return cache.list(resource) if resource in watched else ()

    def not_ready() -> str:
        missing = ", ".join(each.plural for each in cache.missing())
        return f"not listed yet: {missing}" if missing else ""

    metrics = ControllerMetrics(*(partial(objects, each) for each in (QUEUES, VC_JOBS, JOB_FLOWS, PODS)))
    for host, port in options.pages:
        try:
            bound = await stack.enter_async_context(serve_pages(host, port, not_ready, metrics.registry))
            log.info("pages at http://%s:%d: /healthz /readyz /metrics", host or "0.0.0.0", bound)
        except OSError as error:
            words = "choose another one with --listen-address or --healthz-address"
            raise StartError(f"{host}:{port}: cannot listen ({error.strerror or error}): {words}") from error
