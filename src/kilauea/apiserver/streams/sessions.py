"""Limits on concurrent connections, so that no client exhausts the file descriptors and memory of the server.

They are counted by tenant (`User.tenant`), as users may be able to create any number of service accounts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from kilauea.api.container_streams import Connection
from kilauea.apiserver import status
from kilauea.apiserver.request import User
from kilauea.apiserver.status import ApiFault

MOST, MOST_OF_TENANT = 1024, 256
"""Maximum connections to containers, in total and per tenant: exec, attach, port-forwards and tunnels."""
MOST_PORTS, MOST_PORTS_OF_TENANT = 2048, 512
"""Maximum connections to ports, of which one port-forward can have many."""
RETRY_SECONDS = 1
LARGEST_MESSAGE, USUAL_MESSAGE = 32 * 1024 * 1024, 1024 * 1024
"""Maximum bytes of a message from a client: as in Kubernetes, and enough for kubectl, which sends 32 KiB."""
MOST_LARGE, MOST_LARGE_OF_TENANT = 16, 4
"""Maximum connections with messages of the largest size. A message is buffered until it is complete."""


class Sessions:
    """The open connections, by tenant."""

    def __init__(self, most: int = MOST, most_of_tenant: int = MOST_OF_TENANT, what: str = "containers") -> None:
        self._most = most
        self._most_of_tenant = most_of_tenant
        self._what = what
        self._tenants: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """The number of connections of all tenants."""
        return self._tenants.total()

    def begin(self, user: User) -> int:
        """Count a connection; return the maximum bytes of a message of its client.

        Raises:
            ApiFault: there are too many (429).
        """
        own = self._tenants[user.tenant]
        if own >= self._most_of_tenant:
            raise self._too_many(_whose(user), self._most_of_tenant)
        if self._tenants.total() >= self._most:
            raise self._too_many("the server has", self._most)
        is_usual = own >= MOST_LARGE_OF_TENANT or self._tenants.total() >= MOST_LARGE
        self._tenants[user.tenant] += 1
        return USUAL_MESSAGE if is_usual else LARGEST_MESSAGE

    def end(self, user: User) -> None:
        """Count one connection less."""
        self._tenants[user.tenant] -= 1
        if not self._tenants[user.tenant]:
            del self._tenants[user.tenant]

    async def counted(self, user: User, connect: Callable[[], Awaitable[Connection]]) -> Connection:
        """Open a connection that is counted until it is closed.

        Raises:
            ApiFault: there are too many (429).
        """
        self.begin(user)
        try:
            return _Counted(await connect(), lambda: self.end(user))
        except BaseException:
            self.end(user)
            raise

    def _too_many(self, whose: str, limit: int) -> ApiFault:
        message = f"{whose} {limit} connections to {self._what}, which is the limit; end some of them first"
        return status.too_many_requests(message, (), RETRY_SECONDS)


def _whose(user: User) -> str:
    if user.tenant == user.name:
        return f"user {user.name} has"
    return f"the service accounts of namespace {user.tenant.rpartition(':')[2]} have"


class _Counted:
    """A connection that calls a function once when it is closed."""

    def __init__(self, connection: Connection, end: Callable[[], None]) -> None:
        self._connection = connection
        self._end = end
        self._is_open = True
        self.read, self.write, self.end_input = connection.read, connection.write, connection.end_input

    async def close(self) -> None:
        """Disconnect."""
        if self._is_open:
            self._is_open = False
            self._end()
        await self._connection.close()
