"""Large writes, processed outside the event loop, so that other requests are answered in the meantime.

It is done in one thread, and not in a process: what it works on are objects of the server, which would take as long to
send elsewhere. The interpreter takes turns between that thread and the loop within milliseconds. A write does what it
must do in pieces, between which it is in the loop again: whatever looks at other objects is done there.
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
"""Bytes of a body and of the object that it changes from which a write waits for its turn; it takes some 5 ms."""
SWITCH_SECONDS = 0.001
"""Seconds after which the thread lets the loop go on, which asks for that several times for each request."""
MOST, MOST_OF_USER = 12, 2
"""Large writes that are under way at a time: each holds its object many times over, also while it asks webhooks.

One user has few of them, so that slow webhooks of some users do not keep out the others.
"""


class LargeWrites:
    """The thread for large writes, at which one write is at work at a time; the others that are under way wait."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large-writes")
        self._places = Turns(MOST, MOST_OF_USER)
        self._turns = Turns()

    def turn(self, user: str) -> Turn:
        """The turn of a write of a user, which it takes when it has something to do."""
        return Turn(self, self._places, self._turns, user)

    async def run(self, function: Callable[[], T]) -> T:
        """Return the result of a function, which must not touch anything that the loop works on.

        No future keeps the result, a large object, or an error, whose traceback refers to one: futures of executors
        that are waited for, and those that tracebacks lead to, stay until the garbage collector comes.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[_Outcome[T]]] = loop.create_future()
        self._thread.submit(_work, partial(copy_context().run, function), loop, done)
        result, error = (await done).pop()
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback refers to what is here
        return cast(T, result)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(cancel_futures=True)


class Turn:
    """The turn of one write at the thread; turns go round the users."""

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
        """Let others have their turn, as the write waits for something with its object in hand."""
        if self._is_held:
            self._is_held = False
            self._turns.give_back(self._user)

    def end(self) -> None:
        """Let others begin: the write holds nothing any more."""
        self.rest()
        if self._has_place:
            self._has_place = False
            self._places.give_back(self._user)


def _work(function: Callable[[], T], loop: asyncio.AbstractEventLoop, done: asyncio.Future[list[_Outcome[T]]]) -> None:
    """Do the work of the thread: call a function, and tell the loop."""
    loop.call_soon_threadsafe(_settle, done, _outcome(function))


def _outcome(function: Callable[[], T]) -> _Outcome[T]:
    """The result of a function, or its error, while the interpreter switches threads more often."""
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
