"""The dashboard of `kilauea up`, in the process of the cluster: it watches the store directly, not over HTTPS."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

from kilauea.apiserver.core import ApiServer
from kilauea.client.rest import Client
from kilauea.dashboard.pages import Cluster
from kilauea.dashboard.picture import Picture
from kilauea.dashboard.series import Series
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.cluster.apiserver import ServerOptions
from kilauea.runtime.dashboard.commands import Commands
from kilauea.runtime.dashboard.past import Past
from kilauea.runtime.dashboard.process import LOOPBACK, link_of
from kilauea.runtime.dashboard.sessions import Sessions
from kilauea.runtime.dashboard.site import Site, Source
from kilauea.runtime.dashboard.watching import Watching
from kilauea.runtime.scheduler.live import LiveScheduler

ASKED = "Token of the link, or the token in the cluster's kubeconfig"
log = logging.getLogger(__name__)


@asynccontextmanager
async def dashboard_of_cluster(
    api: ApiServer,
    client: Client,
    options: ServerOptions,
    scheduler: LiveScheduler | None,
    linked: Callable[[str], None],
) -> AsyncIterator[None]:
    """Serve the dashboard for the length of a block; the cluster runs on if it cannot listen.

    It listens on the port after that of the server, or else on a free one. Its user is the administrator, like any user
    who can read the terminal or the kubeconfig.

    Args:
        api: the server.
        client: a client of it.
        options: options of the server.
        scheduler: the scheduler, for the deserved amounts of queues; None for none.
        linked: called with the link for the first browser (empty if the dashboard cannot listen), and with each further
            one.
    """
    clock, rng, cluster = SystemClock(), Random(options.seed), Cluster(Picture(), Series())
    figures = None if scheduler is None else lambda: scheduler.scheduler.queues
    watching = Watching(client, cluster, clock, rng, known=figures)
    token = (options.data_dir / "credentials" / "token").read_text().strip()
    port = 0

    def link(found: str) -> str:
        return link_of(LOOPBACK, port, found)

    sessions = Sessions(clock, token, lambda found: linked(link(found)))
    commands = Commands(options.kubeconfig, os.environ)
    source = Source(client, client.log, commands, Past(client, clock), str(options.data_dir), ASKED)
    site = Site(source, cluster, watching, sessions, clock)
    async with AsyncExitStack() as stack:
        try:
            port = await _listen(stack, site, options.port + 1 if options.port else 0)
        except OSError as error:
            log.warning("the dashboard cannot listen on %s: %s", LOOPBACK, error.strerror or error)
            linked("")
            yield
            return
        linked(link(sessions.token))
        running = asyncio.create_task(watching.run(), name="dashboard")
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def _listen(stack: AsyncExitStack, site: Site, port: int) -> int:
    """Listen on a port, or on a free one if it is in use."""
    try:
        return await stack.enter_async_context(site.serving(LOOPBACK, port))
    except OSError:
        if not port:
            raise
    return await stack.enter_async_context(site.serving(LOOPBACK, 0))
