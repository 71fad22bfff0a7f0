"""Work that goes on side by side until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

TURN_SECONDS = 0.0005
"""After which a thread lets the others have their turn, so that neither cycles nor writes hold anybody up."""


def take_short_turns() -> None:
    """Share the interpreter among the threads of this process in short turns."""
    sys.setswitchinterval(TURN_SECONDS)


def stopped_by_signals() -> asyncio.Event:
    """An event of the running loop that SIGTERM and Ctrl-C set."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def until(stop: asyncio.Event, work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Work until told to stop, or until some of the work fails, with its error then."""
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
