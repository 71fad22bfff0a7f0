"""The seats of a priority level: they limit concurrent requests; others wait for their turn or are rejected."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import NamedTuple

from kilauea.apiserver import status

REFUSAL = "too many requests, please try again later"
RETRY_SECONDS = 1
_RESERVED = 8
"""Divisor of the seats that gives the reserve: an eighth. Levels with fewer seats have none."""


class Seats:
    """The requests of one priority level. All calls are made in the loop of the server.

    A flow is what the FlowSchema tells apart, such as the requests of one user. Seats that become free go to the flows
    in turn, so that a flow with many requests does not keep the others waiting.

    Requests can last: webhooks may take thirty seconds. So the last seats of a level (`_RESERVED`) are for tenants that
    hold fewer than there are left: no tenant takes all of them, and none that comes later finds nothing.

    Attributes:
        most: seats of the level.
        room: requests of one flow that may wait; 0 where all are refused that find no seat.
        taken: seats that are taken.
        refused: requests that were refused since the start.
    """

    def __init__(self) -> None:
        self.most = self.room = self.taken = self.refused = self.dispatched = 0
        self._held: Counter[str] = Counter()
        """Seats by tenant."""
        self._waiting: dict[tuple[str, str], deque[asyncio.Future[None]]] = {}
        """Requests that wait by flow and tenant; the flow whose turn comes next is first."""

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return sum(map(len, self._waiting.values()))

    def allow(self, most: int, room: int) -> None:
        """Set how many seats there are, and how many requests of a flow may wait; those that wait are not refused."""
        self.most, self.room = most, room
        self._hand_out()

    async def take(self, flow: str, tenant: str = "") -> None:
        """Take a seat, maybe after some time; `give` must follow.

        Raises:
            ApiFault: all seats are taken, and there is no room to wait (429).
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
            if not seat.cancelled():  # the seat came at the same moment as the end of the request
                self.give(tenant)
            elif seat in queue:
                queue.remove(seat)
                if not queue:
                    self._waiting.pop(at, None)
            raise

    def give(self, tenant: str = "") -> None:
        """Give a seat back: to a request that waits, if there are not too many seats in use."""
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
        """Pass free seats to the flows in turn that may have one."""
        while (at := next((each for each in self._waiting if self._may_take(each[1])), None)) is not None:
            queue = self._waiting.pop(at)
            seat = queue.popleft()
            if queue:
                self._waiting[at] = queue  # at the end: the other flows come first
            if not seat.done():
                self._seat(at[1])
                seat.set_result(None)


class Flow(NamedTuple):
    """The class of a request: the headers that name its FlowSchema and level, and the seats that it takes.

    `seats` is None where it is exempt; `name` is the flow within its FlowSchema.
    """

    headers: tuple[tuple[str, str], ...]
    seats: Seats | None
    name: str
