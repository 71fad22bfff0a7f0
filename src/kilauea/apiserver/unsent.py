"""The bytes of watch events that clients have not read yet, and how many of them the clients of a tenant may cause."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager

MOST, MOST_OF_TENANT = 512 << 20, 128 << 20
"""Bytes from which watches wait, in total and per tenant. A batch takes about four times its bytes until it is sent."""
SMALL_SHARE = 4 << 20
"""Bytes that a tenant may have regardless of the others."""


class Unsent:
    """The bytes of batches that are being sent, by tenant.

    Thousands of clients can open watches and read nothing, until they are disconnected. Meanwhile, the other watches of
    their tenant do not prepare more; they read the history later. A batch may exceed the limits by its own size.

    Args:
        most: the limit for all tenants.
        most_of_tenant: the limit for one tenant.
    """

    def __init__(self, most: int = MOST, most_of_tenant: int = MOST_OF_TENANT) -> None:
        self._most = most
        self._most_of_tenant = most_of_tenant
        self._sizes: Counter[str] = Counter()
        self._total = 0
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Watches that wait for room, by tenant."""

    def is_full(self, tenant: str) -> bool:
        """Return True if a watch must wait before it prepares a batch."""
        size = self._sizes[tenant]
        return size >= self._most_of_tenant or (self._total >= self._most and size >= SMALL_SHARE)

    async def room(self, tenant: str) -> None:
        """Wait until a watch may prepare a batch."""
        loop = asyncio.get_running_loop()
        was_woken = False
        while self.is_full(tenant):
            turn = loop.create_future()
            queue = self._waiting.setdefault(tenant, deque())
            if was_woken:  # another one was first, and has taken the room
                queue.appendleft(turn)
            else:
                queue.append(turn)
            try:
                await turn
            finally:
                loop.call_soon(self._wake, tenant)  # the next one, once it is known what this one has taken
            was_woken = True

    @contextmanager
    def sending(self, tenant: str, size: int) -> Iterator[None]:
        """Count a batch while it is sent."""
        self._sizes[tenant] += size
        self._total += size
        try:
            yield
        finally:
            self._total -= size
            self._sizes[tenant] -= size
            if not self._sizes[tenant]:
                del self._sizes[tenant]
            for waiting in list(self._waiting):
                self._wake(waiting)

    def _wake(self, tenant: str) -> None:
        """Wake the next watch of a tenant if there is room for it."""
        queue = self._waiting.get(tenant)
        while queue and not self.is_full(tenant):
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        if queue is not None and not queue:
            self._waiting.pop(tenant, None)
