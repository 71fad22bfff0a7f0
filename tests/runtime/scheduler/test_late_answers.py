"""Writes of the scheduler that arrive, or are answered, when the object is another by then, or gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from kilauea.client.transport import Answer
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.inputs.resources import GROUPS_OF_PODS
from support.live_world import Live, live_world
from support.virtual_api import World


class Slow:
    """A way to the server on which writes of pod groups take their time, there and back."""

    def __init__(self, world: World, there: float = 0.0, back: float = 0.0) -> None:
        self._inner = DirectTransport(world.server, "scheduler")
        self.there, self.back = there, back

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        slow = method == "PATCH" and "/podgroups/" in target
        await asyncio.sleep(self.there if slow else 0)
        answer = await self._inner.request(method, target, headers, body)
        await asyncio.sleep(self.back if slow else 0)
        return answer

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._inner.stream(target, headers)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        await self._inner.close()


def phase(live: Live, name: str) -> str:
    return str((live.get(GROUPS_OF_PODS, name).get("status") or {}).get("phase"))


def test_an_answer_that_comes_after_the_end_of_a_group_does_not_bring_it_back() -> None:
    with live_world(transport=lambda world: Slow(world, back=5.0)) as live:
        live.node("n1")
        live.start()
        live.group("g", 1, pods=0)
        live.wait(2)
        assert phase(live, "g") == "Inqueue"
        live.delete(GROUPS_OF_PODS, "g")
        live.wait(30)
        feed = live.scheduler.feed
        assert ("default/g" in feed.state.jobs, "default/g" in feed.groups, feed.assumed.phases) == (False, False, {})


def test_what_was_decided_about_a_group_is_not_written_on_its_successor() -> None:
    with live_world(transport=lambda world: Slow(world, there=5.0)) as live:
        live.node("n1")
        live.queue("narrow", capability={"cpu": "1"})
        live.start()
        live.group("g", 1, pods=0)
        live.wait(2)
        live.delete(GROUPS_OF_PODS, "g")
        live.group("g", 4, pods=0, queue="narrow", minResources={"cpu": "4"})
        seen = []
        for _ in range(30):
            live.wait(1)
            seen.append(phase(live, "g"))
        assert "Inqueue" not in seen
        assert seen[-1] == "Pending"
