"""Processes that work until they are told to stop: when they collect garbage, and when they give memory back."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import pytest

from kilauea.runtime.clock import SystemClock
from kilauea.runtime.tasks import TRIM_SECONDS, YOUNG_OBJECTS, collect_seldom_after, give_memory_back, trimming


def test_cycles_are_looked_for_seldom_once_everything_was_read() -> None:
    thresholds = gc.get_threshold()

    async def test() -> None:
        read = asyncio.Event()
        waiting = asyncio.create_task(collect_seldom_after(read.wait()))
        await asyncio.sleep(0)
        assert gc.get_threshold() == thresholds
        read.set()
        await waiting
        assert gc.get_threshold()[0] == YOUNG_OBJECTS
        assert gc.get_freeze_count() > 0

    try:
        asyncio.run(test())
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


def test_gaps_between_what_is_in_use_are_given_back() -> None:
    trim = trimming()
    if trim is None:
        pytest.skip("the C library of this system cannot give memory back")
    blocks: list[bytes | None] = [bytes(100_000) for _ in range(1000)]
    blocks = [each if number % 10 == 0 else None for number, each in enumerate(blocks)]
    before = resident()
    trim()
    assert before - resident() > 40_000_000  # of 90 million bytes
    assert sum(each is not None for each in blocks) == 100


def test_memory_is_given_back_time_and_again() -> None:
    slept: list[float] = []
    trimmed: list[int] = []

    class Pauses(SystemClock):
        async def sleep(self, seconds: float) -> None:
            if len(slept) == 3:
                raise asyncio.CancelledError
            slept.append(seconds)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(give_memory_back(Pauses(), lambda: trimmed.append(len(slept))))
    assert (slept, trimmed) == ([TRIM_SECONDS] * 3, [1, 2, 3])
    asyncio.run(give_memory_back(Pauses(), None))  # returns, as there is nothing to do


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
