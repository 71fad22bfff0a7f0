"""Clients that open watches and read nothing: the other watches of their tenant wait, so that memory is limited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import pytest

from kilauea.apiserver.request import GROUP_MASTERS, Frame, User, WatchStream, make_request
from kilauea.apiserver.unsent import SMALL_SHARE, Unsent
from support.api_core import ADMIN, MAPS, Api

OTHER = User("other", groups=(GROUP_MASTERS,))


async def opened(api: Api, user: User, query: str = "") -> AsyncIterator[Sequence[Frame]]:
    """The batches of a watch."""
    answer = await api.server.handle(make_request("GET", f"{MAPS}?watch=true{query}", {}, user=user))
    assert isinstance(answer, WatchStream)
    return answer.batches


async def is_waiting(task: asyncio.Task[Sequence[Frame]]) -> bool:
    for _ in range(10):
        await asyncio.sleep(0)
    return not task.done()


@pytest.mark.parametrize("begins", ["with the objects", "with the next event"])
def test_watches_wait_while_their_tenant_reads_too_little(api: Api, begins: str) -> None:
    api.backend.unsent = Unsent(most_of_tenant=1500)
    for name in "abcd":
        api.create_map(name, x="x" * 1000)
    query = "" if begins == "with the objects" else f"&resourceVersion={api.backend.store.revision}"

    async def test() -> None:
        unread, own, other = [await opened(api, user, query) for user in (ADMIN, ADMIN, OTHER)]
        async with aclosing(unread), aclosing(own), aclosing(other):  # type: ignore[type-var]
            reads = [asyncio.ensure_future(anext(each)) for each in (unread, own, other)]
            await asyncio.sleep(0)
            if query:
                await api.server.handle(
                    make_request("PATCH", f"{MAPS}/a", {"content-type": "application/merge-patch+json"},
                                 b'{"data": {"y": "%b"}}' % (b"y" * 2000), user=OTHER)
                )  # fmt: skip
            first = await reads[0]
            assert sum(len(frame.object) for frame in first) > 1500
            assert await is_waiting(reads[1]), "the tenant has too much unread"
            assert await reads[2] == first, "that of another tenant does not wait"
            following = asyncio.ensure_future(anext(unread))  # the client has read
            assert await reads[1] == first
            following.cancel()
            await asyncio.wait([following])

    api.run(test())


def test_a_watch_that_ends_makes_room(api: Api) -> None:
    api.backend.unsent = Unsent(most_of_tenant=1500)
    api.create_map("a", x="x" * 2000)

    async def test() -> None:
        unread, own, third = [await opened(api, ADMIN) for _ in range(3)]
        await anext(unread)
        given_up, waits = asyncio.ensure_future(anext(own)), asyncio.ensure_future(anext(third))
        assert await is_waiting(given_up)
        given_up.cancel()
        assert await is_waiting(waits)
        await unread.aclose()  # type: ignore[attr-defined]
        assert len(await waits) == 1
        await third.aclose()  # type: ignore[attr-defined]
        assert not api.backend.unsent.is_full("admin")

    api.run(test())


def test_a_tenant_with_little_unread_does_not_wait_for_others() -> None:
    unsent = Unsent(most=SMALL_SHARE, most_of_tenant=10 * SMALL_SHARE)
    with unsent.sending("one", SMALL_SHARE + 1):
        assert unsent.is_full("one")
        assert not unsent.is_full("two")
        with unsent.sending("two", SMALL_SHARE):
            assert unsent.is_full("two")
    assert not unsent.is_full("one")


def test_watches_that_wait_continue_in_their_order() -> None:
    unsent = Unsent(most_of_tenant=10)
    done: list[int] = []

    async def watch(number: int) -> None:
        await unsent.room("one")
        with unsent.sending("one", 10):
            done.append(number)
            await asyncio.sleep(1)

    async def test() -> None:
        watches = [asyncio.ensure_future(watch(number)) for number in range(6)]
        await asyncio.sleep(0.01)
        assert done == [0]
        watches[2].cancel()
        watches[0].cancel()
        await asyncio.sleep(0.01)
        assert done == [0, 1]
        for each in watches[1:]:
            await asyncio.sleep(0.01)
            each.cancel()
        await asyncio.sleep(0.01)

    asyncio.run(test())
    assert done[:4] == [0, 1, 3, 4]
