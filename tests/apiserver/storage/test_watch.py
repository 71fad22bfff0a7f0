"""Watches of one store, step by step; test_model.py has their guarantees."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kilauea.apiserver.storage import Event, Expired, Retention, Store, Watcher
from kilauea.apiserver.storage.history import RENEWALS

PODS = "/core/pods/"
Scenario = Callable[[Store], Awaitable[None]]


def run(scenario: Scenario, retention: Retention | None = None) -> None:
    async def body() -> None:
        store = await Store.open(None, retention=retention)
        async with asyncio.timeout(30):
            await scenario(store)
        await store.close()

    asyncio.run(body())


async def put(store: Store, *keys: str) -> None:
    for key in keys:
        await store.write(key, None, lambda revision: str(revision).encode())


async def waits(task: asyncio.Task[list[Event]]) -> bool:
    for _ in range(5):
        await asyncio.sleep(0)
    return not task.done()


def short(events: list[Event]) -> list[tuple[str, str, bytes, bytes | None, int]]:
    return [(event.kind, event.key, event.value, event.previous, event.revision) for event in events]


def test_events_tell_what_is_there_and_what_was_there_before() -> None:
    async def scenario(store: Store) -> None:
        await put(store, "/core/pods/x/a", "/core/pods/x/a")
        await store.write("/core/pods/x/a", 2, None)
        batch = await anext(store.watch(PODS, 0))
        assert short(batch) == [
            ("added", "/core/pods/x/a", b"1", None, 1),
            ("modified", "/core/pods/x/a", b"2", b"1", 2),
            ("deleted", "/core/pods/x/a", b"2", b"2", 3),
        ]

    run(scenario)


def test_what_was_written_in_one_turn_of_the_loop_comes_as_one_batch() -> None:
    async def scenario(store: Store) -> None:
        watcher = store.watch(PODS, 0)
        task = asyncio.ensure_future(anext(watcher))
        assert await waits(task)
        await put(store, *[f"/core/pods/x/{i}" for i in range(50)])
        assert [event.revision for event in await task] == list(range(1, 51))

    run(scenario)


@pytest.mark.parametrize(
    ("prefix", "revisions"),
    [
        ("/core/pods/", [1, 2, 3, 4]),
        ("/core/pods/x/", [1, 2, 4]),
        ("/core/pods/x/a", [1, 4]),
        ("/core/pods/y/", [3]),
        ("/core/nodes/", [5]),
        ("/core/nodes/a", [5]),
    ],
)
def test_a_watcher_gets_what_lies_under_its_prefix_whether_it_waits_or_resumes(
    prefix: str, revisions: list[int]
) -> None:
    async def scenario(store: Store) -> None:
        early = store.watch(prefix, 0)
        task = asyncio.ensure_future(anext(early))
        assert await waits(task)
        await put(store, "/core/pods/x/a", "/core/pods/x/ab", "/core/pods/y/a", "/core/pods/x/a", "/core/nodes/a")
        assert [event.revision for event in await task] == revisions
        assert [event.revision for event in await anext(store.watch(prefix, 0))] == revisions
        late = asyncio.ensure_future(anext(store.watch(prefix, revisions[-1])))
        assert await waits(late)
        late.cancel()

    run(scenario)


def test_writes_elsewhere_do_not_wake_a_watcher() -> None:
    async def scenario(store: Store) -> None:
        task = asyncio.ensure_future(anext(store.watch("/core/pods/x/a", 0)))
        assert await waits(task)
        await put(store, "/core/pods/y/a", "/core/pods/x/b", "/core/nodes/a", "/apps/pods/x/a")
        assert await waits(task)
        task.cancel()

    run(scenario)


def test_a_cancelled_wait_loses_nothing() -> None:
    async def scenario(store: Store) -> None:
        watcher = store.watch(PODS, 0)
        for cancel_after_the_write in (False, True):
            task = asyncio.ensure_future(anext(watcher))
            assert await waits(task)
            if not cancel_after_the_write:
                task.cancel()
            await put(store, "/core/pods/x/a")
            task.cancel()  # if the write came first, the task has been woken, but has not run yet
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [event.revision for event in await anext(watcher)] == [store.revision]

    run(scenario)


def test_an_interrupted_watcher_returns_an_empty_batch_and_loses_nothing() -> None:
    async def scenario(store: Store) -> None:
        watcher = store.watch("/core/pods/x/", 0)
        task = asyncio.ensure_future(anext(watcher))
        assert await waits(task)
        await put(store, "/core/pods/y/a", "/core/nodes/a")
        watcher.interrupt()
        assert await task == []
        assert watcher.revision == 2  # everything up to there was for others
        watcher.interrupt()  # while it does not wait
        await put(store, "/core/pods/x/a")
        assert await anext(watcher) == []
        assert watcher.revision == 2
        assert [event.revision for event in await anext(watcher)] == [3]
        task = asyncio.ensure_future(anext(watcher))
        assert await waits(task)
        await put(store, "/core/pods/x/a")  # wakes it, and it has not run yet
        watcher.interrupt()
        assert await task == []
        assert [event.revision for event in await anext(watcher)] == [4]

    run(scenario)


def test_a_watcher_that_always_has_events_can_be_interrupted() -> None:
    async def scenario(store: Store) -> None:
        watcher = store.watch(PODS, 0)
        await put(store, "/core/pods/x/a")
        watcher.interrupt()
        assert await anext(watcher) == []
        assert [event.revision for event in await anext(watcher)] == [1]

    run(scenario)


def test_a_watcher_tells_how_far_it_has_come_also_when_nothing_was_for_it() -> None:
    async def scenario(store: Store) -> None:
        watcher = store.watch("/core/pods/x/", 0)
        task = asyncio.ensure_future(anext(watcher))
        assert await waits(task)
        await put(store, "/core/pods/y/a", "/core/nodes/a")
        assert watcher.revision == 2
        await put(store, "/core/pods/x/a")
        assert watcher.revision == 2  # written, but not handed out
        await task
        assert watcher.revision == 3

    run(scenario)


def test_a_watcher_that_waits_does_not_expire_however_much_happens_elsewhere() -> None:
    async def scenario(store: Store) -> None:
        watcher = store.watch("/core/pods/x/", 0)
        tasks = []
        for cancel in (True, False):
            tasks.append(asyncio.ensure_future(anext(watcher)))
            assert await waits(tasks[-1])
            await put(store, *["/core/pods/y/a"] * 1000)
            if cancel:
                tasks[-1].cancel()
                await asyncio.wait([tasks[-1]])
        await put(store, "/core/pods/x/a")
        assert [event.revision for event in await tasks[-1]] == [2001]

    run(scenario, Retention(seconds=-1, revisions=10))


@pytest.mark.parametrize("retention", [Retention(seconds=-1, revisions=10), Retention(size=20_000)])
def test_a_watcher_that_is_too_slow_is_told_so(retention: Retention) -> None:
    async def scenario(store: Store) -> None:
        watcher = store.watch(PODS, 0)
        await put(store, "/core/pods/x/a")
        assert len(await anext(watcher)) == 1
        await put(store, *["/core/pods/x/a"] * 1000)
        with pytest.raises(Expired):
            await anext(watcher)
        with pytest.raises(Expired):
            store.watch(PODS, 1)
        with pytest.raises(Expired):
            store.watch("/core/pods/x/a", 1)

    run(scenario, retention)


def test_busy_resources_leave_the_history_of_quiet_ones_to_their_watchers() -> None:
    async def scenario(store: Store) -> None:
        await put(store, "/core/nodes/a")
        await put(store, *["/core/pods/x/a"] * 1000)
        assert store.watch("/core/nodes/", 1).revision == 1
        assert [stored.revision for stored in store.list("/core/nodes/", at_revision=1).items] == [1]
        with pytest.raises(Expired):
            store.watch("/core/nodes/", 0)

    run(scenario, Retention(seconds=-1, revisions=10))


def test_a_long_way_back_comes_in_several_batches_and_gives_way_to_others() -> None:
    async def scenario(store: Store) -> None:
        await put(store, *["/core/pods/x/a"] * 3500)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        task = asyncio.create_task(other())
        watcher = store.watch(PODS, 0)
        seen: list[int] = []
        while len(seen) < 3500:
            seen += [event.revision for event in await anext(watcher)]
        assert seen == list(range(1, 3501))
        assert turns >= 2
        task.cancel()

    run(scenario)


@pytest.mark.parametrize("close", [lambda store, watcher: watcher.close(), lambda store, watcher: store.close()])
def test_closing_ends_the_iteration(close: Callable[[Store, Watcher], Awaitable[None] | None]) -> None:
    async def scenario(store: Store) -> None:
        watcher = store.watch(PODS, 0)

        async def consume() -> int:
            return sum([len(batch) async for batch in watcher])

        task = asyncio.create_task(consume())
        await put(store, "/core/pods/x/a")
        for _ in range(5):
            await asyncio.sleep(0)
        done = close(store, watcher)
        if done is not None:
            await done
        assert await task == 1
        watcher.close()

    run(scenario)


def test_a_watch_of_a_closed_store_is_at_its_end() -> None:
    async def scenario(store: Store) -> None:
        await put(store, "/core/pods/x/a")
        await store.close()
        assert [batch async for batch in store.watch(PODS, 0)] == []

    run(scenario)


def test_only_the_newest_renewals_of_leases_are_kept() -> None:
    async def scenario(store: Store) -> None:
        await put(store, "/core/pods/x/a", *["/coordination.k8s.io/leases/kube-node-lease/a"] * (RENEWALS + 1))
        newest, leases = store.revision, "/coordination.k8s.io/leases/"
        with pytest.raises(Expired):
            store.watch(leases, 1)
        recent = store.watch(leases, newest - RENEWALS // 2)
        assert (await anext(recent))[0].revision == newest - RENEWALS // 2 + 1
        assert [event.revision for event in await anext(store.watch(PODS, 0))] == [1]

    run(scenario, Retention(seconds=1e9))


def test_leases_leave_the_history_with_everything_else() -> None:
    async def scenario(store: Store) -> None:
        await put(store, "/coordination.k8s.io/leases/kube-node-lease/a", *["/core/pods/x/a"] * 1000)
        with pytest.raises(Expired):
            store.watch("/coordination.k8s.io/leases/", 0)

    run(scenario, Retention(seconds=-1, revisions=10))
