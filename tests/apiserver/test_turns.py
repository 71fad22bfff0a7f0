"""Turns go round the users, and what holds up the loop leaves time for everything else."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import pairwise
from typing import Any

import pytest

from kilauea.apiserver import turns as turns_of_requests
from kilauea.apiserver.request import GROUP_MASTERS, ApiResponse, User, make_request
from kilauea.apiserver.turns import FIRST, LOOK, LoopTurns, TimeSlice, TooManyOfUser, Turns
from support.api_core import MAPS, Api


def test_a_user_with_many_requests_does_not_keep_another_waiting() -> None:
    async def run() -> list[str]:
        turns, order = Turns(), list[str]()

        async def work(user: str) -> None:
            await turns.take(user)
            order.append(user)
            await asyncio.sleep(0)
            turns.give_back(user)

        await asyncio.gather(*[work(user) for user in ["a"] * 5 + ["b", "c"] + ["a"]])
        return order

    assert asyncio.run(run()) == ["a", "a", "b", "c", "a", "a", "a", "a"]


def test_one_user_takes_not_all_places() -> None:
    async def run() -> tuple[int, bool]:
        turns, most, ready = Turns(places=2, of_user=1), 0, False
        at_work = 0

        async def work() -> None:
            nonlocal most, at_work
            await turns.take("a")
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0)
            at_work -= 1
            turns.give_back("a")

        tasks = [asyncio.create_task(work()) for _ in range(5)]
        await asyncio.sleep(0)
        async with asyncio.timeout(0):
            await turns.take("b")
            ready = True
        await asyncio.gather(*tasks)
        return most, ready

    assert asyncio.run(run()) == (1, True)


def test_only_so_many_requests_of_a_user_wait() -> None:
    async def run() -> list[type]:
        turns = Turns(most_waiting=1)
        await turns.take("a")
        waiting = asyncio.create_task(turns.take("a"))
        await asyncio.sleep(0)
        with pytest.raises(TooManyOfUser):
            await turns.take("a")
        other = asyncio.create_task(turns.take("b"))
        await asyncio.sleep(0)
        for user in ("a", "a", "b"):
            turns.give_back(user)
            await asyncio.sleep(0)
        return [type(task.exception()) for task in (waiting, other)]

    assert asyncio.run(run()) == [type(None), type(None)]


def test_a_request_that_ends_while_it_waits_takes_no_turn() -> None:
    async def run() -> bool:
        turns = Turns()
        await turns.take("a")
        ended, waiting = asyncio.create_task(turns.take("a")), asyncio.create_task(turns.take("b"))
        late = asyncio.create_task(turns.take("c"))
        await asyncio.sleep(0)
        ended.cancel()
        await asyncio.sleep(0)
        turns.give_back("a")
        waiting.cancel()  # its turn has come already
        await asyncio.gather(ended, waiting, return_exceptions=True)
        await asyncio.sleep(0)
        return late.done()

    assert asyncio.run(run())


def test_others_run_between_two_that_hold_up_the_loop() -> None:
    step, count = 0.02, 6

    async def run() -> float:
        turns, longest, last, over = LoopTurns(), 0.0, time.thread_time(), False

        async def hold_up() -> None:
            await turns.take("a")
            end = time.thread_time() + step
            while time.thread_time() < end:
                pass

        async def look() -> None:
            nonlocal longest, last
            while not over:
                now = time.thread_time()
                longest, last = max(longest, now - last), now
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        await asyncio.gather(*[hold_up() for _ in range(count)])
        over = True
        await looking
        return longest

    assert asyncio.run(run()) < 2.5 * step


@pytest.mark.parametrize("verb", ["POST", "PATCH"])
def test_large_writes_of_one_user_are_not_done_at_one_go(api: Api, verb: str) -> None:
    """A small change of a large object is as much work as the object."""
    keys = {f"k{number}": "v" for number in range(6_000)}
    api.good("POST", MAPS, {"metadata": {"name": "large"}, "data": keys})
    users = [User(name, groups=(GROUP_MASTERS,)) for name in ("many", "one")]

    async def write(user: User, number: int) -> str:
        body: dict[str, Any] = {"metadata": {"name": f"{user.name}-{number}"}, "data": keys}
        path, headers = MAPS, dict[str, str]()
        if verb == "PATCH":
            body = {"metadata": {"annotations": {user.name: str(number)}}}
            path, headers = f"{MAPS}/large", {"content-type": "application/merge-patch+json"}
        answer = await api.server.handle(make_request(verb, path, headers, json.dumps(body).encode(), user))
        assert isinstance(answer, ApiResponse)
        assert answer.status in (200, 201)
        order.append(user.name)
        return user.name

    order: list[str] = []
    many = [write(users[0], number) for number in range(6)]

    async def run() -> None:
        await asyncio.gather(*many, write(users[1], 0))

    api.run(run())
    assert order.index("one") < 4


def test_rounds_of_the_loop_lie_between_two_steps() -> None:
    rounds, waiting = 3, 4

    async def run() -> list[int]:
        turns, now, steps = LoopTurns(rounds), 0, list[int]()

        async def work() -> None:
            await turns.pause("a")
            steps.append(now)

        working = asyncio.gather(*[work() for _ in range(waiting)])
        while not working.done():
            await asyncio.sleep(0)
            now += 1
        return steps

    steps = asyncio.run(run())
    assert len(steps) == waiting
    assert all(later - earlier >= rounds for earlier, later in pairwise(steps))


def test_a_slice_reads_the_clock_once_per_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, now = 0, 0.0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return now

    monkeypatch.setattr(turns_of_requests, "thread_time", clock)

    async def pause() -> None:
        await asyncio.sleep(0)

    async def run() -> None:
        nonlocal looks, now
        time_slice = TimeSlice(pause, 1.0)
        assert not any(time_slice.is_over(100) for _ in range(LOOK // 1024 - 1))
        assert looks == 0  # small work does not read it at all
        assert not time_slice.is_over(LOOK)
        now = FIRST  # the first slice is short
        assert time_slice.is_over(LOOK)
        await time_slice.renew()
        looks = 0
        assert not any(time_slice.is_over(LOOK // 4) for _ in range(8))
        assert looks == 2
        now += 1.0
        assert [time_slice.is_over(LOOK // 4) for _ in range(4)] == [False, False, False, True]

    asyncio.run(run())
