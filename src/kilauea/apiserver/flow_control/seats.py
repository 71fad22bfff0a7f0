"""The seats of a priority level: so many requests are served at a time, the others wait in turn or are refused."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from kilauea.apiserver import status

REFUSAL = "too many requests, please try again later"
RETRY_SECONDS = 1


class Seats:
    """The requests of one priority level. All calls are made in the loop of the server.

    A flow is what the FlowSchema tells apart, such as the requests of one user. Seats that become free go to the flows
    in turn, so that a flow with many requests does not keep the others waiting.

    Attributes:
        most: seats of the level.
        room: requests of one flow that may wait; 0 where all are refused that find no seat.
        taken: seats that are taken.
        refused: requests that were refused since the start.
    """

    def __init__(self) -> None:
        self.most = self.room = self.taken = self.refused = self.dispatched = 0
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return sum(map(len, self._waiting.values()))

    def allow(self, most: int, room: int) -> None:
        """Set how many seats there are, and how many requests of a flow may wait; those that wait are not refused."""
        self.most, self.room = most, room
        while self._waiting and self.taken < self.most:
            self.taken += 1
            self._hand_over()

    async def take(self, flow: str) -> None:
        """Take a seat, maybe after some time; `give` must follow.

        Raises:
            ApiFault: all seats are taken, and there is no room to wait (429).
        """
        if self.taken < self.most:
            self.taken += 1
        else:
            await self._wait(flow)
        self.dispatched += 1

    async def _wait(self, flow: str) -> None:
        queue = self._waiting.setdefault(flow, deque()) if self.room else deque()
        if len(queue) >= self.room:
            self.refused += 1
            raise status.too_many_requests(REFUSAL, retry_after=RETRY_SECONDS)
        seat = asyncio.get_running_loop().create_future()
        queue.append(seat)
        try:
            await seat
        except asyncio.CancelledError:
            if not seat.cancelled():  # the seat came at the same moment as the end of the request
                self.give()
            elif seat in queue:
                queue.remove(seat)
                if not queue:
                    self._waiting.pop(flow, None)
            raise

    def give(self) -> None:
        """Give a seat back: to a request that waits, if there are not too many seats in use."""
        if self.taken > self.most:
            self.taken -= 1
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        """Pass a seat that is taken to the next flow in turn; it is free if none waits."""
        while self._waiting:
            flow = next(iter(self._waiting))
            queue = self._waiting.pop(flow)
            seat = queue.popleft()
            if queue:
                self._waiting[flow] = queue  # at the end: the other flows come first
            if not seat.done():
                seat.set_result(None)
                return
        self.taken -= 1


class Flow(NamedTuple):
    """The class of a request: the headers that name its FlowSchema and level, and the seats that it takes.

    `seats` is None where it is exempt; `name` is the flow within its FlowSchema.
    """

    headers: tuple[tuple[str, str], ...]
    seats: Seats | None
    name: str
