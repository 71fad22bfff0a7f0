"""What the status of a Volcano job says, beside its counts."""

from __future__ import annotations

from kilauea.api.kinds import POD_GROUPS, VC_JOBS
from support.jobs_at_work import JobWorld, job, policy, task


def running() -> JobWorld:
    world = JobWorld(job(task("a", 2), policies=[policy("RestartJob", "PodFailed")]))
    world.start()
    assert world.phase == "Running"
    return world


def test_a_condition_has_the_time_at_which_its_phase_began() -> None:
    world = running()
    began = world.status["conditions"][-1]
    world.wait(60)
    world.say("m-a-0", "Succeeded")
    world.settle()
    assert (began["status"], world.status["conditions"][-1]) == ("Running", began)
    world.say("m-a-1", "Succeeded")
    world.settle()
    assert world.status["conditions"][-1]["status"] == "Completed"
    assert world.status["conditions"][-1]["lastTransitionTime"] > began["lastTransitionTime"]


def test_the_state_names_the_action_that_led_to_it() -> None:
    world = running()
    world.order("AbortJob")
    world.settle()
    assert (world.phase, world.status["state"]["reason"]) == ("Aborting", "AbortJob")


def test_the_version_of_a_job_is_on_its_group_and_grows_only_when_all_pods_are_replaced() -> None:
    world = running()
    world.say("m-a-0", "Failed")
    world.settle()
    world.end_going()
    world.settle()
    (group,) = world.list(POD_GROUPS)
    assert (world.status["version"], group["metadata"]["annotations"]["kilauea.dev/job-version"]) == (1, "1")
    world.order("AbortJob")
    world.settle()
    world.end_going()
    world.settle()
    assert (world.phase, world.status["version"]) == ("Aborted", 2)
    world.order("AbortJob")
    world.settle()
    assert (world.phase, world.status["version"]) == ("Aborted", 2)


def counts(world: JobWorld) -> dict[str, object]:
    """What the status counts, without what is zero."""
    fields = ("pending", "running", "succeeded", "failed", "terminating", "taskStatusCount")
    return {name: world.status[name] for name in fields if name in world.status}


def test_a_completed_job_keeps_the_counts_of_its_last_run() -> None:
    world = running()
    world.say_all("Succeeded")
    world.settle()
    kept = {"succeeded": 2, "taskStatusCount": {"a": {"phase": {"Succeeded": 2}}}}
    assert (world.phase, counts(world)) == ("Completed", kept)
    world.wait(60)
    world.settle()
    assert (world.phase, counts(world)) == ("Completed", kept)


def test_a_job_at_its_end_keeps_its_counts_when_its_pods_are_deleted() -> None:
    world = JobWorld(job(task("a", 2)))
    world.start()
    world.say("m-a-0", "Succeeded")
    world.say_all("Failed")
    world.settle()
    for pod in ("m-a-0", "m-a-1"):
        world.evict(pod)
    world.settle()
    world.end_going()
    world.settle()
    kept = {"a": {"phase": {"Failed": 1, "Succeeded": 1}}}
    assert counts(world) == {"succeeded": 1, "failed": 1, "taskStatusCount": kept}


def test_a_stopped_job_counts_the_pods_that_had_ended_and_no_others() -> None:
    world = running()
    world.say("m-a-0", "Succeeded")
    world.settle()
    world.order("AbortJob")
    world.settle()
    kept = {"succeeded": 1, "taskStatusCount": {"a": {"phase": {"Succeeded": 1}}}}
    assert (world.phase, counts(world)) == ("Aborting", {**kept, "terminating": 1})
    world.end_going()
    world.settle()
    assert (world.phase, counts(world)) == ("Aborted", kept)
    world.vanish("m-a-0")
    world.settle()
    assert counts(world) == kept


def test_a_job_with_enough_successes_counts_no_pods_that_ran_on() -> None:
    world = JobWorld(job(task("a", 2), minSuccess=1))
    world.start()
    world.say("m-a-0", "Succeeded")
    world.settle()
    world.end_going()
    world.settle()
    kept = {"succeeded": 1, "taskStatusCount": {"a": {"phase": {"Succeeded": 1}}}}
    assert (world.phase, counts(world)) == ("Completed", kept)


