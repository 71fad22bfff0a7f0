"""Whatever happens to a Volcano job, in whatever order, and wherever its controller dies on the way."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilauea.api.kinds import PODS, VC_JOBS
from support.jobs_at_work import JobWorld, job, policy, task

ACTIONS = ["RestartJob", "RestartTask", "RestartPod", "RestartPartition", "AbortJob", "CompleteJob", "TerminateJob"]
EVENTS = ["PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "Unknown", "PodPending", "*"]
DISTURBANCES = ["fail", "evict", "vanish", "unknown", "restarts", "succeed", "command"]
STEPS = [*DISTURBANCES, "admit", "run", "end", "wait", "scale", "look", "die", "die"]

policies = st.builds(
    lambda action, event, timeout: policy(action, event, **({"timeout": timeout} if timeout else {})),
    st.sampled_from(ACTIONS),
    st.sampled_from(EVENTS),
    st.sampled_from(["", "", "20s"]),
)
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), max_size=25)


def disturb(world: JobWorld, what: str, number: int) -> None:
    """One thing that happens."""
    names = list(world.uids())
    name = names[number % len(names)] if names else ""
    if what in ("fail", "succeed", "restarts") and name:
        phase = {"fail": "Failed", "succeed": "Succeeded"}.get(what, "Running")
        world.say(name, phase, restarts=2)
    elif what in ("evict", "vanish") and name:
        getattr(world, what)(name)
    elif what in ("unknown", "admit"):
        world.admit("Unknown" if what == "unknown" else "Inqueue")
    elif what == "command":
        world.order(["AbortJob", "ResumeJob", "RestartJob", "RestartPod", "Odd", "TerminateJob"][number])
    elif what == "run":
        world.say_all()
    elif what == "end":
        world.end_going()
    elif what == "wait":
        world.wait(number * 7)
    elif what == "scale":
        tasks = [{**each, "replicas": number} for each in world.job["spec"]["tasks"]]
        world.change(VC_JOBS, world.key, {"spec": {"tasks": tasks}})


def check(world: JobWorld) -> None:
    """What holds whatever has happened."""
    assert world.retries <= 3
    wanted = {each["name"]: each["replicas"] for each in world.job["spec"]["tasks"]}
    version = world.status.get("version", 0)
    live: Counter[str] = Counter()
    for pod in world.list(PODS):
        marks = pod["metadata"]["annotations"]
        assert int(marks["volcano.sh/job-version"]) <= version
        if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] not in ("Succeeded", "Failed"):
            live[marks["volcano.sh/task-spec"]] += 1
    for name, count in live.items():
        assert count <= wanted[name]
    if world.phase in ("Aborting", "Aborted", "Completed", "Failed", "Terminated"):
        assert not live


@pytest.mark.slow
@given(of_task=st.lists(policies, max_size=2), of_job=st.lists(policies, max_size=2), happens=steps)
@settings(max_examples=150, deadline=None)
def test_a_job_has_never_too_many_pods_and_tries_no_more_than_it_was_given_cause(
    of_task: list[Any], of_job: list[Any], happens: list[tuple[str, int]]
) -> None:
    world = JobWorld(job(task("a", 2, policies=of_task), task("b", 1), policies=of_job, minAvailable=2))
    world.start()
    causes = sum(1 for what, _ in happens if what in DISTURBANCES or what == "wait")
    for what, number in happens:
        if what == "die":
            world.look(until=number)
            continue
        disturb(world, what, number)
        before = world.retries
        world.look()
        assert world.retries - before in (0, 1)
    for _ in range(3):
        world.settle()
        check(world)
        world.end_going()
    before = world.retries
    for _ in range(3):
        world.settle()
        assert world.look() == [], "nothing is done twice"
    assert world.retries == before
    assert world.retries <= causes
    enough = sum(each["replicas"] for each in world.job["spec"]["tasks"]) >= 2
    assert world.phase in ("Pending", "Running", "Aborted", "Completed", "Failed", "Terminated") or not enough


@pytest.mark.parametrize("event", ["PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "Unknown"])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("point", range(8))
def test_a_controller_that_dies_at_any_point_is_followed_by_one_that_goes_on(
    event: str, action: str, point: int
) -> None:
    parts = {"partitionPolicy": {"totalPartitions": 2, "partitionSize": 1}}
    world = JobWorld(job(task("a", 2, policies=[policy(action, event)], **parts), task("b", 1), policies=[]))
    if event == "Unknown":
        world = JobWorld(job(task("a", 2, **parts), task("b", 1), policies=[policy(action, event)]))
    world.start()
    happens = {"PodFailed": "fail", "PodEvicted": "vanish", "TaskCompleted": "succeed", "TaskFailed": "restarts"}
    for number in (0, 1) if event in ("TaskCompleted", "TaskFailed") else (0,):
        disturb(world, happens.get(event, "unknown"), number)
    world.look(until=point)
    world.start()
    check(world)
    ends = {"AbortJob": "Aborted", "CompleteJob": "Completed", "TerminateJob": "Terminated"}
    assert world.phase == ends.get(action, "Running")
    restarted = action not in ends and not (event == "Unknown" and action != "RestartJob")
    assert world.retries == restarted
