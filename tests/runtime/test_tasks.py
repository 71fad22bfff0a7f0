"""Processes that work until they are told to stop: when they begin to collect seldom."""

from __future__ import annotations

import asyncio
import gc

from kilauea.runtime.tasks import YOUNG_OBJECTS, collect_seldom_after


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
