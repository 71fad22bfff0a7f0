"""The expected start of a waiting group, by the engine played forward."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from kilauea.api.core import Pod, PodStatus
from kilauea.api.meta import Object
from kilauea.api.times import SECOND
from kilauea.engine.cycle import default_conf
from kilauea.engine.model.attempts import NO_BACKOFF
from kilauea.simulator.cluster import SimulatedCluster
from kilauea.simulator.expected_start import ExpectedStart, Forecast, expected_start
from kilauea.simulator.scenario import Scenario
from support.builders import NOW, group, node, pod, queue

RUN_TIME = "kilauea.dev/run-time"


def declared(pod: Pod, elapsed: int | None) -> Forecast | None:
    """The time that a pod declares in seconds: `least-likely-most` for a range, more for times of equal likelihood."""
    text = pod.annotations.get(RUN_TIME, "")
    if not text:
        return None
    times = [int(part) * SECOND for part in text.split("-")]
    if len(times) > 3:
        return Forecast(times[1], times[len(times) // 2], times[-2], "declared", tuple(times))
    earliest, likely, latest = (times * 3)[:3]
    return Forecast(earliest, likely, latest, "declared")


def job(
    name: str, pods: int, seconds: str = "", running: int | None = None, created: int = 0, cpu: int = 1
) -> list[Object]:
    """A gang; `running` is since how many seconds before now it runs on node n1."""
    made: list[Object] = [
        group(name, minimum=pods, created=created, phase="Running" if running is not None else "Pending")
    ]
    for number in range(pods):
        each = pod(
            f"{name}-{number}",
            name,
            cpu,
            created=created,
            uid=f"{name}-{number}",
            node="n1" if running is not None else None,
            phase="Running" if running is not None else "Pending",
            annotations={RUN_TIME: seconds} if seconds else None,
        )
        made.append(each)
    return made


def scenario(*objects: Object | list[Object], nodes: int = 1) -> Scenario:
    flat = [each for part in objects for each in (part if isinstance(part, list) else [part])]
    machines = [node(f"n{number + 1}", 4) for number in range(nodes)]
    return Scenario([*machines, queue("q"), *flat], default_conf(), NOW)


def find(found: Scenario, name: str) -> ExpectedStart:
    return expected_start(found, f"ns/{name}", declared)


def seconds(at: int | None) -> float | None:
    return None if at is None else (at - NOW) / SECOND


def test_a_job_starts_when_the_one_that_runs_has_ended() -> None:
    found = find(scenario(job("first", 4, "60", running=0), job("second", 3)), "second")
    assert (found.verdict, seconds(found.time)) == ("starts", 60)
    assert (found.earliest, found.latest) == (found.time, found.time)
    assert [(each.group, seconds(each.end), each.source) for each in found.freed] == [("ns/first", 60, "declared")]


def test_jobs_that_wait_before_it_have_their_turn_first() -> None:
    objects = [job("first", 4, "60", running=0), job("second", 4, "30", created=1), job("third", 1, created=2)]
    found = find(scenario(*objects), "third")
    assert seconds(found.time) == 90


def test_a_range_follows_from_early_and_late_ends() -> None:
    found = find(scenario(job("first", 4, "40-60-100", running=0), job("second", 1)), "second")
    assert (seconds(found.earliest), seconds(found.time), seconds(found.latest)) == (40, 60, 100)


def test_what_waits_for_the_first_of_many_ends_starts_before_the_middle_of_each() -> None:
    """Four jobs whose ends are known as a range: with each at its middle, the start would be after 50 seconds."""
    times = "-".join(str(time) for time in range(5, 105, 10))
    running = [job(f"r{n}", 1, times, running=0) for n in range(4)]
    found = find(scenario(*running, job("next", 1)), "next")
    early, middle, late = seconds(found.earliest), seconds(found.time), seconds(found.latest)
    assert early is not None
    assert middle is not None
    assert late is not None
    # The first of four that end evenly within 100 s: 8 of 10 times it is from 2.6 to 43.8, and its middle is 15.9.
    assert early <= 5
    assert 5 <= middle <= 25
    assert 25 <= late <= 55


def test_pods_of_one_group_end_together() -> None:
    times = "-".join(str(time) for time in range(5, 105, 10))
    found = find(scenario(job("gang", 4, times, running=0), job("next", 1)), "next")
    alone = find(scenario(job("gang", 4, times, running=0), job("next", 4)), "next")
    assert (found.earliest, found.time, found.latest) == (alone.earliest, alone.time, alone.latest)


def test_a_search_for_which_there_is_little_time_has_fewer_plays() -> None:
    objects = scenario(job("first", 4, "40-60-100", running=0), job("second", 1))
    calls = iter([False] * 3 + [True] * 99)
    found = expected_start(objects, "ns/second", declared, lambda: next(calls))
    assert (found.verdict, seconds(found.time)) == ("starts", 60)


def test_nothing_is_foretold_where_nothing_is_known() -> None:
    found = find(scenario(job("first", 2, running=0), job("other", 2, "9", running=0), job("second", 4)), "second")
    assert found == ExpectedStart("unknown", unknown=("ns/first",), freed=found.freed)


def test_what_is_not_known_does_not_matter_where_there_is_room_beside_it() -> None:
    found = find(scenario(job("first", 2, running=0), job("other", 2, "9", running=0), job("second", 2)), "second")
    assert (found.verdict, seconds(found.time), found.unknown) == ("starts", 9, ("ns/first",))


def test_a_job_that_never_fits_is_not_foretold() -> None:
    assert find(scenario(job("first", 4, "9", running=0), job("second", 5)), "second").verdict == "never"


def test_a_search_that_takes_too_long_is_given_up() -> None:
    found = expected_start(
        scenario(job("first", 4, "60", running=0), job("second", 3)), "ns/second", declared, lambda: True
    )
    assert (found.verdict, found.time) == ("far", None)


def actual(found: Scenario, wanted: str, most: int) -> int | None:
    """The start, from a life of the cluster second by second in which pods run as long as they declare."""
    state, cluster, backoff = found.state(), SimulatedCluster(found.objects, NOW), NO_BACKOFF
    ends = {p.key: NOW + declared(p, None)[1] for p in found.objects if isinstance(p, Pod) and p.spec.node_name}  # type: ignore[index]
    for _ in range(most):
        now = cluster.now
        plan = found.decide(state, now=now, backoff=backoff.at(now - NOW))
        backoff = plan.backoff or backoff
        if any(state.tasks[bind.pod].group == wanted for bind in plan.binds):
            return now
        events = cluster.carry_out(plan)
        for bind in plan.binds:
            bound = cluster.pod(bind.pod)
            assert bound is not None
            forecast = declared(bound, None)
            assert forecast is not None
            ends[bind.pod] = now + forecast.likely
        for key in [key for key, end in ends.items() if end <= cluster.now]:
            del ends[key]
            ended = cluster.pod(key)
            assert ended is not None
            events += cluster.put(msgspec.structs.replace(ended, status=PodStatus(phase="Succeeded")))
        for event in events:
            state.apply(event)
    return None


jobs = st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 2))


@settings(max_examples=12, deadline=None)
@given(st.lists(jobs, min_size=2, max_size=4), st.integers(1, 9))
def test_if_all_run_times_are_declared_and_true_the_expected_start_is_the_actual_one(
    sizes: list[tuple[int, int, int]], first: int
) -> None:
    objects = [job("first", 4, str(first), running=0)]
    objects += [job(f"j{n}", pods, str(time), created=n + 1, cpu=cpu) for n, (pods, time, cpu) in enumerate(sizes)]
    found = scenario(*objects, nodes=2)
    last = len(sizes) - 1
    expected, real = find(found, f"j{last}"), actual(found, f"ns/j{last}", 60)
    assert expected.time == real
    assert (expected.verdict == "starts") == (real is not None)
