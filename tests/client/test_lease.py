"""Leader election: never two leaders at a time, and always one in the end."""

from __future__ import annotations

import asyncio
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.conftest import Play, Scene
from kilauea.api.kinds import LEASES
from kilauea.api.ports import Key
from kilauea.client.lease import Election, LeaseLost, Terms
from kilauea.client.rest import Client
from kilauea.runtime.cluster.direct import DirectTransport
from support.faults import FaultyTransport
from support.virtual_api import World, virtual_api

KEY = Key("default", "volcano")


class Candidate:
    """A process that stands for election again and again, with a network of its own."""

    def __init__(self, world: World, name: str, leading: list[str], rate: float = 0.0) -> None:
        self.world, self.name, self.leading = world, name, leading
        self.wire = FaultyTransport(DirectTransport(world.server, name), Random(name), rate)
        self.terms = 0
        self.election = Election(Client(self.wire), world.clock, Random(name), KEY, name)

    async def work(self) -> None:
        """Lead, and be alone in that."""
        self.leading.append(self.name)
        self.terms += 1
        assert self.leading == [self.name], "two lead at a time"
        try:
            await asyncio.sleep(1e9)
        finally:
            self.leading.remove(self.name)

    async def stand(self) -> None:
        """Stand for election, whatever comes of it."""
        while True:
            try:
                await self.election.lead(self.work)
            except LeaseLost:
                await asyncio.sleep(1)


async def lease_of(world: World) -> dict[str, object]:
    return dict((await world.calm.get(LEASES, KEY))["spec"])


@pytest.mark.slow
@given(seed=st.integers(0, 2**32), rate=st.sampled_from([0.1, 0.5, 0.9]))
def test_never_two_lead_and_in_the_end_one_does(seed: int, rate: float) -> None:
    with virtual_api(seed) as world:

        async def test() -> None:
            leading: list[str] = []
            candidates = [Candidate(world, name, leading, rate) for name in ("red", "green", "blue")]
            tasks = world.start(*(candidate.stand() for candidate in candidates))
            for _ in range(60):
                chosen = world.rng.choice(candidates)
                chosen.wire.rate = world.rng.choice((0.0, rate, 1.0))
                await asyncio.sleep(world.rng.choice((1, 5, 30)))
                for task in tasks:
                    assert not task.done(), task.exception()
            for candidate in candidates:
                candidate.wire.rate = 0
            await asyncio.sleep(60)
            assert len(leading) == 1
            assert (await lease_of(world))["holderIdentity"] == leading[0]

        world.run(test())


def test_who_is_cut_off_stops_before_another_begins() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            leading: list[str] = []
            red, blue = Candidate(world, "red", leading), Candidate(world, "blue", leading)
            world.start(red.stand())
            await asyncio.sleep(5)
            world.start(blue.stand())
            await asyncio.sleep(100)
            assert (leading, red.terms, blue.terms) == (["red"], 1, 0)
            red.wire.rate = 1
            await asyncio.sleep(30)
            assert leading == ["blue"]
            assert (await lease_of(world))["leaseTransitions"] == 1

        world.run(test())


@pytest.mark.parametrize("fault", ["killed", "cut off"])
@pytest.mark.parametrize("seconds", [30.0, 30.7, 31.3, 31.9])
def test_another_leads_within_twenty_seconds(fault: str, seconds: float) -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            leading: list[str] = []
            first, second = (Candidate(world, name, leading) for name in ("red", "green"))
            (task,) = world.start(first.stand())
            await asyncio.sleep(1)
            world.start(second.stand())
            await asyncio.sleep(seconds)
            assert leading == ["red"]
            first.wire.cut = True
            if fault == "killed":
                task.cancel()
            await asyncio.sleep(20)
            assert leading == ["green"]

        world.run(test())


def test_the_lease_is_given_back_at_the_end_of_the_work() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            leading: list[str] = []
            red, blue = Candidate(world, "red", leading), Candidate(world, "blue", leading)
            (task,) = world.start(red.stand())
            await asyncio.sleep(5)
            world.start(blue.stand())
            await asyncio.sleep(5)
            task.cancel()
            await asyncio.sleep(3)
            assert leading == ["blue"]

        world.run(test())


def test_who_is_cut_off_ends_although_its_work_waits_for_answers_that_do_not_come() -> None:
    with virtual_api(1) as world:

        async def work() -> None:
            try:
                await asyncio.sleep(1e9)
            finally:
                await asyncio.sleep(60)  # for which a request may wait for its answer

        async def test() -> None:
            red = Candidate(world, "red", [])
            leading = asyncio.ensure_future(red.election.lead(work))
            await asyncio.sleep(5)
            red.wire.cut = True
            await asyncio.wait({leading}, timeout=16)
            with pytest.raises(LeaseLost):
                leading.result()

        world.run(test())


def test_a_lease_that_never_was_renewed_is_taken_only_after_it_was_watched_for_its_time() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            past = "2001-01-01T00:00:00.000000Z"
            spec = {"holderIdentity": "gone", "leaseDurationSeconds": 40, "renewTime": past, "acquireTime": past}
            metadata = {"namespace": KEY.namespace, "name": KEY.name}
            await world.calm.create(LEASES, KEY.namespace, {"metadata": metadata, "spec": spec})
            leading: list[str] = []
            world.start(Candidate(world, "red", leading).stand())
            await asyncio.sleep(39)
            assert leading == []
            await asyncio.sleep(6)
            assert leading == ["red"]

        world.run(test())


def test_the_work_ends_the_election_with_its_own_error() -> None:
    async def work() -> None:
        raise ValueError("the work fails")

    with virtual_api(1) as world:

        async def test() -> None:
            with pytest.raises(ValueError, match="the work fails"):
                await Candidate(world, "red", []).election.lead(work)
            assert (await lease_of(world))["holderIdentity"] == ""

        world.run(test())


@pytest.mark.parametrize(("lease", "renew", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 0), (5, 10, 2)])
def test_terms_that_let_two_lead_are_refused(lease: float, renew: float, retry: float) -> None:
    with pytest.raises(ValueError, match="each must be longer than the next"):
        Terms(lease, renew, retry)


def test_a_lease_has_the_form_that_servers_take(play: Play) -> None:
    async def test(scene: Scene) -> None:
        key = Key(scene.namespace, "volcano")
        terms = Terms(3, 2, 0.1)
        election = Election(scene.client, scene.clock, scene.rng, key, "host_1", terms)
        working = asyncio.Event()

        async def work() -> None:
            working.set()
            await asyncio.sleep(0.5)

        leading = asyncio.create_task(election.lead(work))
        await working.wait()
        first = (await scene.client.get(LEASES, key))["spec"]
        await leading
        last = (await scene.client.get(LEASES, key))["spec"]
        assert (first["holderIdentity"], first["leaseDurationSeconds"], first["leaseTransitions"]) == ("host_1", 3, 0)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first["renewTime"])
        assert first["acquireTime"] <= first["renewTime"] < last["renewTime"]
        assert last["holderIdentity"] == ""

    play(test)
