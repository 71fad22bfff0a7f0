"""The lives of pods on this machine, as their statuses, their events and the runtime tell them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilauea.api.kinds import PODS
from kilauea.api.ports import Key
from kilauea.kubelet.container_config import oom_score_of
from kilauea.kubelet.storage import measurer
from support.kubelets import KubeletWorld, container, kubelet_world, pod, until_removed


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[KubeletWorld]:
    with kubelet_world(tmp_path, gpus=("GPU-a", "GPU-b")) as world:
        yield world


def test_a_pod_runs_and_completes(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["run", "5", "0"]))
    assert kubelet.phase("a") == "Running"
    assert kubelet.condition("a", "Ready")["status"] == "True"
    kubelet.wait(6)
    assert kubelet.phase("a") == "Succeeded"
    ended = kubelet.container("a")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert kubelet.condition("a", "Ready")["reason"] == "PodCompleted"
    assert [each.split(":")[0] for each in kubelet.events("a")] == ["Pulled", "Created", "Started"]


def test_a_start_and_an_end_that_follow_each_other_are_written_at_once(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["run", "0.01", "0"]))
    assert kubelet.phase("a") == "Succeeded"
    assert kubelet.condition("a", "Ready")["reason"] == "PodCompleted"
    short = int(kubelet.pod("a")["metadata"]["resourceVersion"])
    kubelet.create(pod("b", ["run", "0.1", "0"]))
    assert kubelet.phase("b") == "Succeeded"
    # The pod itself, and its status: once for the first, twice for the second.
    assert int(kubelet.pod("b")["metadata"]["resourceVersion"]) - short == 3


def test_ids_of_containers_begin_with_the_name_of_their_runtime(kubelet: KubeletWorld) -> None:
    kubelet.runtime.name = "other"
    kubelet.create(pod("a", ["run", "5", "0"]))
    (run,) = kubelet.runtime.started
    assert kubelet.container("a")["containerID"] == f"other://{run.id}"
    kubelet.wait(6)
    assert kubelet.container("a")["state"]["terminated"]["containerID"] == f"other://{run.id}"


def test_a_pod_that_fails_has_its_exit_code(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["run", "1", "3"]))
    kubelet.wait(2)
    assert kubelet.phase("a") == "Failed"
    assert kubelet.container("a")["state"]["terminated"]["exitCode"] == 3
    assert kubelet.condition("a", "Ready")["reason"] == "PodFailed"


def test_restarts_back_off_from_ten_seconds_to_five_minutes(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["run", "1", "1"], restart="Always"))
    kubelet.wait(3)
    main = kubelet.container("a")
    assert main["restartCount"] == 1
    assert main["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    uid = kubelet.pod("a")["metadata"]["uid"]
    message = f"back-off 10s restarting failed container=main pod=a_default({uid})"
    assert main["state"]["waiting"]["message"] == message
    assert main["lastState"]["terminated"]["exitCode"] == 1
    assert kubelet.phase("a") == "Running"
    kubelet.wait(3600)
    starts = [int(each.attempt) for each in kubelet.runtime.started]
    # After 0, 1, 12, 33, 74, 155, 316 seconds, and then every 301.
    assert starts == list(range(len(starts)))
    assert 16 <= len(starts) <= 19
    assert f"BackOff: Back-off restarting failed container main in pod a_default({uid})" in kubelet.events("a")


def test_the_back_off_is_forgotten_after_ten_minutes(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["run", "605", "1"], restart="Always"))
    kubelet.wait(606 * 4)
    assert kubelet.container("a")["restartCount"] >= 3
    assert not [each for each in kubelet.events("a") if each.startswith("BackOff")]


RULES = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]


@pytest.mark.parametrize(
    ("of_pod", "own", "code", "restarted"),
    [
        ("Never", {"restartPolicy": "Always"}, 1, True),
        ("Always", {"restartPolicy": "Never"}, 1, False),
        ("Never", {"restartPolicy": "OnFailure"}, 0, False),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": RULES}, 42, True),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": RULES}, 1, False),
        ("Always", {}, 1, True),
    ],
)
def test_the_restart_policy_and_rules_of_a_container_come_before_the_policy_of_its_pod(
    kubelet: KubeletWorld, of_pod: str, own: dict[str, Any], code: int, restarted: bool
) -> None:
    kubelet.create(pod("a", ["run", "1", str(code)], restart=of_pod, main=own))
    kubelet.wait(5)
    assert kubelet.container("a")["restartCount"] == int(restarted)
    assert kubelet.phase("a") == ("Running" if restarted else "Failed" if code else "Succeeded")


def test_on_failure_restarts_only_failures(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["run", "1", "0"], restart="OnFailure"), pod("b", ["run", "1", "2"], restart="OnFailure"))
    kubelet.wait(30)
    assert kubelet.phase("a") == "Succeeded"
    assert kubelet.phase("b") == "Running"
    assert kubelet.container("b")["restartCount"] == 2


def test_a_command_that_is_not_there_is_a_start_error(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["missing"]))
    assert kubelet.phase("a") == "Failed"
    ended = kubelet.container("a")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert 'exec: "missing": executable file not found in $PATH' in ended["message"]
    assert any(each.startswith("Failed: Error: exec:") for each in kubelet.events("a"))


def test_init_containers_run_in_order_before_the_others(kubelet: KubeletWorld) -> None:
    inits = [container("first", ["run", "5", "0"]), container("second", ["run", "5", "0"])]
    kubelet.create(pod("a", initContainers=inits))
    assert kubelet.started() == ["first"]
    assert kubelet.condition("a", "Initialized")["status"] == "False"
    assert kubelet.phase("a") == "Pending"
    assert kubelet.container("a")["state"]["waiting"]["reason"] == "PodInitializing"
    kubelet.wait(6)
    assert kubelet.started() == ["first", "second"]
    kubelet.wait(6)
    assert kubelet.started() == ["first", "second", "main"]
    assert kubelet.condition("a", "Initialized")["status"] == "True"
    assert kubelet.phase("a") == "Running"


def test_a_pod_fails_with_its_init_container_if_it_never_restarts(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", initContainers=[container("first", ["run", "1", "1"])]))
    kubelet.wait(2)
    assert kubelet.phase("a") == "Failed"
    assert kubelet.started() == ["first"]


def test_sidecars_start_first_and_end_last(kubelet: KubeletWorld) -> None:
    sidecars = [container(name, ["run", "forever"], restartPolicy="Always") for name in ("one", "two")]
    kubelet.create(pod("a", ["run", "5", "0"], initContainers=sidecars))
    assert kubelet.started() == ["one", "two", "main"]
    kubelet.wait(10)
    assert kubelet.phase("a") == "Succeeded"
    assert kubelet.runtime.asked == ["signal two 15", "signal one 15"]


def test_a_pod_is_deleted_once_its_containers_have_ended(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["stubborn"], terminationGracePeriodSeconds=20))
    kubelet.delete("a")
    kubelet.wait(18)
    assert kubelet.runtime.asked == ["signal main 15"]
    assert kubelet.find("a") is not None
    kubelet.wait(3)
    assert kubelet.runtime.asked == ["signal main 15", "kill main"]
    assert kubelet.find("a") is None
    assert "Killing: Stopping container main" in kubelet.events("a")
    assert not kubelet.runtime.states


def test_a_second_deletion_shortens_the_grace_period(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["stubborn"], terminationGracePeriodSeconds=600))
    kubelet.delete("a")
    kubelet.delete("a", grace=5)
    kubelet.wait(7)
    assert kubelet.find("a") is None


def test_a_pod_that_is_deleted_at_once_leaves_no_container(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["stubborn"]))
    kubelet.delete("a", grace=0)
    assert kubelet.find("a") is None
    kubelet.wait(5)
    assert not kubelet.runtime.states
    assert not list((kubelet.folder / "pods").glob("*"))


def test_the_pre_stop_hook_runs_before_the_signal(kubelet: KubeletWorld) -> None:
    kubelet.runtime.answers["drain"] = (0, "", 3.0)
    hook = {"preStop": {"exec": {"command": ["drain"]}}}
    kubelet.create(pod("a", main={"lifecycle": hook}))
    kubelet.delete("a")
    assert kubelet.runtime.asked == ["exec main drain"]
    kubelet.wait(8)
    assert kubelet.runtime.asked == ["exec main drain", "signal main 15"]
    assert kubelet.find("a") is None


def test_a_container_whose_post_start_hook_fails_is_killed(kubelet: KubeletWorld) -> None:
    kubelet.runtime.answers["prepare"] = (1, "no", 0.0)
    hook = {"postStart": {"exec": {"command": ["prepare"]}}}
    kubelet.create(pod("a", main={"lifecycle": hook}))
    kubelet.wait(2)
    assert "FailedPostStartHook: PostStartHook failed" in kubelet.events("a")
    assert kubelet.phase("a") == "Failed"


def test_the_deadline_of_a_pod_ends_it(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", activeDeadlineSeconds=10))
    kubelet.wait(12)
    status = kubelet.pod("a")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


def probe(command: str, **fields: int) -> dict[str, Any]:
    return {"exec": {"command": [command]}, "periodSeconds": 1, **fields}


def test_a_readiness_probe_decides_about_ready(kubelet: KubeletWorld) -> None:
    kubelet.runtime.answers["check"] = (1, "not yet", 0.0)
    kubelet.create(pod("a", main={"readinessProbe": probe("check")}))
    kubelet.wait(5)
    assert kubelet.condition("a", "Ready")["status"] == "False"
    assert "Unhealthy: Readiness probe failed: not yet" in kubelet.events("a")
    kubelet.runtime.answers["check"] = (0, "", 0.0)
    kubelet.wait(2)
    assert kubelet.condition("a", "Ready")["status"] == "True"


def test_a_liveness_probe_restarts_the_container(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", restart="Always", main={"livenessProbe": probe("check", failureThreshold=3)}))
    kubelet.wait(5)
    assert kubelet.container("a")["restartCount"] == 0
    kubelet.runtime.answers["check"] = (1, "stuck", 0.0)
    kubelet.wait(5)
    assert kubelet.container("a")["restartCount"] == 1
    assert "Killing: Container main failed liveness probe, will be restarted" in kubelet.events("a")


def test_a_probe_that_hangs_has_failed(kubelet: KubeletWorld) -> None:
    kubelet.runtime.answers["check"] = (0, "", 60.0)
    kubelet.create(pod("a", main={"readinessProbe": probe("check", timeoutSeconds=2)}))
    kubelet.wait(5)
    words = 'Unhealthy: Readiness probe failed: command timed out: "check" timed out after 2s'
    assert words in kubelet.events("a")


def test_other_probes_wait_for_the_startup_probe(kubelet: KubeletWorld) -> None:
    kubelet.runtime.answers["begin"] = (1, "", 0.0)
    main = {"startupProbe": probe("begin", failureThreshold=30), "livenessProbe": probe("check")}
    kubelet.create(pod("a", main=main))
    kubelet.wait(5)
    assert kubelet.container("a")["started"] is False
    assert "exec main check" not in kubelet.runtime.asked
    kubelet.runtime.answers["begin"] = (0, "", 0.0)
    kubelet.wait(3)
    assert kubelet.container("a")["started"] is True
    assert "exec main check" in kubelet.runtime.asked


def test_readiness_gates_keep_a_pod_unready(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", readinessGates=[{"conditionType": "example.com/gate"}]))
    ready = kubelet.condition("a", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ReadinessGatesNotReady")
    conditions = [*kubelet.pod("a")["status"]["conditions"], {"type": "example.com/gate", "status": "True"}]
    kubelet.patch(PODS, "a", {"status": {"conditions": conditions}}, "status")
    assert kubelet.condition("a", "Ready")["status"] == "True"


def test_a_missing_config_map_is_said_and_waited_for(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", main={"envFrom": [{"configMapRef": {"name": "settings"}}]}))
    waiting = kubelet.container("a")["state"]["waiting"]
    assert waiting == {"reason": "CreateContainerConfigError", "message": 'configmap "settings" not found'}
    assert 'Failed: Error: configmap "settings" not found' in kubelet.events("a")
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"MODE": "fast"}}
    kubelet.create(data)
    kubelet.wait(1)
    assert kubelet.phase("a") == "Running"
    assert kubelet.runtime.started[0].environment["MODE"] == "fast"


def test_a_missing_volume_is_said_and_waited_for(kubelet: KubeletWorld) -> None:
    volumes = [{"name": "keys", "secret": {"secretName": "keys"}}]
    kubelet.create(pod("a", volumes=volumes, main={"volumeMounts": [{"name": "keys", "mountPath": "/keys"}]}))
    said = 'FailedMount: MountVolume.SetUp failed for volume "keys" : secret "keys" not found'
    assert said in kubelet.events("a")
    assert kubelet.container("a")["state"]["waiting"]["reason"] == "ContainerCreating"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"id": "1"}}
    kubelet.create(secret)
    kubelet.wait(1)
    (mount,) = [each for each in kubelet.runtime.started[0].mounts if each.target == "/keys"]
    assert (Path(mount.source) / "id").read_text() == "1"
    assert mount.read_only
    kubelet.delete("a", grace=0)
    kubelet.wait(3)
    until_removed()
    assert not Path(mount.source).exists()


def test_volumes_that_show_fields_of_their_pod_follow_it(kubelet: KubeletWorld) -> None:
    items = [{"path": field, "fieldRef": {"fieldPath": f"metadata.{field}"}} for field in ("labels", "annotations")]
    volumes = [{"name": "pod", "projected": {"sources": [{"downwardAPI": {"items": items}}]}}]
    kubelet.create(pod("a", volumes=volumes, main={"volumeMounts": [{"name": "pod", "mountPath": "/pod"}]}))
    (mount,) = [each for each in kubelet.runtime.started[0].mounts if each.target == "/pod"]
    kubelet.patch(PODS, "a", {"metadata": {"labels": {"round": "2"}}})
    kubelet.wait(1)
    assert (Path(mount.source) / "labels").read_text() == 'round="2"'
    kubelet.patch(PODS, "a", {"metadata": {"annotations": {"note": "late"}}})
    kubelet.wait(1)
    assert 'note="late"' in (Path(mount.source) / "annotations").read_text()


def test_an_image_in_the_temporary_folder_of_the_machine_is_seen_in_containers(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", main={"image": "/tmp/venv"}), pod("b", main={"image": "/opt/venv"}))
    targets = [{each.target for each in run.mounts} for run in kubelet.runtime.started]
    assert ["/tmp/venv" in targets[0], "/opt/venv" in targets[1]] == [True, False]


def test_a_pod_for_which_there_is_no_room_is_refused(kubelet: KubeletWorld) -> None:
    big = {"resources": {"requests": {"cpu": "3"}}}
    kubelet.create(pod("a", main=big), pod("b", main=big))
    assert kubelet.phase("a") == "Running"
    status = kubelet.pod("b")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    amounts = "requested: 3000, used: 3000, capacity: 4000"
    assert status["message"] == f"Pod was rejected: Node didn't have enough resource: cpu, {amounts}"


def test_a_pod_with_kernel_parameters_that_are_not_safe_is_refused(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}))
    status = kubelet.pod("a")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "SysctlForbidden")
    assert status["message"] == 'Pod was rejected: forbidden sysctl: "kernel.msgmax" not allowlisted'


def test_devices_are_given_once_and_kept_over_restarts(kubelet: KubeletWorld) -> None:
    main = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    kubelet.create(pod("a", ["run", "1", "1"], restart="Always", main=main), pod("b", main=main), pod("c", main=main))
    kubelet.wait(5)
    seen = {(each.pod, each.environment["CUDA_VISIBLE_DEVICES"]) for each in kubelet.runtime.started}
    assert sorted(devices for _, devices in seen) == ["GPU-a", "GPU-b"]
    waiting = kubelet.container("c")["state"]["waiting"]
    assert "requested number of devices unavailable" in waiting["message"]
    kubelet.delete("b", grace=0)
    kubelet.wait(60)
    assert kubelet.phase("c") == "Running"


def test_containers_are_found_again_by_the_next_kubelet(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a"), pod("b", ["run", "30", "7"]), pod("c"))
    kubelet.stop()
    kubelet.wait(60)
    uid = kubelet.pod("c")["metadata"]["uid"]
    kubelet.world.run(kubelet.world.calm.delete(PODS, Key("default", "c"), grace=0))
    starts = len(kubelet.runtime.started)
    kubelet.start()
    kubelet.wait(5)
    assert kubelet.phase("a") == "Running"
    assert kubelet.container("a")["restartCount"] == 0
    assert len(kubelet.runtime.started) == starts
    ended = kubelet.container("b")["state"]["terminated"]
    assert ended["exitCode"] == 7
    assert ended["startedAt"] < ended["finishedAt"]
    assert not [each for each in kubelet.runtime.states.values() if each.pod == uid]


def test_containers_that_a_reboot_has_ended_are_restarted(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", restart="Always"), pod("b"))
    kubelet.stop()
    kubelet.runtime.reboot()
    kubelet.start()
    kubelet.wait(2)
    assert kubelet.container("a")["restartCount"] == 1
    last = kubelet.container("a")["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (137, "ContainerStatusUnknown")
    assert kubelet.phase("b") == "Failed"


def test_the_message_of_a_container_is_in_its_status(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["run", "5", "1"]))
    (mount,) = [each for each in kubelet.runtime.started[0].mounts if each.target == "/dev/termination-log"]
    Path(mount.source).write_text("out of luck")
    kubelet.wait(6)
    assert kubelet.container("a")["state"]["terminated"]["message"] == "out of luck"


def test_the_end_of_the_log_stands_in_for_a_message_if_wanted(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["run", "5", "1"], main={"terminationMessagePolicy": "FallbackToLogsOnError"}))
    log = kubelet.runtime.started[0].log
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("2026-01-02T03:04:05.0Z stderr F one\n2026-01-02T03:04:05.0Z stderr F two\n")
    kubelet.wait(6)
    assert kubelet.container("a")["state"]["terminated"]["message"] == "one\ntwo"


def test_what_is_not_enforced_is_said_once(kubelet: KubeletWorld) -> None:
    security = {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False}
    kubelet.create(pod("a", ["run", "1", "1"], restart="Always", main={"securityContext": security}))
    kubelet.wait(30)
    said = [each for each in kubelet.events("a") if each.startswith("NotEnforced")]
    fields = "capabilities"
    assert said == [f"NotEnforced: not enforced for pods that run as processes of this machine: {fields}"]


def test_fields_of_pods_that_are_not_enforced_are_named(kubelet: KubeletWorld) -> None:
    ports = [{"containerPort": 80, "hostPort": 80}]
    fields: dict[str, Any] = {"hostUsers": False, "dnsConfig": {"nameservers": ["192.0.2.1"]}}
    kubelet.create(pod("a", ["run", "1", "0"], main={"ports": ports}, **fields))
    kubelet.wait(5)
    (said,) = [each for each in kubelet.events("a") if each.startswith("NotEnforced")]
    assert said.endswith("of this machine: dnsConfig, hostPort, hostUsers")


@pytest.mark.parametrize(
    ("user", "groups", "said"),
    [(0, [5, 6, 7], []), (1000, [], ["fsGroup, supplementalGroups"])],
    ids=["root", "another user"],
)
def test_groups_of_a_pod_need_root(
    kubelet: KubeletWorld, monkeypatch: pytest.MonkeyPatch, user: int, groups: list[int], said: list[str]
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: user)
    kubelet.create(pod("a", ["run", "1", "0"], securityContext={"supplementalGroups": [5, 6], "fsGroup": 7}))
    kubelet.wait(5)
    assert list(kubelet.runtime.started[0].groups) == groups
    found = [each.rpartition(": ")[2] for each in kubelet.events("a") if each.startswith("NotEnforced")]
    assert found == said


def test_a_worker_that_fails_is_replaced(kubelet: KubeletWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    real = kubelet.runtime.start

    async def broken(container: Any) -> Any:
        raise ZeroDivisionError("unforeseen")

    monkeypatch.setattr(kubelet.runtime, "start", broken)
    kubelet.create(pod("a"))
    assert "FailedSync: Error syncing pod, skipping: unforeseen" in kubelet.events("a")
    monkeypatch.setattr(kubelet.runtime, "start", real)
    kubelet.wait(11)
    assert kubelet.phase("a") == "Running"


def test_only_the_logs_of_the_last_two_runs_are_kept(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["run", "1", "1"], restart="Always"))
    folder = kubelet.runtime.started[0].log.parent
    folder.mkdir(parents=True)
    for attempt in range(3):
        (folder / f"{attempt}.log").touch()
    (folder / "0.log.1").touch()
    kubelet.wait(20)
    assert kubelet.container("a")["restartCount"] == 2
    assert sorted(each.name for each in folder.iterdir()) == ["1.log", "2.log"]


def test_a_pod_that_overfills_a_volume_is_evicted(kubelet: KubeletWorld) -> None:
    volumes = [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}]
    kubelet.create(pod("a", volumes=volumes, main={"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}))
    (mount,) = [each for each in kubelet.runtime.started[0].mounts if each.target == "/scratch"]
    kubelet.wait(30)
    assert kubelet.phase("a") == "Running"
    (Path(mount.source) / "big").write_bytes(b"x" * (2 << 20))
    _until_measured(kubelet)
    status = kubelet.pod("a")["status"]
    message = 'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". '
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Evicted", message)
    assert f"Evicted: {message}" in kubelet.events("a")


def test_a_pod_that_uses_more_disk_space_than_its_containers_may_is_evicted(
    kubelet: KubeletWorld, tmp_path: Path
) -> None:
    def limits(size: str) -> dict[str, Any]:
        return {"resources": {"limits": {"ephemeral-storage": size}, "requests": {"ephemeral-storage": "0"}}}

    mounts = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}
    unlimited = container("unlimited", ["run", "forever"])
    kubelet.create(
        pod("in-volume", volumes=[{"name": "scratch", "emptyDir": {}}], main={**limits("2Mi"), **mounts}),
        pod("in-root", ["run", "forever", "stubborn"], main=limits("2Mi")),
        pod("beside", main=limits("2Mi"), beside=[{**unlimited, **limits("9Mi")}]),
        pod("free", beside=[unlimited]),
    )
    folders = {}
    for run in kubelet.runtime.started:
        if run.name == "main":
            folders[run.pod] = kubelet.runtime.written[run.id] = tmp_path / run.id
            folders[run.pod].mkdir()
    names = ("in-volume", "in-root", "beside", "free")
    roots = [folders[kubelet.pod(name)["metadata"]["uid"]] for name in names]
    for root in roots:
        (root / "half").write_bytes(b"x" * (1 << 20))
    _until_measured(kubelet)
    assert [kubelet.phase(name) for name in names] == ["Running"] * 4
    (volume,) = [each for run in kubelet.runtime.started for each in run.mounts if each.target == "/scratch"]
    (Path(volume.source) / "more").write_bytes(b"x" * (3 << 19))
    for root in roots[1:]:
        (root / "more").write_bytes(b"x" * (3 << 19))
    _until_measured(kubelet)
    assert [kubelet.phase(name) for name in names] == ["Failed", "Failed", "Failed", "Running"]
    total = "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "
    single = 'Container main exceeded its local ephemeral storage limit "2Mi". '
    assert [kubelet.pod(name)["status"]["message"] for name in names[:3]] == [total, total, single]
    assert {kubelet.pod(name)["status"]["reason"] for name in names[:3]} == {"Evicted"}


def _until_measured(kubelet: KubeletWorld) -> None:
    """Let the kubelet measure twice, as a measurement may have started before a change."""
    for _ in range(2):
        kubelet.wait(11)
        measurer.submit(int).result()
        kubelet.wait(2)


@pytest.mark.parametrize(
    ("quality", "request_", "priority", "score"),
    [
        ("BestEffort", "", 0, 1000),
        ("Burstable", "", 0, 999),
        ("Burstable", "2Gi", 0, 750),
        ("Burstable", "8Gi", 0, 3),
        ("Guaranteed", "2Gi", 0, 2),
        ("BestEffort", "", 2_000_001_000, 2),
    ],
)
def test_the_kernel_ends_pods_of_a_lower_class_first(quality: str, request_: str, priority: int, score: int) -> None:
    main = {"name": "main", "resources": {"requests": {"memory": request_}} if request_ else {}}
    found = {"spec": {"priority": priority, "containers": [main]}, "status": {"qosClass": quality}}
    assert oom_score_of(found, main, {"status": {"capacity": {"memory": "8Gi"}}}, 0) == score
    assert oom_score_of(found, main, {"status": {"capacity": {"memory": "8Gi"}}}, 200) == (
        score if score > 5 else score + 200
    )


def test_an_ephemeral_container_runs_beside_the_others(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["run", "60", "0"]))
    added = {"spec": {"ephemeralContainers": [container("debugger", ["run", "5", "1"])]}}
    kubelet.patch(PODS, "a", added, "ephemeralcontainers")
    assert kubelet.started() == ["main", "debugger"]
    (entry,) = kubelet.pod("a")["status"]["ephemeralContainerStatuses"]
    assert "running" in entry["state"]
    kubelet.wait(10)
    assert kubelet.phase("a") == "Running"
    assert kubelet.condition("a", "Ready")["status"] == "True"
    (entry,) = kubelet.pod("a")["status"]["ephemeralContainerStatuses"]
    assert entry["state"]["terminated"]["exitCode"] == 1
    kubelet.wait(60)
    assert kubelet.phase("a") == "Succeeded"


@pytest.mark.parametrize(
    ("image", "own", "words"),
    [
        ("of-user-", 1000, "container has runAsNonRoot and image will run as root"),
        ("of-user-0", 1000, "container has runAsNonRoot and image will run as root"),
        (
            "of-user-app",
            0,
            "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root",
        ),
        ("of-user-7", 0, ""),
        ("host", 0, "container has runAsNonRoot and image will run as root"),
        ("host", 1000, ""),
    ],
)
def test_the_user_of_an_image_must_not_be_root_where_the_pod_says_so(
    kubelet: KubeletWorld, monkeypatch: pytest.MonkeyPatch, image: str, own: int, words: str
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: own)
    main = {"image": image, "securityContext": {"runAsNonRoot": True}}
    kubelet.create(pod("a", ["run", "9", "0"], main=main))
    waiting = kubelet.container("a")["state"].get("waiting") or {}
    uid = kubelet.pod("a")["metadata"]["uid"]
    message = f'{words} (pod: "a_default({uid})", container: main)' if words else ""
    assert waiting.get("message", "") == message
    assert waiting.get("reason", "") == ("CreateContainerConfigError" if words else "")


def test_the_runtime_is_told_the_user_of_an_image(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["run", "9", "0"], main={"image": "of-user-app", "securityContext": {"runAsGroup": 6}}))
    (started,) = kubelet.runtime.started
    assert (started.user, started.group, started.image_user) == (None, 6, "app")


@pytest.mark.parametrize("is_down", [False, True], ids=["running", "restarted meanwhile"])
def test_a_container_that_gets_another_image_is_restarted(kubelet: KubeletWorld, is_down: bool) -> None:
    kubelet.create(pod("a", ["run", "forever"], restart="Never", main={"image": "of-user-1"}))
    if is_down:
        kubelet.stop()
    image = {"spec": {"containers": [{"name": "main", "image": "of-user-2"}]}}
    kubelet.world.run(kubelet.world.calm.patch(PODS, Key("default", "a"), image, "strategic"))
    if is_down:
        kubelet.start()
    kubelet.wait(2)
    assert [each.image_user for each in kubelet.runtime.started] == ["1", "2"]
    assert "Killing: Container main definition changed, will be restarted" in kubelet.events("a")
    entry = kubelet.container("a")
    assert (entry["image"], entry["restartCount"], "running" in entry["state"]) == ("of-user-2", 1, True)
    kubelet.wait(30)
    assert len(kubelet.runtime.started) == 2
