"""Events: equal ones are counted, similar ones combined, too many about one object left out, all written in time."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from client.conftest import MAPS, Play, Scene
from kilauea.api.kinds import EVENTS
from kilauea.api.ports import Obj, Record, key_of
from kilauea.client.limits import RateLimit
from kilauea.client.recording import BURST, COMBINED, REST, RUSH, TOGETHER, Recorder
from support.virtual_api import World, virtual_api

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default", "uid": "1-2"}}


def pod(name: str) -> Obj:
    return {**POD, "metadata": {"name": name, "namespace": "default", "uid": name}}


async def events(world: World) -> list[dict[str, Any]]:
    items = (await world.calm.list(EVENTS)).items
    return [msgspec.json.decode(item) for item in items]


def recorder_of(world: World, limit: RateLimit | None = None) -> Recorder:
    recorder = Recorder(world.client, world.clock, limit, instance="here")
    world.start(recorder.run())
    return recorder


def test_an_event_says_who_what_when_and_why() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            recorder_of(world).record("kubelet", Record(POD, "Normal", "Started", "Started container main"))
            await asyncio.sleep(1)
            (event,) = await events(world)
            about = {"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": "default", "uid": "1-2"}
            assert event["involvedObject"] == about
            assert (event["type"], event["reason"], event["message"]) == ("Normal", "Started", "Started container main")
            assert event["source"] == {"component": "kubelet"}
            assert (event["reportingComponent"], event["reportingInstance"]) == ("kubelet", "here")
            assert (event["count"], event["firstTimestamp"]) == (1, "2023-11-14T22:13:20Z")
            assert event["metadata"]["name"].startswith("web.")

        world.run(test())


def test_equal_events_are_one_with_a_count() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            recorder = recorder_of(world)
            for _ in range(5):
                recorder.record("kubelet", Record(POD, "Warning", "Failed", "no"))
                await asyncio.sleep(60)
            (event,) = await events(world)
            assert event["count"] == 5
            assert event["firstTimestamp"] == "2023-11-14T22:13:20Z"
            assert event["lastTimestamp"] == "2023-11-14T22:17:20Z"

        world.run(test())


def test_an_event_that_somebody_deleted_is_written_again() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            recorder = recorder_of(world)
            recorder.record("kubelet", Record(POD, "Warning", "Failed", "no"))
            await asyncio.sleep(1)
            (event,) = await events(world)
            await world.calm.delete(EVENTS, key_of(event))
            recorder.record("kubelet", Record(POD, "Warning", "Failed", "no"))
            await asyncio.sleep(1)
            assert [each["count"] for each in await events(world)] == [2]

        world.run(test())


def test_after_many_messages_for_one_reason_the_rest_is_combined() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            recorder = recorder_of(world)
            for number in range(14):
                recorder.record("kubelet", Record(POD, "Warning", "Failed", f"try {number}"))
                await asyncio.sleep(1)
            found = await events(world)
            assert len(found) == 11
            combined = [each for each in found if each["message"].startswith(COMBINED)]
            assert [(each["message"], each["count"]) for each in combined] == [(f"{COMBINED}try 13", 4)]

        world.run(test())


def test_too_many_events_about_one_object_are_left_out_and_others_are_not() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            recorder = recorder_of(world)
            for number in range(2 * BURST):
                recorder.record("kubelet", Record(POD, "Warning", f"Reason{number}", "x"))
            recorder.record("kubelet", Record(pod("other"), "Normal", "Fine", "x"))
            recorder.record("scheduler", Record(POD, "Normal", "Scheduled", "x"))
            await asyncio.sleep(1)
            reasons = [each["reason"] for each in await events(world)]
            assert len([each for each in reasons if each.startswith("Reason")]) == BURST
            assert {"Fine", "Scheduled"} <= set(reasons)
            await asyncio.sleep(700)
            recorder.record("kubelet", Record(POD, "Warning", "Later", "x"))
            await asyncio.sleep(1)
            assert "Later" in [each["reason"] for each in await events(world)]

        world.run(test())


def test_events_are_written_no_faster_than_the_limit() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            recorder = recorder_of(world, RateLimit(10, 5, world.clock))
            for number in range(100):
                recorder.record("kubelet", Record(pod(f"p{number}"), "Normal", "Started", "x"))
            await asyncio.sleep(0.01)
            assert (len(await events(world)), recorder.waiting) == (5, 95)
            await asyncio.sleep(4)
            assert len(await events(world)) in range(44, 47)
            await asyncio.sleep(10)
            assert len(await events(world)) == 100

        world.run(test())


@pytest.mark.slow
def test_in_a_rush_no_warning_and_nothing_about_groups_is_lost() -> None:
    """50,000 pods start, 50,000 wait and say why again and again, and no one writes for a while."""
    with virtual_api(1) as world:

        async def test() -> None:
            recorder = Recorder(world.client, world.clock)
            group = {"apiVersion": "v1beta1", "kind": "PodGroup", "metadata": {"name": "g", "namespace": "default"}}
            for number in range(50_000):
                recorder.record("scheduler", Record(pod(f"run{number}"), "Normal", "Scheduled", "x"))
            for turn in range(3):
                for number in range(50_000):
                    told = Record(pod(f"wait{number}"), "Warning", "FailedScheduling", f"turn {turn}")
                    recorder.record("scheduler", told)
            recorder.record("scheduler", Record(group, "Normal", "Scheduled", "pod group is ready"))
            assert recorder.waiting == 50_000 + 1 + REST
            assert recorder.dropped == (50_000 - REST) + 2 * 50_000

        world.run(test())


def test_the_start_of_ten_thousand_pods_loses_no_event_although_none_is_written_meanwhile() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            recorder = Recorder(world.client, world.clock)
            for number in range(10_000):
                told = Record(pod(f"run{number}"), "Normal", "Scheduled", f"Successfully assigned run{number}")
                recorder.record("scheduler", told)
            assert (recorder.waiting, recorder.dropped) == (10_000, 0)

        world.run(test())


@pytest.mark.slow
def test_pods_that_start_faster_than_events_are_written_a_few_at_a_time_lose_none() -> None:
    """A server with commits of 20 ms writes 8 at a time 400 a second; 1,000 pods start a second."""
    with virtual_api(1) as world:

        async def test() -> None:
            written = 0

            class Slow:
                async def create(self, resource: object, namespace: str, body: Obj) -> None:
                    nonlocal written
                    await world.clock.sleep(0.02)
                    written += 1

            recorder = Recorder(Slow(), world.clock)  # type: ignore[arg-type]  # events are only created here
            recorder.busy = lambda: True
            world.start(recorder.run())
            for number in range(30_000):
                recorder.record("scheduler", Record(pod(f"run{number}"), "Normal", "Scheduled", "x"))
                if number % 10 == 0:
                    await world.clock.sleep(0.01)
            assert recorder.dropped == 0
            assert REST // 4 < recorder.waiting < REST * 3 // 4
            assert written == 30_000 - recorder.waiting

        world.run(test())


def test_a_server_that_is_slow_gets_a_few_events_at_once_and_each_of_them_once() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            at_once, most, written = 0, 0, list[str]()

            class Slow:
                async def create(self, resource: object, namespace: str, body: Obj) -> None:
                    nonlocal at_once, most
                    at_once += 1
                    most = max(most, at_once)
                    await world.clock.sleep(1)
                    at_once -= 1
                    written.append(body["involvedObject"]["name"])

            recorder = Recorder(Slow(), world.clock)  # type: ignore[arg-type]  # events are only created here
            for number in range(10 * TOGETHER):
                recorder.record("scheduler", Record(pod(f"run{number}"), "Normal", "Scheduled", "x"))
            world.start(recorder.run())
            await asyncio.sleep(10.5)
            assert most == TOGETHER
            assert sorted(written) == sorted(f"run{number}" for number in range(10 * TOGETHER))

        world.run(test())


def test_warnings_and_groups_are_written_before_good_news_of_pods() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            recorder = Recorder(world.client, world.clock)
            recorder.record("scheduler", Record(pod("a"), "Normal", "Scheduled", "x"))
            recorder.record("scheduler", Record({**pod("g"), "kind": "PodGroup"}, "Normal", "Scheduled", "x"))
            recorder.record("scheduler", Record(pod("b"), "Warning", "Evict", "x"))
            world.start(recorder.run())
            await asyncio.sleep(1)
            found = sorted(await events(world), key=lambda each: int(each["metadata"]["resourceVersion"]))
            assert [each["involvedObject"]["name"] for each in found] == ["g", "b", "a"]

        world.run(test())


def test_good_news_of_pods_waits_for_urgent_work_and_warnings_do_not() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            urgent = True
            recorder = recorder_of(world)
            recorder.busy = lambda: urgent
            for number in range(RUSH * 9):
                recorder.record("kubelet", Record(pod(f"pod-{number}"), "Normal", "Started", "Started container main"))
            recorder.record("kubelet", Record(pod("pod-0"), "Warning", "Failed", "no"))
            await asyncio.sleep(1)
            written = await events(world)
            assert "Failed" in {event["reason"] for event in written}
            assert RUSH / 2 < len(written) < RUSH * 3
            urgent = False
            await asyncio.sleep(1)
            assert len(await events(world)) == RUSH * 9 + 1

        world.run(test())


def test_much_good_news_of_an_object_keeps_no_warning_back() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            recorder = recorder_of(world)
            for number in range(2 * BURST):
                recorder.record("scheduler", Record(POD, "Normal", f"Reason{number}", "x"))
            recorder.record("scheduler", Record(POD, "Warning", "Evict", "x"))
            await asyncio.sleep(1)
            assert "Evict" in [each["reason"] for each in await events(world)]

        world.run(test())


def test_an_event_of_a_namespace_that_is_gone_is_dropped_and_others_go_on() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            recorder = recorder_of(world)
            lost = {**POD, "metadata": {"name": "web", "namespace": "gone"}}
            recorder.record("kubelet", Record(lost, "Normal", "Started", "x"))
            recorder.record("kubelet", Record(POD, "Normal", "Started", "x"))
            await asyncio.sleep(1)
            assert [each["metadata"]["namespace"] for each in await events(world)] == ["default"]
            assert recorder.dropped == 1

        world.run(test())


@pytest.mark.parametrize("rate", [0.3, 0.6])
def test_events_are_written_in_the_end_although_writes_fail(rate: float) -> None:
    with virtual_api(1, rate) as world:

        async def test() -> None:
            recorder = recorder_of(world)
            for number in range(20):
                recorder.record("kubelet", Record(pod(f"p{number}"), "Normal", "Started", "x"))
            await asyncio.sleep(1000)
            assert recorder.waiting == 0
            about = {each["involvedObject"]["name"] for each in await events(world)}
            assert len(about) + recorder.dropped >= 20
            assert recorder.dropped <= 5

        world.run(test())


def test_events_have_the_form_that_servers_take(play: Play) -> None:
    async def test(scene: Scene) -> None:
        about = await scene.client.create(MAPS, scene.namespace, {"metadata": {"name": "one"}})
        recorder = Recorder(scene.client, scene.clock)
        writing = asyncio.create_task(recorder.run())
        for _ in range(2):
            recorder.record("tester", Record(about, "Warning", "Strange", "something is strange"))
            while recorder.waiting:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        (item,) = (await scene.client.list(EVENTS, scene.namespace, fields="involvedObject.name=one")).items
        event = msgspec.json.decode(item)
        assert event["involvedObject"]["uid"] == about["metadata"]["uid"]
        assert (event["reason"], event["count"]) == ("Strange", 2)
        assert recorder.dropped == 0

    play(test)
