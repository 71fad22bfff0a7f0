"""Tasks of a process that runs until it is stopped: thread switching, garbage collection, signals."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kilauea.api.ports import Clock

TURN_SECONDS = 0.0005
"""Seconds after which a thread yields to others, so that cycles and writes do not block requests."""

YOUNG_OBJECTS = 50_000
"""New objects after which the garbage collector looks for cycles among them."""

TRIM_SECONDS = 30.0
"""Seconds between two returns of free memory."""


def take_short_turns() -> None:
    """Share the interpreter among the threads of this process in short turns."""
    sys.setswitchinterval(TURN_SECONDS)


def collect_seldom() -> None:
    """Run the cyclic garbage collector less often: requests create many objects but few cycles, and caches keep many.

    It permanently ignores existing objects, so that they cost nothing. Call it once all objects have been read.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 50, 100)


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector while many objects are read that stay; it would visit all of them often."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


async def collect_seldom_after(complete: Awaitable[Any]) -> None:
    """Reduce garbage collection once all objects have been read."""
    await complete
    collect_seldom()


def trimming() -> Callable[[], object] | None:
    """Return a function that returns free memory to the system; None if the C library does not have one (glibc has)."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    trim.argtypes = (ctypes.c_size_t,)
    return lambda: trim(0)


async def give_memory_back(clock: Clock, trim: Callable[[], object] | None) -> None:
    """Return free memory periodically, until cancelled.

    Tables that have grown leave gaps of their former sizes, in an area of memory for each thread, and the C library
    keeps them. Returning them takes a few milliseconds, in a thread, which blocks only threads that allocate memory.

    Args:
        clock: for the pauses.
        trim: the result of `trimming`; without it, nothing is done.
    """
    while trim is not None:
        await clock.sleep(TRIM_SECONDS)
        await asyncio.to_thread(trim)


def stopped_by_signals() -> asyncio.Event:
    """An event of the running loop that SIGTERM and Ctrl-C set."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def until(stop: asyncio.Event, work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines until told to stop, or until one fails; then its error is raised."""
    tasks = [asyncio.ensure_future(each) for each in work]
    stopping = asyncio.ensure_future(stop.wait())
    waiting = {*tasks, stopping}
    try:
        while not stopping.done() and waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
