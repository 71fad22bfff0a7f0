"""Worker processes for what takes long: the loop goes on meanwhile, and nothing takes longer than it may."""

from __future__ import annotations

import asyncio
import signal
import time

import msgspec
import pytest

from kilauea.apiserver.heavy import TooHeavy, TooManyWaiting
from kilauea.apiserver.turns import CALLER
from kilauea.runtime.cluster import workers as workers_module
from kilauea.runtime.cluster.workers import Workers

LONG = b"- a\n" * 400_000


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.subprocess.Process]:
    """The workers that are started during the test."""
    found: list[asyncio.subprocess.Process] = []
    start = workers_module._start

    async def noted() -> asyncio.subprocess.Process:
        found.append(await start())
        return found[-1]

    monkeypatch.setattr(workers_module, "_start", noted)
    return found


def test_the_loop_goes_on_while_a_large_text_is_read() -> None:
    async def run() -> tuple[float, int]:
        workers = Workers()
        reading = asyncio.create_task(workers.run("parse yaml", b"---\n" * 100_000 + LONG[:400_000]))
        longest, start = 0.0, time.thread_time()
        while not reading.done():
            await asyncio.sleep(0.001)
            longest, start = max(longest, time.thread_time() - start), time.thread_time()
        size = len(msgspec.json.decode(await reading)["value"])
        await workers.close()
        return longest, size

    longest, size = asyncio.run(run())
    assert size == 100_000
    assert longest < 0.1  # seconds of processor time in which the loop did nothing else: reading takes over a second


def test_a_task_that_takes_too_long_ends_and_the_next_one_is_done() -> None:
    async def run() -> bytes:
        workers = Workers(seconds=1.0)
        with pytest.raises(TooHeavy, match=r"more than 1 seconds of processor time or too much memory to parse yaml"):
            await workers.run("parse yaml", LONG * 4)
        done = await workers.run("write yaml", b'{"b":1,"a":[true]}')
        await workers.close()
        return done

    assert asyncio.run(run()) == b"a:\n- true\nb: 1\n"


@pytest.mark.slow
def test_a_task_counts_its_processor_time_and_not_the_time_that_the_machine_has_for_it(
    started: list[asyncio.subprocess.Process],
) -> None:
    async def run() -> bytes:
        workers = Workers(seconds=0.5)
        doing = asyncio.create_task(workers.run("write yaml", b'{"a":1}'))
        while not started:
            await asyncio.sleep(0)
        started[0].send_signal(signal.SIGSTOP)
        await asyncio.sleep(1.5)
        started[0].send_signal(signal.SIGCONT)
        done = await doing
        await workers.close()
        return done

    assert asyncio.run(run()) == b"a: 1\n"


def test_a_worker_without_work_ends_and_another_one_does_the_next_task(
    started: list[asyncio.subprocess.Process],
) -> None:
    async def run() -> tuple[int, bytes]:
        workers = Workers(idle_seconds=0.0)
        await workers.run("write yaml", b'{"a":1}')
        await started[0].wait()
        done = await workers.run("write yaml", b'{"b":1}')
        await workers.close()
        return len(started), done

    assert asyncio.run(run()) == (2, b"b: 1\n")


def test_a_worker_takes_one_task_after_another(started: list[asyncio.subprocess.Process]) -> None:
    async def run() -> list[int | None]:
        workers = Workers(idle_seconds=3600.0)
        for _ in range(3):
            await workers.run("write yaml", b'{"a":1}')
        before = [each.returncode for each in started]
        await workers.close()
        return before + [each.returncode for each in started]

    assert asyncio.run(run()) == [None, -signal.SIGKILL]


def test_only_so_many_tasks_of_a_user_wait() -> None:
    async def run() -> list[object]:
        workers = Workers(most=1, most_waiting=2)
        tasks = [workers.run("parse yaml", b"a: 1") for _ in range(5)]
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        await workers.close()
        return [type(each) for each in answers]

    assert asyncio.run(run()) == [bytes, bytes, bytes, TooManyWaiting, TooManyWaiting]


@pytest.mark.slow
def test_a_user_with_much_work_leaves_a_worker_to_others() -> None:
    async def run() -> list[str]:
        workers, ended = Workers(), list[str]()

        async def work(user: str, body: bytes) -> None:
            CALLER.set(user)
            await workers.run("parse yaml", body)
            ended.append(user)

        many = [asyncio.create_task(work("many", b"a: [" + b"1, " * 100_000 + b"1]")) for _ in range(6)]
        await asyncio.sleep(0)
        await work("one", b"a: 1")
        await asyncio.gather(*many)
        await workers.close()
        return ended

    assert asyncio.run(run()).index("one") < 2
