"""Jobs of Volcano from their creation to their end, as nodes, schedulers and users see them."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.kinds import CLAIMS, COMMANDS, CONFIG_MAPS, POD_GROUPS, PODS, QUEUES, SECRETS, VC_JOBS
from kilauea.api.ports import Key, key_of
from kilauea.controllers.vcjobs.members import Members
from support.jobs_at_work import NAMESPACE, JobWorld, job, policy, task


def running(*tasks: dict[str, Any], **spec: Any) -> JobWorld:
    world = JobWorld(job(*tasks, **spec))
    world.start()
    assert world.phase == "Running"
    world.history.clear()
    return world


# --- from creation to the end


def test_pods_are_made_only_once_the_group_is_admitted() -> None:
    world = JobWorld(job(task("a", 2), task("b", 1)))
    world.settle()
    assert (world.phase, world.pods(), len(world.list(POD_GROUPS))) == ("Pending", [], 1)
    world.admit("Pending")
    world.settle()
    assert world.pods() == []
    world.admit()
    world.settle()
    assert world.pods() == ["m-a-0", "m-a-1", "m-b-0"]
    assert world.status["taskStatusCount"] == {"a": {"phase": {"Pending": 2}}, "b": {"phase": {"Pending": 1}}}


def test_a_job_has_no_more_pods_at_a_time_than_its_annotation_says() -> None:
    manifest = job(task("a", 5), minAvailable=1)
    manifest["metadata"]["annotations"] = {"kilauea.dev/parallelism": "2"}
    world = JobWorld(manifest)
    world.start()
    assert world.pods() == ["m-a-0", "m-a-1"]
    world.say("m-a-0", "Succeeded")
    world.settle()
    assert world.pods() == ["m-a-1", "m-a-2"]
    for ended, phase in enumerate(("Failed", "Succeeded", "Succeeded"), 1):
        assert world.phase == "Running"
        world.say(f"m-a-{ended}", phase)
        world.settle()
    assert world.pods() == ["m-a-4"]
    world.say("m-a-4", "Succeeded")
    world.settle()
    assert world.phase == "Completed"


@pytest.mark.parametrize("text", ["0", "-1", "many", "2"])
def test_a_number_of_pods_at_a_time_that_cannot_be_is_said_and_no_pod_is_made(text: str) -> None:
    manifest = job(task("a", 5), minAvailable=3)
    manifest["metadata"]["annotations"] = {"kilauea.dev/parallelism": text}
    world = JobWorld(manifest)
    world.settle()
    world.admit()
    for _ in range(3):
        world.look()
    assert world.pods() == []
    words = f'annotation kilauea.dev/parallelism: invalid number "{text}": use 3 (minAvailable) or more'
    assert words in world.status["state"]["message"]


def test_a_job_runs_once_enough_pods_run_and_is_completed_when_all_have_succeeded() -> None:
    world = JobWorld(job(task("a", 3), minAvailable=2))
    world.settle()
    world.admit()
    world.settle()
    world.say("m-a-0", "Running")
    world.settle()
    assert world.phase == "Pending"
    world.say("m-a-1", "Running")
    world.settle()
    assert (world.phase, world.status["running"], world.status["pending"]) == ("Running", 2, 1)
    world.wait(90)
    world.say_all("Succeeded")
    world.settle()
    assert world.history == ["Pending", "Running", "Completed"]
    assert [each["status"] for each in world.status["conditions"]] == world.history
    assert world.status["runningDuration"] == "1m30s"
    assert world.list(POD_GROUPS) == []
    assert sorted(world.uids()) == ["m-a-0", "m-a-1", "m-a-2"]


@pytest.mark.parametrize(
    ("spec", "ends", "phase"),
    [
        ({}, ["Succeeded", "Succeeded"], "Completed"),
        ({}, ["Succeeded", "Failed"], "Failed"),
        ({"minAvailable": 1}, ["Succeeded", "Failed"], "Completed"),
        ({"minAvailable": 1}, ["Failed", "Failed"], "Failed"),
        ({"minAvailable": 1, "minSuccess": 2}, ["Succeeded", "Failed"], "Failed"),
        ({"minAvailable": 1, "minSuccess": 1}, ["Succeeded", "Running"], "Completed"),
        ({"minAvailable": 1}, ["Succeeded", "Running"], "Running"),
        ({}, ["Running", "Pending"], "Pending"),
    ],
)
def test_how_a_job_stands_follows_from_its_pods(spec: dict[str, Any], ends: list[str], phase: str) -> None:
    world = running(task("a", 2), **spec)
    for index, end in enumerate(ends):
        world.say(f"m-a-{index}", end)
    world.settle()
    assert world.phase == phase


def test_a_task_that_lacks_successes_fails_the_job_although_there_are_enough_in_all() -> None:
    tasks = task("a", 2, minAvailable=1), task("b", 2, minAvailable=1)
    world = running(*tasks)
    for name, end in (("a-0", "Succeeded"), ("a-1", "Succeeded"), ("b-0", "Failed"), ("b-1", "Failed")):
        world.say(f"m-{name}", end)
    world.settle()
    assert world.phase == "Failed"


def test_as_soon_as_enough_have_succeeded_the_rest_is_ended() -> None:
    world = running(task("a", 3), minAvailable=1, minSuccess=1)
    world.say("m-a-1", "Succeeded")
    world.settle()
    assert (world.phase, world.going()) == ("Completed", ["m-a-0", "m-a-2"])
    world.end_going()
    world.settle()
    assert list(world.uids()) == ["m-a-1"]


def test_a_job_that_is_deleted_is_left_alone_and_its_commands_go() -> None:
    world = running(task("a", 1))
    world.change(VC_JOBS, world.key, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    world.order("AbortJob")
    world.vanish("m-a-0")
    world.settle()
    assert (world.phase, world.list(COMMANDS), world.list(PODS)) == ("Running", [], [])


# --- restarts


def test_a_job_restarts_as_a_whole_with_a_new_group_once_all_of_its_pods_are_gone() -> None:
    world = running(task("a", 2), policies=[policy("RestartJob", "PodFailed")])
    before, group = world.uids(), world.list(POD_GROUPS)[0]["metadata"]["uid"]
    world.say("m-a-1", "Failed")
    world.settle()
    assert (world.phase, world.retries, world.status["terminating"]) == ("Restarting", 1, 2)
    assert world.list(POD_GROUPS)[0]["metadata"]["uid"] != group
    world.admit()
    world.settle()
    assert world.uids() == before, "names are taken as long as the old pods end"
    world.end_going()
    world.settle()
    assert world.phase == "Pending"
    assert not set(world.uids().values()) & set(before.values())
    world.say_all()
    world.settle()
    assert world.history == ["Restarting", "Pending", "Running"]
    assert [each["status"] for each in world.status["conditions"]] == world.history
    marks = world.list(PODS)[0]["metadata"]["annotations"]
    assert (marks["volcano.sh/job-version"], marks["volcano.sh/job-retry-count"]) == ("1", "1")


def test_one_pod_restarts_alone_and_the_group_stays() -> None:
    world = running(task("a", 2, policies=[policy("RestartPod", "PodFailed")]))
    before, group = world.uids(), world.list(POD_GROUPS)
    world.say("m-a-1", "Failed")
    world.settle()
    assert (world.phase, world.going(), world.list(POD_GROUPS)) == ("Restarting", ["m-a-1"], group)
    world.end_going()
    world.settle()
    world.say_all()
    world.settle()
    assert (world.phase, world.retries, world.status.get("version", 0)) == ("Running", 1, 0)
    assert world.uids()["m-a-0"] == before["m-a-0"]
    assert world.uids()["m-a-1"] != before["m-a-1"]


def test_a_task_restarts_alone() -> None:
    world = running(task("a", 2), task("b", 2), policies=[policy("RestartTask", "PodFailed")])
    world.say("m-b-0", "Failed")
    world.settle()
    assert (world.going(), world.retries) == (["m-b-0", "m-b-1"], 1)


def test_a_partition_restarts_alone() -> None:
    parts = {"partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}
    world = running(task("a", 4, **parts), policies=[policy("RestartPartition", "PodFailed", "PodEvicted")])
    world.say("m-a-2", "Failed")
    world.settle()
    assert world.going() == ["m-a-2", "m-a-3"]
    world.start()
    world.vanish("m-a-0")
    world.settle()
    assert (world.going(), world.retries) == (["m-a-1"], 2)


@pytest.mark.parametrize(("action", "event"), [("RestartJob", "PodFailed"), ("RestartPod", "PodFailed")])
def test_three_tries_are_two_restarts_and_what_failed_last_stays_to_be_looked_at(action: str, event: str) -> None:
    world = running(task("a", 2), policies=[policy(action, event)], maxRetry=3)
    for _ in range(2):
        world.say("m-a-0", "Failed")
        world.start()
        assert world.phase == "Running"
    world.say("m-a-0", "Failed")
    world.start()
    assert (world.phase, world.retries, list(world.uids())) == ("Failed", 3, ["m-a-0"])
    world.settle()
    assert world.retries == 3


def test_many_pods_that_fail_at_once_are_one_restart() -> None:
    world = running(task("a", 5), policies=[policy("RestartJob", "PodFailed")])
    for index in range(5):
        world.say(f"m-a-{index}", "Failed")
    world.start()
    assert (world.phase, world.retries) == ("Running", 1)
    world = running(task("a", 5), policies=[policy("RestartPod", "PodFailed")])
    for index in range(4):
        world.say(f"m-a-{index}", "Failed")
    world.start()
    assert (world.phase, world.retries) == ("Running", 1)


# --- evictions


@pytest.mark.parametrize("how", ["evict", "vanish"])
@pytest.mark.parametrize(("action", "phase"), [("AbortJob", "Aborting"), ("RestartJob", "Restarting")])
def test_one_pod_that_is_taken_away_ends_the_whole_gang(how: str, action: str, phase: str) -> None:
    world = running(task("a", 3), policies=[policy(action, "PodEvicted")])
    getattr(world, how)("m-a-1")
    world.settle()
    assert (world.phase, world.pods()) == (phase, [])


def test_a_pod_that_is_taken_away_is_replaced_if_no_policy_says_otherwise() -> None:
    world = running(task("a", 2))
    world.evict("m-a-0")
    world.settle()
    assert (world.pods(), world.status["terminating"]) == (["m-a-1"], 1)
    world.start()
    assert (world.phase, world.pods(), world.retries) == ("Running", ["m-a-0", "m-a-1"], 0)


def test_a_pod_that_its_node_has_stopped_to_remove_it_has_not_failed() -> None:
    world = running(task("a", 2), policies=[policy("AbortJob", "PodFailed")])
    world.evict("m-a-0")
    world.say("m-a-0", "Failed")
    world.settle()
    world.start()
    assert (world.phase, world.pods(), world.retries) == ("Running", ["m-a-0", "m-a-1"], 0)


def test_a_vanished_pod_is_acted_on_once() -> None:
    world = running(task("a", 2), policies=[policy("RestartPod", "PodEvicted")])
    world.vanish("m-a-0")
    world.start()
    world.settle()
    assert (world.phase, world.retries) == ("Running", 1)


# --- suspending and resuming


def test_a_suspended_job_has_neither_pods_nor_group_and_goes_on_when_it_is_resumed() -> None:
    world = running(task("a", 2))
    world.say("m-a-0", "Succeeded")
    world.settle()
    done = world.uids()["m-a-0"]
    world.order("AbortJob")
    world.settle()
    assert (world.phase, world.list(COMMANDS), world.list(POD_GROUPS)) == ("Aborting", [], [])
    assert "Start to execute command AbortJob, and clean it up" in " ".join(world.told)
    world.end_going()
    world.settle()
    assert (world.phase, list(world.uids())) == ("Aborted", ["m-a-0"])
    world.order("ResumeJob")
    world.start()
    assert world.history == ["Aborting", "Aborted", "Restarting", "Pending", "Running"]
    assert world.uids()["m-a-0"] == done, "what is done is done"
    assert world.retries == 0, "to resume is not a restart"


def test_a_job_can_be_resumed_while_it_is_being_aborted() -> None:
    world = running(task("a", 2))
    world.order("AbortJob")
    world.settle()
    world.order("ResumeJob")
    world.start()
    assert world.phase == "Running"
    assert len(world.pods()) == 2


@pytest.mark.parametrize("action", ["RestartTask", "RestartPod", "RestartPartition"])
def test_a_command_cannot_restart_a_part_as_it_names_none(action: str) -> None:
    world = running(task("a", 2))
    world.order(action)
    world.settle()
    assert (world.phase, world.retries, world.list(COMMANDS)) == ("Running", 0, [])
    assert any("needs a target" in each for each in world.told)


def test_commands_are_done_one_after_another_in_the_order_in_which_they_came() -> None:
    world = running(task("a", 2))
    world.order("AbortJob", "z")
    world.wait(1)
    world.order("ResumeJob", "a")
    world.start()
    assert world.history == ["Aborting", "Restarting", "Pending", "Running"]


def test_a_job_that_is_over_cannot_be_brought_back() -> None:
    world = running(task("a", 1))
    world.say("m-a-0", "Succeeded")
    world.settle()
    for action in ("ResumeJob", "RestartJob", "AbortJob"):
        world.order(action)
        world.settle()
    assert (world.phase, world.list(COMMANDS), world.retries) == ("Completed", [], 0)


# --- scaling, dependencies


def scaled(world: JobWorld, replicas: int) -> None:
    tasks = [{**each, "replicas": replicas} for each in world.job["spec"]["tasks"]]
    world.change(VC_JOBS, world.key, {"spec": {"tasks": tasks, "minAvailable": 1}})
    world.settle()


def test_a_job_that_is_scaled_gets_pods_or_loses_those_with_the_highest_indexes() -> None:
    world = running(task("a", 2, minAvailable=1), policies=[policy("RestartJob", "PodEvicted")])
    scaled(world, 4)
    assert world.pods() == ["m-a-0", "m-a-1", "m-a-2", "m-a-3"]
    world.say_all()
    world.settle()
    scaled(world, 1)
    assert world.going() == ["m-a-1", "m-a-2", "m-a-3"]
    world.end_going()
    world.settle()
    assert (world.phase, world.pods(), world.retries) == ("Running", ["m-a-0"], 0)


@pytest.mark.parametrize(
    ("iteration", "ready", "starts"),
    [("all", ["a"], False), ("all", ["a", "b"], True), ("any", ["a"], True), ("any", [], False)],
)
def test_a_task_starts_when_those_that_it_depends_on_are_ready(iteration: str, ready: list[str], starts: bool) -> None:
    last = task("c", 1, dependsOn={"name": ["a", "b"], "iteration": iteration})
    world = JobWorld(job(task("a", 1), task("b", 1), last))
    world.settle()
    world.admit()
    world.settle()
    for name in ready:
        world.say(f"m-{name}-0", "Running")
    world.settle()
    assert ("m-c-0" in world.uids()) == starts


def test_whether_a_task_is_ready_is_found_once_for_all_that_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"t{number}" for number in range(40)]
    first = [task(name, 1) for name in names]
    late = [task(f"late-{number}", 1, dependsOn={"name": names, "iteration": "all"}) for number in range(40)]
    world = JobWorld(job(*first, *late, minAvailable=40))
    world.settle()
    world.admit()
    world.settle()
    for name in names:
        world.say(f"m-{name}-0", "Running")
    counted: list[str] = []
    of = Members.of

    def counting(members: Members, name: str) -> Any:
        counted.append(name)
        return of(members, name)

    monkeypatch.setattr(Members, "of", counting)
    world.look()
    assert len(world.list(PODS)) == 80
    assert max(map(counted.count, names)) < len(late) / 2


def test_a_large_job_gets_its_pods_in_portions() -> None:
    world = JobWorld(job(task("a", 1200)))
    world.settle()
    world.admit()
    counts = []
    for _ in range(3):
        world.look()
        counts.append(len(world.list(PODS)))
    assert counts == [500, 1000, 1200]
    world.settle()


# --- what is wrong with a job


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"queue": "none"}, "QueueError: queue none is not found"),
        ({"plugins": {"svcs": []}}, "PluginError: Execute plugin when job add failed, err: failed to get plugin svcs"),
        (
            {"volumes": [{"mountPath": "/a", "volumeClaimName": "none"}]},
            "PVCError: Failed to create PVC, err: pvc none is not found, the job will be in the Pending state",
        ),
    ],
)
def test_what_is_wrong_with_a_job_is_said_on_it_and_it_waits(spec: dict[str, Any], told: str) -> None:
    world = JobWorld(job(task("a", 1), **spec))
    world.settle()
    assert any(each.startswith(told) for each in world.told), world.told
    assert (world.phase, world.again, world.list(PODS)) == ("Pending", 1.0, [])
    world.wait(1000)
    world.settle()
    assert (world.phase, world.again) == ("Pending", 60.0)


def test_a_job_goes_on_when_its_queue_and_claim_are_there() -> None:
    world = JobWorld(job(task("a", 1), queue="q", volumes=[{"mountPath": "/a", "volumeClaimName": "c"}]))
    world.settle()
    world.put(QUEUES, {"metadata": {"name": "q"}, "spec": {}})
    world.put(CLAIMS, {"metadata": {"name": "c", "namespace": NAMESPACE}})
    world.start()
    assert (world.phase, world.status["controlledResources"]) == ("Running", {"volume-pvc-c": "c"})


def test_a_claim_is_made_and_its_name_written_into_the_job() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    world = JobWorld(job(task("a", 1), volumes=[{"mountPath": "/a", "volumeClaim": claim}]))
    world.start()
    name = world.list(CLAIMS)[0]["metadata"]["name"]
    assert world.job["spec"]["volumes"][0]["volumeClaimName"] == name
    assert world.list(PODS)[0]["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": name}
    assert len(world.list(CLAIMS)) == 1


def test_the_name_of_a_pod_that_somebody_else_has_is_said_on_the_job() -> None:
    world = JobWorld(job(task("a", 1)))
    world.put(PODS, {"metadata": {"name": "m-a-0", "namespace": NAMESPACE}, "status": {"phase": "Running"}})
    world.settle()
    world.admit()
    world.settle()
    assert "FailedCreate: Error creating pods: pod m-a-0 exists and does not belong to this job" in world.told
    assert world.phase == "Pending"


def test_a_job_to_be_forwarded_to_other_clusters_says_so() -> None:
    world = JobWorld(job(task("a", 1)))
    world.put(QUEUES, {"metadata": {"name": "default"}, "spec": {"extendClusters": [{"name": "far"}]}})
    world.start()
    assert world.job["metadata"]["annotations"] == {"volcano.sh/job-forwarding": "true"}
    assert world.list(PODS)[0]["metadata"]["labels"]["volcano.sh/job-forwarding"] == "true"


def test_why_the_group_waits_is_told_on_the_job() -> None:
    world = JobWorld(job(task("a", 1)))
    world.settle()
    condition = {"type": "Unschedulable", "status": "True", "message": "no room"}
    group = key_of(world.list(POD_GROUPS)[0])
    world.change(POD_GROUPS, group, {"status": {"phase": "Pending", "conditions": [condition]}})
    world.settle()
    assert world.told[-1] == "PodGroupPending: PodGroup default:m unschedulable, reason: no room"


def test_what_the_scheduler_ignores_is_told_on_the_job_and_does_not_hide_why_it_waits() -> None:
    world = JobWorld(job(task("a", 1)))
    world.settle()
    waits = {
        "type": "Unschedulable",
        "status": "True",
        "message": "no room",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    ignored = {"type": "WishIgnored", "status": "True", "message": "sla", "lastTransitionTime": "2026-01-01T00:00:01Z"}
    group = key_of(world.list(POD_GROUPS)[0])
    world.change(POD_GROUPS, group, {"status": {"phase": "Pending", "conditions": [waits, ignored]}})
    world.settle()
    assert world.told[-2:] == [
        "PluginNotConfigured: sla",
        "PodGroupPending: PodGroup default:m unschedulable, reason: no room",
    ]


# --- what is there beside pods


def test_plugins_keep_their_objects_until_the_job_ends_and_survive_restarts() -> None:
    world = running(task("a", 1), plugins={"svc": [], "ssh": []}, policies=[policy("RestartJob", "PodFailed")])
    secret = world.get(SECRETS, Key(NAMESPACE, "m-ssh"))
    assert world.status["controlledResources"] == {"plugin-ssh": "ssh", "plugin-svc": "svc"}
    world.say("m-a-0", "Failed")
    world.start()
    assert world.get(SECRETS, Key(NAMESPACE, "m-ssh")) == secret
    world.remove(CONFIG_MAPS, Key(NAMESPACE, "m-svc"))
    world.settle()
    assert world.get(CONFIG_MAPS, Key(NAMESPACE, "m-svc")) is not None
    world.say_all("Succeeded")
    world.settle()
    assert (world.list(SECRETS), world.list(CONFIG_MAPS)) == ([], [])
    assert "controlledResources" not in world.status


def test_a_group_that_is_deleted_is_made_again() -> None:
    world = running(task("a", 1))
    world.remove(POD_GROUPS, key_of(world.list(POD_GROUPS)[0]))
    world.settle()
    assert len(world.list(POD_GROUPS)) == 1
    assert world.pods() == ["m-a-0"]
