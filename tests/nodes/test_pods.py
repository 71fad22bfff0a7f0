"""Pods on simulated nodes, from being bound to their end."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kilauea.api.kinds import NODES, PODS
from kilauea.api.ports import Delete, Key, Patch
from kilauea.api.times import SECOND
from kilauea.nodes.logs import PodLogs
from kilauea.nodes.pods import Pods
from support.simulated import START, World, node, notes, pod


def world(*pods: dict[str, Any], start_delay: float = 0.0, **annotations: str) -> World:
    made = World(Pods(start_delay))
    made.put(NODES, node(ready=True, **annotations))
    for each in pods:
        made.put(PODS, each)
    return made


def conditions(obj: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in obj["status"]["conditions"]}


def state(obj: dict[str, Any], number: int = 0, part: str = "containerStatuses") -> Any:
    return obj["status"][part][number]["state"]


def ended(obj: dict[str, Any], number: int = 0, part: str = "containerStatuses") -> Any:
    return state(obj, number, part)["terminated"]


def test_a_bound_pod_runs_with_one_patch_that_says_all_a_kubelet_says() -> None:
    w = world(pod())
    w.run()
    status = w.pod()["status"]
    assert status["phase"] == "Running"
    assert len(w.written) == 1
    assert conditions(w.pod()) == dict.fromkeys(("Initialized", "Ready", "ContainersReady", "PodScheduled"), "True")
    assert status["startTime"] == "2026-01-01T00:00:00Z"
    assert status["hostIP"] == "172.16.0.1"
    assert status["podIP"].startswith("10.")
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["qosClass"] == "BestEffort"
    (container,) = status["containerStatuses"]
    assert container.pop("containerID").startswith("simulated://")
    assert [container] == [
        {
            "name": "c",
            "image": "busybox:1.36",
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "lastState": {},
            "resources": {},
        }
    ]


def test_containers_are_created_as_long_as_the_delay_says() -> None:
    w = world(pod(), start_delay=3)
    w.run()
    assert state(w.pod()) == {"waiting": {"reason": "ContainerCreating"}}
    assert w.pod()["status"]["phase"] == "Pending"
    assert conditions(w.pod())["ContainersReady"] == "False"
    w.run(2.9)
    assert w.phases["p"] == ["Pending"]
    w.run(0.1)
    assert w.phases["p"] == ["Pending", "Running"]
    assert w.pod()["status"]["conditions"][1]["lastTransitionTime"] == "2026-01-01T00:00:03Z"


def test_a_delay_of_less_than_a_second_costs_no_write() -> None:
    w = world(pod(), start_delay=0.5)
    w.run(0.4)
    assert w.written == []
    w.run(0.1)
    assert w.phases["p"] == ["Pending", "Running"]
    assert len(w.written) == 1


@pytest.mark.parametrize(
    ("probes", "is_started", "ready_after"),
    [
        pytest.param({"readinessProbe": {"initialDelaySeconds": 20}}, True, 20, id="readiness"),
        pytest.param({"startupProbe": {"initialDelaySeconds": 30}}, False, 30, id="startup"),
        pytest.param(
            {"startupProbe": {"initialDelaySeconds": 5}, "readinessProbe": {"initialDelaySeconds": 9}},
            False,
            9,
            id="both count from the start",
        ),
        pytest.param({"readinessProbe": {"periodSeconds": 7}}, True, 0, id="without a delay"),
        pytest.param({"livenessProbe": {"initialDelaySeconds": 7}}, True, 0, id="liveness delays nothing"),
    ],
)
def test_a_pod_is_ready_after_the_delays_of_its_probes(
    probes: dict[str, Any], is_started: bool, ready_after: int
) -> None:
    made = pod(command="sleep 100", restart="Never")
    made["spec"]["containers"][0] |= probes
    w = world(made)
    w.run()
    for _ in range(ready_after):
        assert conditions(w.pod())["Ready"] == "False"
        assert (w.pod()["status"]["containerStatuses"][0]["started"], w.pod()["status"]["phase"]) == (
            is_started,
            "Running",
        )
        w.run(1)
    assert conditions(w.pod())["Ready"] == "True"
    assert w.pod()["status"]["containerStatuses"][0]["started"] is True
    assert len(w.written) == 1 + bool(ready_after)
    w.run(100 - ready_after)
    assert w.pod()["status"]["phase"] == "Succeeded"


def test_a_pod_that_ends_before_its_probes_begin_was_never_ready() -> None:
    made = pod(command="sleep 5", restart="Never")
    made["spec"]["containers"][0]["readinessProbe"] = {"initialDelaySeconds": 20}
    w = world(made)
    w.run(5)
    assert w.pod()["status"]["phase"] == "Succeeded"
    w.run(60)
    assert (len(w.written), conditions(w.pod())["Ready"]) == (2, "False")


def test_a_pod_may_say_its_own_delay() -> None:
    w = world(pod(notes_={"start_delay": "1m"}))
    w.run(59)
    assert w.pod()["status"]["phase"] == "Pending"
    w.run(1)
    assert w.pod()["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("given", "phase", "code", "seconds"),
    [
        ({"command": "sleep 5"}, "Succeeded", 0, 5),
        ({"command": "sleep 5; exit 3"}, "Failed", 3, 5),
        ({"notes_": {"run_time": "7s"}}, "Succeeded", 0, 7),
        ({"notes_": {"run_time": "7s", "exit_code": "2"}}, "Failed", 2, 7),
        ({"command": "sleep 100", "notes_": {"run_time.c": "2s", "run_time": "50s"}}, "Succeeded", 0, 2),
        ({"command": "sleep 4", "notes_": {"exit_code": "9"}}, "Failed", 9, 4),
        ({"notes_": {"exit_code": "9"}}, "Failed", 9, 5),
    ],
)
def test_a_pod_runs_for_the_time_that_is_said_and_ends_as_is_said(
    given: dict[str, Any], phase: str, code: int, seconds: float
) -> None:
    w = world(pod(restart="Never", **given))
    w.run(seconds - 0.1)
    assert w.pod()["status"]["phase"] == "Running"
    w.run(0.1)
    assert w.phases["p"] == ["Pending", "Running", phase]
    assert ended(w.pod())["exitCode"] == code
    assert ended(w.pod())["reason"] == ("Error" if code else "Completed")
    assert conditions(w.pod())["Ready"] == "False"
    assert len(w.written) == 2


def test_what_no_one_gives_a_time_runs_for_ever_but_for_batch_jobs() -> None:
    def owned(group: str) -> dict[str, Any]:
        return {"ownerReferences": [{"kind": "Job", "apiVersion": group, "name": "j", "uid": "u"}]}

    w = world(
        pod("alone", restart="Never"),
        pod("batch", restart="Never", metadata=owned("batch/v1")),
        pod("gang", restart="OnFailure", metadata=owned("batch.volcano.sh/v1alpha1")),
    )
    w.run(86400)
    assert {name: phases[-1] for name, phases in w.phases.items() if name != "node-0"} == {
        "alone": "Running",
        "batch": "Succeeded",
        "gang": "Running",
    }


def test_the_reason_of_an_end_can_be_said() -> None:
    w = world(pod(restart="Never", notes_={"run_time": "1s", "exit_code": "137", "exit_reason": "OOMKilled"}))
    w.run(1)
    assert (ended(w.pod())["reason"], ended(w.pod())["exitCode"]) == ("OOMKilled", 137)


def test_containers_that_fail_are_restarted_at_once_and_then_with_growing_pauses() -> None:
    w = world(pod(restart="OnFailure", command="sleep 2; exit 1"))
    starts = set()
    for _ in range(700):
        w.run(1)
        starts.add((state(w.pod()).get("running") or {}).get("startedAt", ""))
    seconds = sorted(int(text[14:16]) * 60 + int(text[17:19]) for text in starts - {""})
    assert [later - earlier - 2 for earlier, later in itertools.pairwise(seconds)] == [
        0,
        10,
        20,
        40,
        80,
        160,
        300,
    ]
    assert w.phases["p"] == ["Pending", "Running"]
    status = w.pod()["status"]["containerStatuses"][0]
    assert status["restartCount"] == 7
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["lastState"]["terminated"]["exitCode"] == 1


def test_a_container_that_waits_for_its_restart_makes_the_pod_unready() -> None:
    w = world(pod(command="exit 1"))
    w.run(1)
    assert conditions(w.pod())["Ready"] == "False"
    assert w.pod()["status"]["phase"] == "Running"


def test_a_restart_policy_of_always_restarts_what_succeeds() -> None:
    w = world(pod(command="sleep 1"))
    w.run(5)
    assert w.pod()["status"]["phase"] == "Running"
    assert w.pod()["status"]["containerStatuses"][0]["restartCount"] == 1


def test_one_of_several_containers_ends_and_the_pod_runs_until_the_last() -> None:
    containers = [
        {"name": "short", "image": "i", "command": ["sleep", "1"]},
        {"name": "long", "image": "i", "command": ["sleep", "3"]},
    ]
    w = world(pod(restart="Never", containers=containers))
    w.run(1)
    assert ended(w.pod())["exitCode"] == 0
    assert "running" in state(w.pod(), 1)
    assert w.pod()["status"]["phase"] == "Running"
    w.run(2)
    assert w.pod()["status"]["phase"] == "Succeeded"


def test_init_containers_run_one_after_another_before_the_others() -> None:
    inits = [
        {"name": "one", "image": "i", "command": ["sleep", "2"]},
        {"name": "two", "image": "i", "command": ["sleep", "3"]},
    ]
    w = world(pod(initContainers=inits, notes_={"run_time": "1h"}))
    w.run()
    assert "running" in state(w.pod(), 0, "initContainerStatuses")
    assert state(w.pod(), 1, "initContainerStatuses") == {"waiting": {"reason": "PodInitializing"}}
    assert conditions(w.pod())["Initialized"] == "False"
    w.run(2)
    assert ended(w.pod(), 0, "initContainerStatuses")["exitCode"] == 0
    assert "running" in state(w.pod(), 1, "initContainerStatuses")
    w.run(2.9)
    assert w.pod()["status"]["phase"] == "Pending"
    w.run(0.1)
    assert w.pod()["status"]["phase"] == "Running"
    assert conditions(w.pod())["Initialized"] == "True"
    assert [each["ready"] for each in w.pod()["status"]["initContainerStatuses"]] == [True, True]


def test_a_failing_init_container_fails_a_pod_that_is_never_restarted() -> None:
    w = world(pod(restart="Never", initContainers=[{"name": "one", "image": "i", "command": ["false"]}]))
    w.run(1)
    assert w.phases["p"] == ["Pending", "Failed"]


def test_a_failing_init_container_holds_up_a_pod_that_may_be_restarted() -> None:
    w = world(pod(initContainers=[{"name": "one", "image": "i", "command": ["false"]}]))
    w.run(100)
    assert w.phases["p"] == ["Pending"]
    assert state(w.pod(), 0, "initContainerStatuses")["waiting"]["reason"] == "CrashLoopBackOff"


def test_a_sidecar_runs_beside_the_others_and_ends_with_them() -> None:
    sidecar = {"name": "proxy", "image": "i", "restartPolicy": "Always"}
    w = world(pod(restart="Never", command="sleep 2", initContainers=[sidecar]))
    w.run()
    assert "running" in state(w.pod(), 0, "initContainerStatuses")
    w.run(2)
    assert w.pod()["status"]["phase"] == "Succeeded"
    assert ended(w.pod(), 0, "initContainerStatuses")["exitCode"] == 0


def test_a_pod_fails_at_its_deadline() -> None:
    w = world(pod(restart="Never", activeDeadlineSeconds=4))
    w.run(4)
    status = w.pod()["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert ended(w.pod())["exitCode"] == 137


@pytest.mark.parametrize(
    ("command", "phase", "code"),
    [("false", "Failed", 1), ("true", "Succeeded", 0), ("sleep 60", "Failed", 143), ("python train.py", "Failed", 143)],
)
def test_a_container_whose_time_is_over_ends_with_its_own_code_when_it_is_deleted(
    command: str, phase: str, code: int
) -> None:
    pods = Pods(run_time=60 * SECOND)
    w = World(pods)
    w.put(NODES, node())
    w.put(PODS, pod(restart="Never", command=command))
    first = next(each for each in pods.reconcile(Key("default", "p"), w, w.now).operations if isinstance(each, Patch))
    w.change(PODS, "p", first.patch, "default")
    assert w.pod()["status"]["phase"] == "Running"  # the node has not come to its end
    w.begin_delete("p")
    end = pods.reconcile(Key("default", "p"), w, w.now + 9 * SECOND).operations[0]
    assert isinstance(end, Patch)
    ended = end.patch["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (end.patch["status"]["phase"], ended["exitCode"]) == (phase, code)


# --- termination messages


@pytest.mark.parametrize(
    ("command", "said", "message"),
    [
        ("echo -n OK > /dev/termination-log", {}, "OK"),
        ("echo -n OK > /dev/mine", {"terminationMessagePath": "/dev/mine"}, "OK"),
        ("echo DONE; exit 1", {"terminationMessagePolicy": "FallbackToLogsOnError"}, "DONE"),
        ("echo DONE; exit 0", {"terminationMessagePolicy": "FallbackToLogsOnError"}, None),
        ("echo DONE; exit 1", {}, None),
    ],
)
def test_the_status_has_the_message_that_a_container_left(
    command: str, said: dict[str, str], message: str | None
) -> None:
    w = world(pod(restart="Never", containers=[{"name": "c", "image": "i", "command": ["sh", "-c", command], **said}]))
    w.run(1)
    assert w.pod()["status"]["containerStatuses"][0]["state"]["terminated"].get("message") == message


# --- deletion


def test_a_deleted_pod_goes_at_once() -> None:
    w = world(pod())
    w.run()
    w.begin_delete("p")
    w.run()
    assert w.list(PODS) == []
    last = w.written[-1]
    assert isinstance(last, Delete)
    assert last.grace == 0


def test_who_watches_sees_how_the_containers_of_a_deleted_pod_ended() -> None:
    w = world(pod())
    w.run()
    w.begin_delete("p")
    w.run()
    end, last = w.written[-2:]
    assert isinstance(end, Patch)
    assert isinstance(last, Delete)
    status = end.patch["status"]
    assert status["phase"] in ("Succeeded", "Failed")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


@pytest.mark.parametrize(("needs", "grace", "goes_after"), [("5s", 30, 5), ("2m", 30, 30)])
def test_a_deleted_pod_takes_its_time_within_its_grace_period(needs: str, grace: int, goes_after: int) -> None:
    w = world(pod(notes_={"stop_time": needs}))
    w.run()
    w.begin_delete("p", grace)
    w.run(goes_after - 0.1)
    assert w.pod()["status"]["phase"] == "Running"
    w.run(0.1)
    assert w.list(PODS) == []


@pytest.mark.parametrize(
    ("said", "grace", "goes_after"),
    [
        pytest.param({}, 30, 8, id="the longest hook"),
        pytest.param({}, 5, 5, id="no longer than the grace period"),
        pytest.param({"stop_time": "1s"}, 30, 1, id="unless the pod says it itself"),
    ],
)
def test_a_deleted_pod_sleeps_as_its_hooks_say(said: dict[str, str], grace: int, goes_after: int) -> None:
    made = pod(notes_=said)
    for name, seconds in (("c", 3), ("d", 8)):
        hook = {"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}}
        made["spec"]["containers"] += [{"name": name, "image": "i", **hook}] if name == "d" else []
        made["spec"]["containers"][0] |= hook if name == "c" else {}
    w = world(made)
    w.run()
    w.begin_delete("p", grace)
    w.run(goes_after - 0.1)
    assert w.pod()["status"]["phase"] == "Running"
    w.run(0.1)
    assert w.list(PODS) == []


def test_who_holds_a_deleted_pod_up_can_read_how_it_ended() -> None:
    w = world(pod(metadata={"finalizers": ["batch.kubernetes.io/job-tracking"]}))
    w.run()
    w.begin_delete("p")
    w.run(60)
    assert w.pod()["status"]["phase"] == "Failed"
    assert ended(w.pod())["exitCode"] == 143
    assert w.pod()["metadata"]["deletionGracePeriodSeconds"] == 0
    assert len(w.written) == 3


# --- whose pods, and whose status


def test_pods_elsewhere_are_not_touched() -> None:
    machine = node("real")
    machine["status"]["nodeInfo"]["bootID"] = "6f0d"
    w = world(pod("on-machine", node="real"), pod("nowhere", node="unknown"))
    w.put(NODES, machine)
    w.run(60)
    assert w.written == []


def test_a_node_may_say_that_it_is_simulated_or_not() -> None:
    machine = node("real", simulated="true")
    machine["status"]["nodeInfo"]["bootID"] = "6f0d"
    w = world(pod("mine", node="real"), pod("not-mine"), simulated="false")
    w.put(NODES, machine)
    w.run(60)
    assert [each.key.name for each in w.written if isinstance(each, Patch)] == ["mine"]
    assert len(w.written) == 1


def test_a_pod_starts_once_its_node_is_there_and_ready() -> None:
    w = world(pod(node="later"))
    w.run(15)
    w.put(NODES, node("later", ready=False))
    w.run(10)
    assert w.written == []
    w.put(NODES, node("later"))
    w.run(10)
    assert w.pod()["status"]["phase"] == "Running"


def test_a_node_that_comes_back_ends_a_pod_that_was_being_deleted_and_marked_as_failed_meanwhile() -> None:
    w = world(pod())
    w.run()
    w.remove(NODES, "node-0")
    w.begin_delete("p")
    w.change(PODS, "p", {"status": {"phase": "Failed"}}, "default")
    w.run(60)
    assert w.pod()["status"]["phase"] == "Failed"
    w.put(NODES, node(ready=True))
    w.run(30)
    assert w.list(PODS) == []


def test_on_a_silent_node_nothing_happens_until_it_speaks_again() -> None:
    w = world(pod(restart="Never", command="sleep 5"))
    w.run()
    w.change(NODES, "node-0", {"metadata": {"annotations": notes({"node_state": "silent"})}})
    w.begin_delete("p")
    w.run(60)
    assert w.pod()["status"]["phase"] == "Running"
    w.change(NODES, "node-0", {"metadata": {"annotations": None}})
    w.run(10)
    assert w.list(PODS) == []


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed", "reason": "Evicted"},
        {"phase": "Succeeded"},
        {"phase": "Running"},
        {"phase": "Running", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0}}}]},
        {
            "phase": "Pending",
            "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}],
        },
        {"phase": "Unknown"},
    ],
)
def test_a_status_that_somebody_else_has_set_stays(status: dict[str, Any]) -> None:
    given = pod(restart="Never", command="sleep 1")
    given["status"] = status
    w = world(given)
    w.run(600)
    assert w.pod()["status"] == status
    assert w.written == []


def test_conditions_of_others_stay() -> None:
    w = world(pod())
    w.run()
    theirs = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    w.change(PODS, "p", {"status": {"conditions": [*w.pod()["status"]["conditions"], theirs]}}, "default")
    w.change(PODS, "p", {"spec": {"activeDeadlineSeconds": 1}}, "default")
    w.run(2)
    assert w.pod()["status"]["phase"] == "Failed"
    assert theirs in w.pod()["status"]["conditions"]


def test_a_status_is_only_written_over_the_one_that_was_read() -> None:
    w = world(pod())
    (wanted,) = Pods().reconcile(Key("default", "p"), w, w.now).operations
    assert isinstance(wanted, Patch)
    assert wanted.version == w.pod()["metadata"]["resourceVersion"]


def test_annotations_that_make_no_sense_are_ignored_and_told() -> None:
    w = world(pod(restart="Never", command="sleep 1", notes_={"run_time": "5 minutes", "exit_code.c": "256"}))
    w.run(1)
    assert w.pod()["status"]["phase"] == "Succeeded"
    assert w.records == [
        'Warning InvalidAnnotation: ignored: kilauea.dev/exit-code.c: invalid exit code "256": use 0 to 255',
        'Warning InvalidAnnotation: ignored: kilauea.dev/run-time: invalid duration "5 minutes": use e.g. 30s or 1h30m',
    ]


def test_the_same_pod_always_gets_the_same_address() -> None:
    addresses = set()
    for _ in range(2):
        w = world(pod(metadata={"uid": "7d1e0c5a"}))
        w.run()
        addresses.add(w.pod()["status"]["podIP"])
    assert len(addresses) == 1


def test_times_are_whole_seconds() -> None:
    w = world(pod(restart="Never", command="sleep 1"))
    w.now = START + SECOND * 9 // 10
    w.run(2)
    assert ended(w.pod())["startedAt"] == "2026-01-01T00:00:00Z"
    assert ended(w.pod())["finishedAt"] == "2026-01-01T00:00:01Z"


def test_a_container_waits_for_an_image_that_its_node_cannot_pull() -> None:
    w = world(pod(), missing_images="web:404, busybox:1.36")
    w.run()
    message = 'Back-off pulling image "busybox:1.36"'
    assert state(w.pod()) == {"waiting": {"reason": "ImagePullBackOff", "message": message}}
    assert (w.pod()["status"]["phase"], conditions(w.pod())["Ready"]) == ("Pending", "False")
    w.run(60)
    assert len(w.written) == 1
    w.change(NODES, "node-0", {"metadata": {"annotations": {"kilauea.dev/missing-images": "web:404"}}})
    w.run(10)
    assert w.phases["p"] == ["Pending", "Running"]


def test_an_init_container_without_an_image_holds_up_the_others() -> None:
    made = pod(initContainers=[{"name": "first", "image": "web:404"}])
    w = world(made, missing_images="web:404")
    w.run(20)
    assert state(w.pod(), part="initContainerStatuses")["waiting"]["reason"] == "ImagePullBackOff"
    assert state(w.pod()) == {"waiting": {"reason": "PodInitializing"}}


def test_a_pod_that_waits_for_an_image_can_be_deleted() -> None:
    w = world(pod(), missing_images="busybox:1.36")
    w.run()
    w.begin_delete("p")
    w.run()
    assert w.get(PODS, Key("default", "p")) is None


def with_port(name: str, number: int = 80, second: int = 0, **more: Any) -> dict[str, Any]:
    """A pod that wants a port of its node."""
    port = {"containerPort": 80, "hostPort": number, **more}
    created = {"name": name, "namespace": "default", "creationTimestamp": f"2026-01-01T00:00:0{second}Z"}
    return pod(name, metadata=created, containers=[{"name": "c", "image": "i", "ports": [port]}])


def test_the_later_of_two_pods_with_a_port_of_the_node_fails() -> None:
    w = world(with_port("late", second=1), with_port("early"))
    w.run()
    status = w.pod("late")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "NodePorts")
    assert "didn't have free ports for the requested pod ports" in status["message"]
    assert w.phases["early"] == ["Pending", "Running"]


@pytest.mark.parametrize("other", [{"number": 81}, {"protocol": "UDP"}, {"hostIP": "10.0.0.2"}])
def test_ports_that_differ_do_not_collide(other: dict[str, Any]) -> None:
    w = world(with_port("early", hostIP="10.0.0.1"), with_port("late", second=1, **{"hostIP": "10.0.0.1", **other}))
    w.run()
    assert w.phases["late"] == ["Pending", "Running"]


@pytest.mark.parametrize("first", ["", "0.0.0.0", "10.0.0.1"])
@pytest.mark.parametrize("second", ["", "0.0.0.0"])
def test_a_port_at_all_addresses_collides_with_it_at_one(first: str, second: str) -> None:
    for one, other in ((first, second), (second, first)):
        w = world(with_port("early", hostIP=one), with_port("late", second=1, hostIP=other))
        w.run()
        assert w.pod("late")["status"]["reason"] == "NodePorts"


def test_a_port_is_free_again_when_the_pod_has_ended() -> None:
    ended = with_port("early")
    ended["status"]["phase"] = "Succeeded"
    w = world(ended, with_port("late", second=1))
    w.run()
    assert w.phases["late"] == ["Pending", "Running"]


DEBUGGER = {"name": "debugger", "image": "busybox:1.36", "command": ["sh", "-c", "echo looking; sleep 60; exit 3"]}


def with_ephemeral_container(**fields: Any) -> World:
    """A pod that runs, to which a client has added an ephemeral container."""
    w = world(pod(**fields))
    w.run()
    running = w.pod()
    w.put(PODS, {**running, "spec": {**running["spec"], "ephemeralContainers": [DEBUGGER]}})
    return w


def test_an_ephemeral_container_starts_in_a_pod_that_runs_and_is_not_restarted() -> None:
    w = with_ephemeral_container()
    w.run()
    assert state(w.pod(), part="ephemeralContainerStatuses") == {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    assert PodLogs(w).read("default", "p", "debugger", False, w.now).lines[-1].text == "looking"
    w.run(60)
    assert ended(w.pod(), part="ephemeralContainerStatuses")["exitCode"] == 3
    assert w.pod()["status"]["phase"] == "Running"
    w.run(600)
    assert ended(w.pod(), part="ephemeralContainerStatuses")["exitCode"] == 3


def test_an_ephemeral_container_does_not_keep_a_pod_from_ending_and_is_killed_with_it() -> None:
    w = with_ephemeral_container(command="sleep 5", restart="Never")
    w.run(5)
    assert w.pod()["status"]["phase"] == "Succeeded"
    assert ended(w.pod(), part="ephemeralContainerStatuses")["exitCode"] == 137


def test_a_node_says_which_generation_of_a_pod_it_has_seen() -> None:
    w = world(pod(metadata={"generation": 1}))
    w.run()
    assert len(w.written) == 1
    assert generations(w.pod()) == {1}
    changed = w.pod()
    w.put(PODS, {**changed, "metadata": {**changed["metadata"], "generation": 2}})
    w.run()
    assert generations(w.pod()) == {2}
    w.run(60)
    assert len(w.written) == 2


def generations(obj: dict[str, Any]) -> set[int]:
    """All that the status of a pod says about its generation."""
    status = obj["status"]
    return {status["observedGeneration"], *(each["observedGeneration"] for each in status["conditions"])}


@pytest.mark.parametrize(
    ("code", "of_pod", "of_container", "rule", "restarts"),
    [
        (1, "Never", {"restartPolicy": "OnFailure"}, None, True),
        (0, "Never", {"restartPolicy": "OnFailure"}, None, False),
        (1, "Always", {"restartPolicy": "Never"}, None, False),
        (42, "Never", {"restartPolicy": "Never"}, ("In", [42]), True),
        (1, "Never", {"restartPolicy": "Never"}, ("In", [42]), False),
        (1, "Always", {"restartPolicy": "Never"}, ("NotIn", [42]), True),
    ],
)
def test_a_container_restarts_by_its_own_policy_before_that_of_its_pod(
    code: int, of_pod: str, of_container: dict[str, Any], rule: tuple[str, list[int]] | None, restarts: bool
) -> None:
    made = pod(command=f"sleep 1; exit {code}", restart=of_pod)
    made["spec"]["containers"][0] |= of_container
    if rule is not None:
        codes = {"operator": rule[0], "values": rule[1]}
        made["spec"]["containers"][0]["restartPolicyRules"] = [{"action": "Restart", "exitCodes": codes}]
    w = world(made)
    w.run(60)
    assert (w.pod()["status"]["containerStatuses"][0]["restartCount"] > 0) is restarts
    assert (w.pod()["status"]["phase"] in ("Succeeded", "Failed")) is not restarts


def rules(code: int) -> dict[str, Any]:
    """Rules by which all containers of a pod start again after an exit code."""
    codes = {"operator": "In", "values": [code]}
    rule = {"action": "RestartAllContainers", "exitCodes": codes}
    return {"restartPolicy": "Never", "restartPolicyRules": [rule]}


def test_a_rule_lets_all_containers_of_a_pod_start_again() -> None:
    made = pod(command="sleep 20; exit 42", restart="Never")
    made["spec"]["containers"][0] |= rules(42)
    made["spec"]["containers"].append({"name": "other", "image": "i", "command": ["sleep", "1000"]})
    made["spec"]["initContainers"] = [{"name": "init", "image": "i", "command": ["sleep", "3"]}]
    w = world(made)
    w.run(22)
    main, other = w.pod()["status"]["containerStatuses"]
    assert ("running" in main["state"], "running" in other["state"], other["restartCount"]) == (True, True, 0)
    assert conditions(w.pod())["AllContainersRestarting"] == "False"
    w.run(3)
    (init,) = w.pod()["status"]["initContainerStatuses"]
    assert ("running" in init["state"], init["restartCount"], w.pod()["status"]["phase"]) == (True, 1, "Pending")
    assert conditions(w.pod())["Initialized"] == "True"
    w.run(4)
    main, other = w.pod()["status"]["containerStatuses"]
    assert ("running" in main["state"], main["restartCount"], other["restartCount"]) == (True, 1, 1)
    assert main["lastState"]["terminated"]["exitCode"] == 42
    assert other["lastState"]["terminated"]["reason"] == "RestartingAllContainers"
    assert w.pod()["status"]["phase"] == "Running"


def test_a_container_that_lets_all_start_again_at_once_backs_off() -> None:
    made = pod(command="exit 42", restart="Never")
    made["spec"]["containers"][0] |= rules(42)
    w = world(made)
    w.run(5)
    assert w.pod()["status"]["containerStatuses"][0]["restartCount"] == 1
    w.run(8)
    assert w.pod()["status"]["containerStatuses"][0]["restartCount"] == 2
    assert w.pod()["status"]["phase"] == "Running"


# --- what a node refuses, and what makes a pod ready


@pytest.mark.parametrize(("system", "phase"), [("windows", "Failed"), ("linux", "Running")])
def test_a_node_refuses_a_pod_for_another_system(system: str, phase: str) -> None:
    w = world(pod(os={"name": system}))
    w.run()
    status = w.pod()["status"]
    assert (status["phase"], status.get("reason")) == (phase, "PodOSNotSupported" if phase == "Failed" else None)


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("net.ipv4.tcp_syncookies", {}, ""),
        ("kernel/shm_rmid_forced", {}, ""),
        ("kernel.msgmax", {}, '"kernel.msgmax" not allowlisted'),
        ("net/core/somaxconn", {}, '"net.core.somaxconn" not allowlisted'),
        ("net.ipv4.tcp_wmem", {"hostNetwork": True}, '"net.ipv4.tcp_wmem" not allowed with host Net enabled'),
        ("kernel.shm_rmid_forced", {"hostIPC": True}, '"kernel.shm_rmid_forced" not allowed with host IPC enabled'),
    ],
)
def test_a_node_refuses_kernel_parameters_that_are_not_safe(name: str, fields: dict[str, Any], message: str) -> None:
    w = world(pod(securityContext={"sysctls": [{"name": name, "value": "1"}]}, **fields))
    w.run()
    status = w.pod()["status"]
    assert (status["phase"], status.get("reason")) == (("Failed", "SysctlForbidden") if message else ("Running", None))
    assert status.get("message", "") == (f"Pod was rejected: forbidden sysctl: {message}" if message else "")


def test_a_pod_is_ready_when_its_readiness_gates_are_open() -> None:
    w = world(pod(readinessGates=[{"conditionType": "a.io/one"}, {"conditionType": "a.io/two"}]))
    w.run()
    assert (conditions(w.pod())["ContainersReady"], conditions(w.pod())["Ready"]) == ("True", "False")
    (ready,) = [each for each in w.pod()["status"]["conditions"] if each["type"] == "Ready"]
    assert ready["reason"] == "ReadinessGatesNotReady"
    assert ready["message"] == (
        'corresponding condition of pod readiness gate "a.io/one" does not exist., '
        'corresponding condition of pod readiness gate "a.io/two" does not exist.'
    )
    for verdict in ("True", "False"):
        known = [each for each in w.pod()["status"]["conditions"] if not each["type"].startswith("a.io/")]
        gates = [{"type": f"a.io/{each}", "status": verdict} for each in ("one", "two")]
        w.change(PODS, "p", {"status": {"conditions": [*known, *gates]}}, "default")
        w.run()
        assert conditions(w.pod())["Ready"] == verdict
        assert conditions(w.pod())["ContainersReady"] == "True"
    written = len(w.written)
    w.run()
    assert len(w.written) == written


def test_a_pod_whose_image_is_mended_starts() -> None:
    w = world(pod(containers=[{"name": "c", "image": "webb"}]), missing_images="webb, wbe")
    w.run()
    for wrong in ("webb", "wbe"):
        w.change(PODS, "p", {"spec": {"containers": [{"name": "c", "image": wrong}]}}, "default")
        w.run()
        assert state(w.pod()) == {
            "waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{wrong}"'}
        }
    w.change(PODS, "p", {"spec": {"containers": [{"name": "c", "image": "web"}]}}, "default")
    w.run()
    (container,) = w.pod()["status"]["containerStatuses"]
    assert (container["image"], container["restartCount"]) == ("web", 0)
    assert "running" in container["state"]
    assert w.pod()["status"]["phase"] == "Running"


@pytest.mark.parametrize("restart", ["Always", "Never"])
def test_a_container_that_gets_another_image_is_restarted_with_it(restart: str) -> None:
    w = world(pod(restart=restart, notes_={"run-time": "1h"}))
    w.run(5)
    first = w.pod()["status"]["containerStatuses"][0]["containerID"]
    w.change(PODS, "p", {"spec": {"containers": [{"name": "c", "image": "busybox:1.37"}]}}, "default")
    w.run(5)
    (container,) = w.pod()["status"]["containerStatuses"]
    assert (container["image"], container["restartCount"], container["ready"]) == ("busybox:1.37", 1, True)
    assert container["lastState"]["terminated"]["containerID"] == first
    assert state(w.pod()) == {"running": {"startedAt": "2026-01-01T00:00:05Z"}}
    assert w.pod()["status"]["phase"] == "Running"


def test_a_container_that_another_program_has_run_is_not_restarted_for_the_way_its_image_is_written() -> None:
    made = pod()
    w = world(made)
    w.run()
    entry = {**w.pod()["status"]["containerStatuses"][0], "image": "docker.io/busybox:1.36", "containerID": "cri://1"}
    w.change(PODS, "p", {"status": {"containerStatuses": [entry]}}, "default")
    written = len(w.written)
    w.run(60)
    assert len(w.written) == written


def by_hand(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    """A pod that was created with the name of its node."""
    made = pod(name, containers=[{"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}], **more)
    return {**made, "status": {"phase": "Pending"}}


def test_a_pod_that_no_scheduler_has_placed_is_refused_if_there_is_no_room() -> None:
    w = world()
    w.node()["status"]["allocatable"]["cpu"] = "4"
    w.put(PODS, by_hand("a", "3"))
    w.run(1)
    w.put(PODS, by_hand("b", "2"))
    w.run(1)
    w.put(PODS, by_hand("c", "1"))
    w.run(1)
    assert [w.pod(name)["status"]["phase"] for name in "abc"] == ["Running", "Failed", "Running"]
    status = w.pod("b")["status"]
    assert status["reason"] == "OutOfcpu"
    message = "Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"
    assert status["message"] == f"Pod was rejected: {message}"


def test_a_pod_that_is_larger_than_its_node_is_refused_although_it_was_bound() -> None:
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": "1T"}}}
    w = world(pod(containers=[container]))
    w.run()
    assert (w.pod()["status"]["phase"], w.pod()["status"]["reason"]) == ("Failed", "OutOfcpu")
