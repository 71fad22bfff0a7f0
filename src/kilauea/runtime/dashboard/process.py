"""The dashboard for any cluster, as a process: `kilauea dashboard`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from kilauea.api.kinds import NAMESPACES
from kilauea.api.ports import ApiError
from kilauea.client.finding import find_access
from kilauea.client.http import HttpTransport
from kilauea.client.rest import Client
from kilauea.dashboard.pages import Cluster
from kilauea.dashboard.picture import Picture
from kilauea.dashboard.series import Series
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.daemon import cannot_listen
from kilauea.runtime.dashboard.commands import Commands
from kilauea.runtime.dashboard.deserved import follow_deserved
from kilauea.runtime.dashboard.past import Past
from kilauea.runtime.dashboard.sessions import Sessions
from kilauea.runtime.dashboard.site import Site, Source
from kilauea.runtime.dashboard.watching import Watching
from kilauea.runtime.tasks import until

LOOPBACK = "127.0.0.1"
ASKED = "Token of the link that the command printed"


@dataclass(frozen=True)
class DashboardOptions:
    """Options of the dashboard of a cluster.

    Attributes:
        kubeconfig: the file that describes the cluster; None searches the usual places.
        environment: environment variables of the process.
        host, port: the loopback address to listen on; port 0 for a free one.
        namespace: the only namespace to show; empty for all.
        history: folder with a history to show; None for that of the cluster.
    """

    kubeconfig: Path | None
    environment: Mapping[str, str]
    host: str
    port: int
    namespace: str = ""
    history: Path | None = None


async def run_dashboard(
    options: DashboardOptions, ready: Callable[[str], None], again: Callable[[str], None], stop: asyncio.Event
) -> None:
    """Serve until told to stop.

    Args:
        options: the cluster and the address.
        ready: called with the link for the first browser.
        again: called with the next link when one was used.
        stop: ends everything when it is set.

    Raises:
        AccessError: no usable description of the cluster.
        ApiError: the cluster does not answer, or does not know the user.
        StartError: it cannot listen.
    """
    access = find_access(options.kubeconfig, options.environment)
    clock, rng = SystemClock(), Random()
    port = 0

    def link(token: str) -> str:
        return link_of(options.host, port, token)

    async with AsyncExitStack() as stack:
        transport = await stack.enter_async_context(HttpTransport(access))
        client = Client(transport, "kilauea-dashboard", rng)
        try:
            await client.check_list(NAMESPACES)
        except ApiError as error:
            if error.code != 403:  # a user who may not list namespaces may list other things
                raise
        cluster = Cluster(Picture(), Series(), now=clock.now())
        watching = Watching(client, cluster, clock, rng, options.namespace)
        sessions = Sessions(clock, link_used=lambda token: again(link(token)))
        commands = Commands(options.kubeconfig, options.environment)
        past = Past(client, clock, options.namespace, options.history)
        source = Source(client, client.log, commands, past, access.server, ASKED, options.namespace)
        site = Site(source, cluster, watching, sessions, clock)
        try:
            port = await stack.enter_async_context(site.serving(options.host, options.port))
        except OSError as error:
            advice = "choose another port with --address, or 0 for any free port"
            raise cannot_listen(options.host, options.port, error, advice) from error
        ready(link(sessions.token))
        await until(stop, [watching.run(), follow_deserved(cluster, commands, watching, clock)])


def link_of(host: str, port: int, token: str) -> str:
    """The link that opens the dashboard in a browser."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/login?token={token}"
