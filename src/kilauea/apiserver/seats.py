"""The seats of a priority level, which limit concurrent requests; others wait for their turn or are rejected."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import NamedTuple

from kilauea.apiserver import status

REFUSAL = "too many requests, please try again later"
RETRY_SECONDS = 1
_RESERVED = 8
"""The reserve is the seats divided by this number. Levels with fewer seats have no reserve."""


class Seats:
    """The requests of one priority level. All calls are made in the loop of the server.

    A FlowSchema distinguishes flows, such as the requests of one user. Free seats are given to flows in turn, so that a
    flow with many requests does not delay the others.

    Requests can take long: webhooks may take thirty seconds. So the last seats of a level (`_RESERVED`) are for tenants
    that hold fewer than are left: no tenant can take all of them, and some are left for later tenants.

    Attributes:
        most: the number of seats.
        room: the maximum number of waiting requests of one flow; 0 to reject all requests without a seat.
        taken: the number of taken seats.
        refused: the number of requests rejected since the start.
    """

    def __init__(self) -> None:
        self.most = self.room = self.taken = self.refused = self.dispatched = 0
        self._held: Counter[str] = Counter()
        """Seats by tenant."""
        self._waiting: dict[tuple[str, str], deque[asyncio.Future[None]]] = {}
        """Waiting requests by flow and tenant; the next flow is first."""

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return sum(map(len, self._waiting.values()))

    def allow(self, most: int, room: int) -> None:
        """Set the number of seats, and the maximum number of waiting requests of a flow, without rejecting any."""
        self.most, self.room = most, room
        self._hand_out()

    async def take(self, flow: str, tenant: str = "") -> None:
        """Take a seat, waiting if necessary; `give` must follow.

        Raises:
            ApiFault: all seats are taken, and no more requests may wait (429).
        """
        if (flow, tenant) not in self._waiting and self._may_take(tenant):
            self._seat(tenant)
        else:
            await self._wait(flow, tenant)
        self.dispatched += 1

    async def _wait(self, flow: str, tenant: str) -> None:
        at = flow, tenant
        queue = self._waiting.setdefault(at, deque()) if self.room else deque()
        if len(queue) >= self.room:
            self.refused += 1
            raise status.too_many_requests(REFUSAL, retry_after=RETRY_SECONDS)
        seat = asyncio.get_running_loop().create_future()
        queue.append(seat)
        try:
            await seat
        except asyncio.CancelledError:
            if not seat.cancelled():  # the seat was given when the request ended
                self.give(tenant)
            elif seat in queue:
                queue.remove(seat)
                if not queue:
                    self._waiting.pop(at, None)
            raise

    def give(self, tenant: str = "") -> None:
        """Return a seat, and give it to a waiting request unless too many are in use."""
        self.taken -= 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        self._hand_out()

    def _seat(self, tenant: str) -> None:
        self.taken += 1
        self._held[tenant] += 1

    def _may_take(self, tenant: str) -> bool:
        free = self.most - self.taken
        return free > self.most // _RESERVED or (free > 0 and self._held[tenant] < free)

    def _hand_out(self) -> None:
        """Give free seats to eligible flows in turn."""
        while (at := next((each for each in self._waiting if self._may_take(each[1])), None)) is not None:
            queue = self._waiting.pop(at)
            seat = queue.popleft()
            if queue:
                self._waiting[at] = queue  # at the end, after the other flows
            if not seat.done():
                self._seat(at[1])
                seat.set_result(None)


class Flow(NamedTuple):
    """The class of a request: the headers that name its FlowSchema and level, and the seats that it takes.

    `seats` is None if it is exempt; `name` is the flow within its FlowSchema.
    """

    headers: tuple[tuple[str, str], ...]
    seats: Seats | None
    name: str
