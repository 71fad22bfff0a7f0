"""`Proxies`: a proxy for each port of each service of this machine's pods, updated when services and endpoints change.

Most programs listen on all addresses. Such a program could not start if the proxy of its own service already used its
port, as all of them share the addresses of this machine. So if the port of a service equals that of its endpoints, the
proxy waits until one of them accepts connections; an endpoint that listens on all addresses also answers on the
service's address, and needs no proxy.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
from collections.abc import Mapping

from kilauea.api.ports import Clock
from kilauea.kubelet.network.balancing import Balancer
from kilauea.kubelet.network.routes import Listen, Route
from kilauea.kubelet.network.tcp_proxy import TcpProxy, accepts
from kilauea.kubelet.network.udp_proxy import UdpProxy

MOST_CONNECTIONS = 2000
"""Maximum number of connections through all proxies; further ones wait to be accepted."""
FIRST_RETRY, LAST_RETRY = 0.25, 10.0
"""Seconds until a retry of a proxy that cannot listen; doubled each time while waiting for endpoints."""
_ADVICE = {
    errno.EACCES: "ports below 1024 need a privilege: use a higher port for the service, or allow them with "
    "`sudo sysctl net.ipv4.ip_unprivileged_port_start=0`",
    errno.EADDRINUSE: "another program is listening there: stop it, or use a different port for the service",
    errno.EADDRNOTAVAIL: "the address is not one of this machine: create the service again to give it a new one",
    errno.EMFILE: "too many open files: raise the limit with `ulimit -n`",
}
log = logging.getLogger(__name__)


class Proxies:
    """The proxies of all services."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._proxies: dict[Listen, TcpProxy | UdpProxy] = {}
        self._failed: dict[Listen, int] = {}
        """Error numbers of proxies that cannot listen."""
        self._unanswered: dict[Listen, int] = {}
        """Number of attempts to reach the endpoints, for proxies that wait for them."""
        self._slots = asyncio.Semaphore(_most_connections())

    @property
    def retry(self) -> float:
        """Seconds until `follow` should be called again for proxies that do not listen yet; 0 if all do."""
        if self._unanswered:
            return min(FIRST_RETRY * 2.0 ** min(self._unanswered.values()), LAST_RETRY)
        return LAST_RETRY if self._failed else 0.0

    async def follow(self, routes: Mapping[Listen, Route]) -> None:
        """Listen on the given routes only. Existing connections continue."""
        for listen in self._proxies.keys() - routes.keys():
            await self._proxies.pop(listen).close(cut=False)
        for waiting in (self._failed, self._unanswered):
            for listen in waiting.keys() - routes.keys():
                del waiting[listen]
        for listen, route in routes.items():
            proxy = self._proxies.get(listen)
            if proxy is None:
                await self._open(listen, route)
            else:
                proxy.balancer.route = route

    async def close(self) -> None:
        """Close all proxies."""
        for proxy in self._proxies.values():
            await proxy.close(cut=True)
        self._proxies.clear()

    async def _open(self, listen: Listen, route: Route) -> None:
        shared = listen.protocol == "TCP" and any(port == listen.port for _, port in route.targets)
        if shared and not await accepts(route.targets):
            self._unanswered[listen] = self._unanswered.get(listen, -1) + 1
            return
        self._unanswered.pop(listen, None)
        try:
            self._proxies[listen] = await self._proxy(listen, Balancer(route))
        except OSError as error:
            answers = shared and error.errno == errno.EADDRINUSE  # an endpoint that listens on all addresses
            if self._failed.get(listen) != error.errno and not answers:
                advice = _ADVICE.get(error.errno or 0, "it will be tried again")
                log.warning("service %s is not available at %s: %s: %s", route.service, listen, error.strerror, advice)
            self._failed[listen] = error.errno or 0
        else:
            self._failed.pop(listen, None)

    async def _proxy(self, listen: Listen, balancer: Balancer) -> TcpProxy | UdpProxy:
        if listen.protocol == "TCP":
            return TcpProxy(listen, balancer, self._clock, self._slots)
        proxy = UdpProxy(listen, balancer, self._clock)
        await proxy.open()
        return proxy


def _most_connections() -> int:
    """Maximum number of connections: each needs two sockets, and half of the open files are reserved for other uses."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(16, min(MOST_CONNECTIONS, soft // 4))