def test_an_aborted_job_whose_ended_pods_are_gone_resumes_without_being_restarted_for_them() -> None:
    world = JobWorld(job(task("a", 2), policies=[policy("RestartJob", "PodEvicted")]))
    world.start()
    world.say("m-a-0", "Succeeded")
    world.settle()
    world.order("AbortJob")
    world.settle()
    world.end_going()
    world.settle()
    world.vanish("m-a-0")
    world.order("ResumeJob")
    world.settle()
    world.start()
    assert (world.phase, world.retries, len(world.pods())) == ("Running", 0, 2)


def ended_by_max_retry() -> JobWorld:
    world = JobWorld(job(task("a", 2), policies=[policy("RestartJob", "PodEvicted")], maxRetry=2))
    for _ in range(2):
        world.start()
        world.evict("m-a-1")
        world.settle()
    world.end_going()
    world.settle()
    assert (world.phase, world.retries) == ("Failed", 2)
    return world


def test_a_job_that_max_retry_ends_says_so_with_the_count_and_the_way_out() -> None:
    world = ended_by_max_retry()
    state = world.status["state"]
    words = (
        "RestartJob on PodEvicted of pod m-a-1, retry 2 of spec.maxRetry 2, at which the job fails: "
        "create the job again, with a larger spec.maxRetry if its pods are often evicted or fail"
    )
    assert (state["reason"], state["message"]) == ("MaxRetryReached", words)
    assert [each for each in world.told if each.startswith("MaxRetryReached")] == [f"MaxRetryReached: {words}"]
    world.wait(60)
    world.settle()
    assert (world.status["state"], len([each for each in world.told if "MaxRetry" in each])) == (state, 1)


def test_a_job_that_restarts_says_why() -> None:
    world = running()
    world.say("m-a-0", "Failed", exit_code=3)
    world.settle()
    state = world.status["state"]
    words = "PodFailed of pod m-a-0 (exit code 3), retry 1 of spec.maxRetry 3"
    assert (state["phase"], state["reason"], state["message"]) == ("Restarting", "RestartJob", words)


def test_a_job_that_waits_again_has_an_event_that_says_why_it_was_restarted() -> None:
    world = JobWorld(job(task("a", 2), policies=[policy("RestartJob", "PodEvicted")]))
    for number in (1, 2):
        world.start()
        world.evict("m-a-1")
        world.settle()
        world.end_going()
        world.settle()
        assert (world.phase, "reason" in world.status["state"]) == ("Pending", False)
        words = f"Restarting: RestartJob on PodEvicted of pod m-a-1, retry {number} of spec.maxRetry 3"
        assert [each for each in world.told if each.startswith("Restarting")][number - 1 :] == [words]


def test_a_restart_that_a_user_orders_has_no_event_of_a_policy() -> None:
    world = running()
    world.order("RestartJob")
    world.settle()
    assert world.phase == "Restarting"
    assert not [each for each in world.told if each.startswith("Restarting")]


def test_a_job_whose_gang_waits_for_itself_says_so_until_it_is_changed() -> None:
    world = JobWorld(job(task("a", 1), task("b", 2, dependsOn={"name": ["a"]})))
    world.settle()
    world.admit()
    world.settle()
    state = world.status["state"]
    assert (world.phase, world.pods(), state["reason"]) == ("Pending", ["m-a-0"], "GangNeverComplete")
    assert state["message"].startswith("the job never starts: pods of b are made once a is ready (dependsOn)")
    assert state["message"].endswith(": set minAvailable of b to 0 and spec.minAvailable to at most 1")
    assert [each for each in world.told if "never" in each] == [f"GangNeverComplete: {state['message']}"]
    spec = world.job["spec"]
    tasks = [spec["tasks"][0], {**spec["tasks"][1], "minAvailable": 0}]
    world.change(VC_JOBS, world.key, {"spec": {"minAvailable": 1, "tasks": tasks}})
    world.settle()
    assert (world.phase, world.status["state"].get("reason")) == ("Pending", None)
    world.say("m-a-0", "Running")
    world.settle()
    assert (world.phase, world.pods()) == ("Running", ["m-a-0", "m-b-0", "m-b-1"])
