"""Large writes, processed outside the event loop so that other requests are answered meanwhile.

They use one thread and not a process, as sending their objects to another process would take as long. The interpreter
switches between that thread and the loop within milliseconds. A write runs in pieces, between which it returns to the
loop: everything that reads other objects is done there.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeVar, cast

from kilauea.apiserver.turns import Turns

T = TypeVar("T")
_Outcome = tuple[T | None, Exception | None]

LARGE = 16 * 1024
"""Bytes of body and changed object from which a write waits for its turn; it takes about 5 ms."""
SWITCH_SECONDS = 0.001
"""Seconds after which the thread yields to the loop, which requests this several times for each request."""
MOST, MOST_OF_USER = 12, 2
"""Maximum large writes in progress: each keeps many copies of its object in memory, also during calls of webhooks.

The limit per user is low, so that slow webhooks of some users do not block others.
"""


class LargeWrites:
    """The thread for large writes, which runs one write at a time; others in progress wait."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large-writes")
        self._places = Turns(MOST, MOST_OF_USER)
        self._turns = Turns()

    def turn(self, user: str) -> Turn:
        """Return the turn of a user's write, which takes it when it has work."""
        return Turn(self, self._places, self._turns, user)

    async def run(self, function: Callable[[], T]) -> T:
        """Return the result of a function, which must not access anything that the loop uses.

        Futures must not keep the result, a large object, or an error, whose traceback refers to one: awaited futures of
        executors, and those in tracebacks, stay until garbage collection.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[_Outcome[T]]] = loop.create_future()
        self._thread.submit(_work, partial(copy_context().run, function), loop, done)
        result, error = (await done).pop()
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame
        return cast(T, result)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(cancel_futures=True)


class Turn:
    """The turn of one write on the thread; users take turns."""

    def __init__(self, writes: LargeWrites, places: Turns, turns: Turns, user: str) -> None:
        self._writes = writes
        self._places = places
        self._turns = turns
        self._user = user
        self._has_place = self._is_held = False

    async def run(self, function: Callable[[], T]) -> T:
        """Return the result of a function, once it is this write's turn, which lasts until `rest`."""
        if not self._has_place:
            await self._places.take(self._user)
            self._has_place = True
        if not self._is_held:
            await self._turns.take(self._user)
            self._is_held = True
        return await self._writes.run(function)

    def rest(self) -> None:
        """Let others have their turn while the write waits, keeping its object."""
        if self._is_held:
            self._is_held = False
            self._turns.give_back(self._user)

    def end(self) -> None:
        """Let others begin: the write has released its object."""
        self.rest()
        if self._has_place:
            self._has_place = False
            self._places.give_back(self._user)


def _work(function: Callable[[], T], loop: asyncio.AbstractEventLoop, done: asyncio.Future[list[_Outcome[T]]]) -> None:
    """Call a function in the thread, and pass its outcome to the loop."""
    loop.call_soon_threadsafe(_settle, done, _outcome(function))


def _outcome(function: Callable[[], T]) -> _Outcome[T]:
    """Return the result of a function or its error, with a shorter switch interval of the interpreter."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        return function(), None
    except Exception as error:
        return None, error
    finally:
        sys.setswitchinterval(before)


def _settle(done: asyncio.Future[list[_Outcome[T]]], outcome: _Outcome[T]) -> None:
    if not done.cancelled():
        done.set_result([outcome])
