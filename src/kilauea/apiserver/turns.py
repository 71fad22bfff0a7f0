"""Requests share the server: users take turns, and long work leaves the event loop to others in between."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from time import thread_time

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""The tenant (`User.tenant`) whose request is being answered."""
LONGEST_PAUSE = 0.5
"""Seconds for other requests between two that block the loop."""


LOOK = 64 * 1024
"""Bytes of objects after which a slice reads the CPU time of its thread, which costs as much as matching an object."""
FIRST = 0.002
"""Seconds of the first slice."""
LEAST = 1024
"""Minimum bytes that an object counts."""


class TooManyOfUser(Exception):
    """A user has too many requests waiting for their turn."""


class Turns:
    """Places that users take and give back; waiting users are served in turn, and the requests of each user in order.

    Args:
        places: the maximum number of places taken at the same time.
        of_user: the maximum number for one user.
        most_waiting: the maximum number of waiting requests of one user; None for no limit.
    """

    def __init__(self, places: int = 1, of_user: int = 1, most_waiting: int | None = None) -> None:
        self._places = places
        self._of_user = of_user
        self._most_waiting = most_waiting
        self._taken: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Waiting requests by user; the next user is first."""

    @property
    def is_wanted(self) -> bool:
        """True if any request waits."""
        return bool(self._waiting)

    async def take(self, user: str) -> None:
        """Wait for a place; `give_back` must follow.

        Raises:
            TooManyOfUser: too many requests of the user are waiting.
        """
        if user not in self._waiting and self._has_place(user):
            self._taken[user] += 1
            return
        queue = self._waiting.setdefault(user, deque())
        if self._most_waiting is not None and len(queue) >= self._most_waiting:
            raise TooManyOfUser
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the place was given when the request ended
                self.give_back(user)
            raise

    def give_back(self, user: str) -> None:
        """Give a place to the next request."""
        self._taken[user] -= 1
        if not self._taken[user]:
            del self._taken[user]
        while (following := self._next()) is not None:
            self._taken[following] += 1

    def _has_place(self, user: str) -> bool:
        return self._taken.total() < self._places and self._taken[user] < self._of_user

    def _next(self) -> str | None:
        """Wake the next request that can have a place, and return its user; None if none can."""
        for user in [each for each in self._waiting if self._has_place(each)]:
            queue = self._waiting.pop(user)
            turn = queue.popleft()
            while turn.done() and queue:  # requests that ended while waiting
                turn = queue.popleft()
            if queue:
                self._waiting[user] = queue
            if not turn.done():
                turn.set_result(None)
                return user
        return None


class LoopTurns:
    """Turns of requests that block the event loop, such as large writes, and the steps of long lists.

    If several wait, each is followed by a pause as long as its turn, in which the loop runs everything else. So other
    requests wait for at most one of them, not for all.

    Args:
        rounds: rounds of the loop between two turns, instead of a pause: for steps of a few milliseconds, between which
            a loop without other requests should not rest.
    """

    def __init__(self, rounds: int = 0) -> None:
        self._turns = Turns()
        self._rounds = rounds

    async def take(self, user: str) -> None:
        """Wait for a turn, which lasts until the caller's next wait."""
        await self._turns.take(user)
        loop = asyncio.get_running_loop()
        loop.call_soon(self._end, user, loop.time())

    async def pause(self, user: str) -> None:
        """Let everything else run, and then wait for the next turn."""
        await asyncio.sleep(0)
        await self.take(user)

    def _end(self, user: str, since: float) -> None:
        loop = asyncio.get_running_loop()
        if self._turns.is_wanted and self._rounds:
            self._pass(user, self._rounds)
        elif self._turns.is_wanted:
            loop.call_later(min(loop.time() - since, LONGEST_PAUSE), self._turns.give_back, user)
        else:
            self._turns.give_back(user)

    def _pass(self, user: str, rounds: int) -> None:
        if rounds:
            asyncio.get_running_loop().call_soon(self._pass, user, rounds - 1)
        else:
            self._turns.give_back(user)


class TimeSlice:
    """The CPU time for which long work keeps the event loop before other requests have their turn.

        time_slice = TimeSlice(call.pause, 0.02)
        for value in values:
            if time_slice.is_over(len(value)):
                await time_slice.renew()

    In wall-clock time, a slice on a busy machine would end after a few objects, and a list would wait for hundreds. The
    first slice is short, as hundreds of requests may begin at once.

    Args:
        pause: lets other requests run.
        seconds: CPU time of the thread, from a look at its clock.
        look: bytes of objects between two looks.
    """

    def __init__(self, pause: Callable[[], Awaitable[None]], seconds: float, look: int = LOOK) -> None:
        self._pause = pause
        self._seconds = seconds
        self._look = self._left = look
        self._end: float | None = None

    def is_over(self, size: int) -> bool:
        """Count an object of this many bytes, and return True if the slice is over."""
        self._left -= max(size, LEAST)
        if self._left > 0:
            return False
        self._left = self._look
        now = thread_time()
        if self._end is None:
            self._end = now + min(FIRST, self._seconds)
        return now >= self._end

    async def renew(self) -> None:
        """Let other requests have their turn, and begin the next slice."""
        await self._pause()
        self._end = thread_time() + self._seconds
