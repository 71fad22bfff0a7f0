"""Work that only one process of several does: the one that holds a lease.

    leadership = Leadership(clock, rng, Key("volcano-system", "volcano"), Terms())
    async with HttpTransport(access) as own, HttpTransport(access, leadership.check) as transport:
        await leadership.lead(Client(own), work)        # the work writes by the other transport

A process may be paused for longer than its lease holds (SIGSTOP, a virtual machine that is moved) and goes on in the
midst of its work, with requests that wait to be sent. So each write is checked when it could be sent.
"""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Awaitable, Callable
from random import Random

from kilauea.api.kinds import NAMESPACES
from kilauea.api.ports import Api, ApiError, Clock, Key
from kilauea.client.lease import Election, Terms

READS = ("GET", "HEAD")
"""Methods that change nothing, which every process may use."""

log = logging.getLogger(__name__)


class Leadership:
    """Decides whether this process may work, and write.

    Args:
        clock: by its monotonic reading the lease runs out.
        rng: jitter, so that processes do not compete at the same moment.
        lease: to hold while working; None to work without.
        terms: how long things take.
    """

    def __init__(self, clock: Clock, rng: Random, lease: Key | None, terms: Terms) -> None:
        self._clock = clock
        self._rng = rng
        self._lease = lease
        self._terms = terms
        self._election: Election | None = None
        self._led = False

    def check(self, method: str) -> None:
        """Refuse to send a write once the lease has been lost.

        Raises:
            ApiError: another process may lead now.
        """
        election = self._election
        if self._led and election is not None and not election.valid and method not in READS:
            raise ApiError(0, "LeaseLost", f"{method} is not sent: the lease {self._lease} has run out")

    async def lead(self, api: Api, work: Callable[[], Awaitable[None]]) -> None:
        """Work while a lease is held, whose namespace is made if need be; without a lease, work at once.

        Args:
            api: where the lease is, by a way that `check` does not guard.
            work: what only the leader does.

        Raises:
            LeaseLost: another process may work now.
        """
        if self._lease is None:
            await work()
            return
        await self._make_namespace(api, self._lease.namespace)
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._election = Election(api, self._clock, self._rng, self._lease, identity, self._terms)

        async def led() -> None:
            self._led = True
            await work()

        await self._election.lead(led)

    @staticmethod
    async def _make_namespace(api: Api, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await api.create(NAMESPACES, "", body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                log.warning("namespace %s of the lease: %s", name, error)
