"""Controllers as a process of their own, beside any Kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from kilauea.api.ports import Controller, Key
from kilauea.client.finding import find_access
from kilauea.client.http import HttpTransport
from kilauea.client.lease import Terms
from kilauea.client.limits import Limited, RateLimit
from kilauea.client.recording import Recorder
from kilauea.client.rest import Client
from kilauea.client.view import Cache
from kilauea.controllers.registry import chosen, kubernetes_controllers, volcano_controllers
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.leading import lead
from kilauea.runtime.reconciling import Driver
from kilauea.runtime.tasks import settled, until

COMPONENT = "vc-controller-manager"
"""As events name it."""


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


def wanted_controllers(options: Options, since: int) -> list[Controller]:
    """The controllers that are asked for.

    Args:
        options: what is asked for.
        since: when they begin, in microseconds since 1970.

    Raises:
        ValueError: one is asked for that there is not.
    """
    volcano = volcano_controllers(options.schedulers, inherit=options.inherit)
    return [*chosen(volcano, options.volcano), *chosen(kubernetes_controllers(since), options.kubernetes)]


async def run_controllers(options: Options, stop: asyncio.Event) -> None:
    """Run controllers until told to stop.

    Raises:
        AccessError: it is not known how to come to the cluster.
        LeaseLost: another process may work now.
    """
    clock, chance, cache = SystemClock(), Random(), Cache()
    async with HttpTransport(find_access(options.kubeconfig, options.environment)) as transport:
        limited = Limited(transport, RateLimit(options.qps, options.burst, clock))
        client = Client(limited, COMPONENT, chance)
        recorder = Recorder(client, clock)
        controllers = wanted_controllers(options, clock.now())
        driver = Driver(client, cache, clock, chance, recorder.record, controllers)
        leading = lead(client, clock, chance, options.lease, options.terms, driver.run)
        await until(stop, [cache.run(client, clock, chance), recorder.run(), leading, settled(cache.complete())])
