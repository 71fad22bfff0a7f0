"""Moments and queues of the driver: the earliest first, the latest word counts, keys once."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.ports import Key
from kilauea.runtime.timers import Timers
from kilauea.runtime.work_queue import WorkQueue
from virtual_time import LoopClock, virtual_loop

STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["set", "bring forward", "cancel"]), st.integers(0, 9)),
    max_size=30,
)


@given(steps=STEPS)
def test_each_name_is_called_once_at_the_moment_that_was_said_last(steps: list[tuple[str, str, int]]) -> None:
    called: list[tuple[str, int]] = []
    expected: list[tuple[str, int]] = []
    moments: dict[str, int] = {}
    with virtual_loop() as loop:

        async def test() -> None:
            timers: Timers[str] = Timers(LoopClock(loop), lambda name: called.append((name, round(loop.time()))))
            running = asyncio.create_task(timers.run())
            for second, (name, what, seconds) in enumerate(steps):
                await asyncio.sleep(0.5)
                expected.extend(sorted((n, at) for n, at in moments.items() if at <= second))
                for due in [n for n, at in moments.items() if at <= second]:
                    del moments[due]
                at = second + 1 + seconds
                if what == "cancel":
                    timers.cancel(name)
                    moments.pop(name, None)
                elif what == "set" or moments.get(name, at + 1) > at:
                    moments[name] = at
                if what == "set":
                    timers.set(name, seconds + 0.5)
                elif what == "bring forward":
                    timers.bring_forward(name, seconds + 0.5)
                await asyncio.sleep(0.5)
            await asyncio.sleep(20)
            expected.extend(moments.items())
            assert len(timers) == 0
            running.cancel()

        loop.run_until_complete(test())
    assert sorted(called) == sorted(expected)
    assert [at for _, at in called] == sorted(at for _, at in called)


def test_a_key_is_worked_on_once_more_if_it_comes_again_meanwhile_and_never_by_two() -> None:
    with virtual_loop() as loop:

        async def test() -> None:
            queue, busy, done = WorkQueue(), set[Key](), list[str]()

            async def work() -> None:
                while True:
                    key = await queue.take()
                    assert key not in busy
                    busy.add(key)
                    await asyncio.sleep(1)
                    busy.remove(key)
                    done.append(key.name)
                    queue.done(key)

            workers = [asyncio.create_task(work()) for _ in range(3)]
            for name in "aabac":
                queue.add(Key("", name))
            await asyncio.sleep(0.5)
            for name in "aaab":
                queue.add(Key("", name))
            assert len(queue) == 3
            await asyncio.sleep(10)
            assert (sorted(done[:3]), sorted(done[3:])) == (["a", "b", "c"], ["a", "b"])
            assert len(queue) == 0
            for worker in workers:
                assert not worker.done()
                worker.cancel()

        loop.run_until_complete(test())


def test_keys_are_taken_in_the_order_in_which_they_came() -> None:
    with virtual_loop() as loop:

        async def test() -> list[str]:
            queue = WorkQueue()
            for name in "cabca":
                queue.add(Key("", name))
            return [(await queue.take()).name for _ in range(3)]

        assert loop.run_until_complete(test()) == ["c", "a", "b"]
