"""Leader election: work that only the holder of a lease does.

    leadership = Leadership(clock, rng, Key("volcano-system", "volcano"), Terms())
    async with HttpTransport(access) as own, HttpTransport(access, leadership.check) as transport:
        await leadership.lead(Client(own), work)        # the work writes by the other transport

A process may be paused for longer than its lease (SIGSTOP, a virtual machine that is moved) and then continue in the
middle of its work, with queued requests. So each write is checked right before it is sent.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Awaitable, Callable
from random import Random

from kilauea.api.ports import Api, ApiError, Clock, Key
from kilauea.client.lease import Election, Terms

READS = ("GET", "HEAD")
"""Methods that change nothing, allowed to every process."""


class Leadership:
    """Decides whether this process may work, and write.

    Args:
        clock: the time; the lease expires by its monotonic clock.
        rng: jitter, so that processes do not compete at the same moment.
        lease: the lease to hold while working; None to work without one.
        terms: durations of the lease.
    """

    def __init__(self, clock: Clock, rng: Random, lease: Key | None, terms: Terms) -> None:
        self._clock = clock
        self._rng = rng
        self._lease = lease
        self._terms = terms
        self.identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        """Unique name of this process."""
        self._election: Election | None = None
        self._led = False

    def check(self, method: str) -> None:
        """Refuse to send a write once the lease has been lost.

        Raises:
            ApiError: another process may lead now.
        """
        election = self._election
        if self._led and election is not None and not election.valid and method not in READS:
            raise ApiError(0, "LeaseLost", f"{method} is not sent: the lease {self._lease} has expired")

    async def lead(self, api: Api, work: Callable[[], Awaitable[None]]) -> None:
        """Work while holding the lease. Without a lease, work at once.

        Args:
            api: the cluster of the lease, through a connection that `check` does not guard.
            work: the work of the leader.

        Raises:
            LeaseLost: another process may work now.
        """
        if self._lease is None:
            await work()
            return
        self._election = Election(api, self._clock, self._rng, self._lease, self.identity, self._terms)

        async def led() -> None:
            self._led = True
            await work()

        await self._election.lead(led)
