"""What `kubectl logs` shows of simulated containers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kilauea.api.kinds import CONFIG_MAPS, NODES, PODS, SECRETS, SERVICES
from kilauea.api.times import SECOND
from kilauea.nodes.logs import PodLogs
from kilauea.nodes.pods import Pods
from support.simulated import START, World, node, pod


def world(given: dict[str, Any], seconds: float = 0.0) -> World:
    made = World(Pods())
    made.put(NODES, node())
    made.put(PODS, given)
    made.run(seconds)
    return made


def read(w: World, container: str = "c", previous: bool = False) -> list[str]:
    return [line.text for line in PodLogs(w).read("default", "p", container, previous, w.now).lines]


def test_a_running_container_has_said_what_its_command_prints() -> None:
    assert read(world(pod(command="echo hello; sleep 60"))) == [
        "simulated container c started on node-0",
        "hello",
    ]


def test_a_container_that_has_ended_says_how() -> None:
    w = world(pod(restart="Never", command="sleep 2; exit 3"), 5)
    assert read(w)[-1] == "ended with exit code 3 (Error)"


def test_a_container_that_waits_for_its_restart_shows_its_last_run() -> None:
    assert read(world(pod(command="exit 1"), 1))[-1].endswith("ended with exit code 1 (Error)")


def test_nothing_is_shown_of_what_has_not_run() -> None:
    waiting = world(pod(notes_={"start_delay": "1h"}))
    assert read(waiting) == []
    assert read(waiting, "other") == []
    assert PodLogs(waiting).read("default", "unknown", "c", False, waiting.now).lines == ()
    assert PodLogs(waiting).read("default", "p", "c", False, waiting.now).waits == "ContainerCreating"


def test_lines_appear_when_the_command_has_come_to_them() -> None:
    w = world(pod(restart="Never", command="for i in 1 2 3; do echo step $i; sleep 2; done"), 3)
    log = PodLogs(w).read("default", "p", "c", False, w.now)
    assert [(line.moment - START, line.text) for line in log.lines[1:]] == [(0, "step 1"), (2 * SECOND, "step 2")]
    assert log.running
    w.run(4)
    log = PodLogs(w).read("default", "p", "c", False, w.now)
    assert [line.text for line in log.lines[-2:]] == ["step 3", "ended with exit code 0 (Completed)"]
    assert not log.running


def test_a_log_that_is_followed_ends_with_its_pod_although_a_new_one_started_in_the_same_second() -> None:
    w = world(pod(restart="Never", command="echo hello; sleep 2; echo bye"))
    log = PodLogs(w).open(w.pod("p"), "c", previous=False, tail=None, now=lambda: w.now)
    assert b"hello\n" in [entry.data for entry in log.read()]
    started = w.pod("p")["status"]["startTime"]
    w.remove(PODS, "p", "default")
    w.put(PODS, pod(restart="Never", command="echo hello; sleep 2; echo bye"))
    w.run(0)
    assert w.pod("p")["status"]["startTime"] == started
    w.run(5)
    assert (list(log.read()), log.ended) == ([], True)


def test_the_run_before_the_last_one_is_kept() -> None:
    w = world(pod(command="echo hello; sleep 2; exit 1"))
    assert read(w, previous=True) == []
    w.run(3)
    assert read(w, previous=True)[-1] == "ended with exit code 1 (Error)"
    assert read(w)[-1] == "hello"


def test_every_run_of_a_container_has_an_id_of_its_own() -> None:
    w = world(pod(command="sleep 2"))
    (first,) = w.pod()["status"]["containerStatuses"]
    w.run(3)
    (second,) = w.pod()["status"]["containerStatuses"]
    assert first["containerID"].startswith("simulated://")
    assert second["lastState"]["terminated"]["containerID"] == first["containerID"] != second["containerID"]


def test_no_two_containers_have_the_same_id() -> None:
    containers = [{"name": name, "image": "i"} for name in ("a", "b")]
    ids = []
    for uid in ("e2ba4495-51dd-4a13-8d25-2fc67631ac94", "110209b9-36e6-4b20-86ac-fa2bb1a80c4a"):
        given = pod(containers=containers)
        given["metadata"]["uid"] = uid
        ids += [each["containerID"] for each in world(given, 1).pod()["status"]["containerStatuses"]]
    assert len(set(ids)) == 4
    assert all(re.fullmatch("simulated://[0-9a-f]{64}", each) for each in ids)


def test_a_command_of_unknown_time_ends_and_its_log_says_when() -> None:
    w = world(pod(restart="Never", command="python train.py"), 6)
    assert w.pod()["status"]["phase"] == "Succeeded"
    assert read(w)[1] == "its command does not say how long it runs; it ends after 5s (kilauea.dev/run-time changes it)"


def test_the_default_end_can_be_set() -> None:
    for run_time, ended in ((60 * SECOND, 61), (0, None)):
        w = World(Pods(run_time=run_time))
        w.put(NODES, node())
        w.put(PODS, pod(restart="OnFailure", command="python train.py"))
        w.run(59)
        assert w.pod()["status"]["phase"] == "Running"
        w.run(1000)
        assert w.pod()["status"]["phase"] == ("Succeeded" if ended else "Running")


def test_pods_that_are_always_restarted_or_have_no_command_run_on() -> None:
    for given in (pod(command="python serve.py"), pod(restart="Never")):
        w = world(given, 10_000)
        assert w.pod()["status"]["phase"] == "Running"
        assert len(read(w)) == 1


def test_a_command_prints_what_objects_of_the_cluster_give_it() -> None:
    env = [
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "key"}}},
        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "BOTH", "value": "$(KEY)-$(CPUS)"},
    ]
    source = {"prefix": "p_", "secretRef": {"name": "settings"}}
    limits = {"limits": {"cpu": "2"}}
    main = {"name": "c", "image": "busybox", "env": env, "envFrom": [source], "resources": limits}
    w = World(Pods())
    w.put(NODES, node())
    w.put(
        CONFIG_MAPS,
        {"kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}, "data": {"key": "value"}},
    )
    w.put(
        SECRETS, {"kind": "Secret", "metadata": {"name": "settings", "namespace": "default"}, "data": {"s": "aGlkZGVu"}}
    )
    put_service(w, "older", "2025-12-31T00:00:00Z")
    put_service(w, "younger", "2026-06-01T00:00:00Z")
    put_service(w, "headless", "2025-12-31T00:00:00Z", "None")
    w.put(PODS, pod(restart="Never", containers=[{**main, "command": ["sh", "-c", "env"]}]))
    w.run(1)
    lines = read(w)
    assert lines[-1] == "ended with exit code 0 (Completed)"
    address = w.pod()["status"]["podIP"]
    wanted = {"KEY=value", "CPUS=2", f"ADDRESS={address}", "BOTH=value-2", "p_s=hidden", "HOSTNAME=p", "HOME=/root"}
    assert wanted <= set(lines)
    assert "OLDER_SERVICE_HOST=10.0.0.9" in lines
    assert not any(line.startswith(("YOUNGER", "HEADLESS")) for line in lines)


def test_a_command_prints_who_and_where_its_container_is() -> None:
    given = pod(restart="Never", command="echo $(hostname) on $HOSTNAME; id; sysctl kernel.shm_rmid_forced")
    of_pod = {"runAsUser": 1001, "runAsGroup": 2001, "fsGroup": 3001, "supplementalGroups": [4001]}
    given["spec"]["securityContext"] = {**of_pod, "sysctls": [{"name": "kernel/shm_rmid_forced", "value": "1"}]}
    given["spec"]["containers"][0]["securityContext"] = {"runAsUser": 1002}
    w = world(given, 1)
    assert w.pod()["status"]["phase"] == "Succeeded"
    assert read(w)[1:-1] == ["p on p", "uid=1002 gid=2001 groups=2001,4001,3001", "kernel.shm_rmid_forced = 1"]


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({}, "p p"),
        ({"hostname": "a", "subdomain": "s"}, "a a.s.default.svc.cluster.local"),
        ({"subdomain": "s", "setHostnameAsFQDN": True}, " ".join(["p.s.default.svc.cluster.local"] * 2)),
        ({"subdomain": "s", "hostnameOverride": "o.example"}, "o.example o.example"),
        ({"hostNetwork": True}, "node-0 node-0"),
    ],
)
def test_a_command_prints_the_names_of_its_host(spec: dict[str, Any], name: str) -> None:
    given = pod(restart="Never", command="echo $(hostname) $(hostname -f)")
    given["spec"].update(spec)
    assert read(world(given, 1))[1] == name


def put_service(w: World, name: str, created: str, address: str = "10.0.0.9") -> None:
    metadata = {"name": name, "namespace": "default", "creationTimestamp": created}
    w.put(SERVICES, {"kind": "Service", "metadata": metadata, "spec": {"clusterIP": address, "ports": [{"port": 80}]}})


def test_a_command_prints_what_its_pod_says_where_a_source_is_gone() -> None:
    gone = {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "gone", "key": "key"}}}
    main = {"name": "c", "image": "busybox", "env": [{"name": "A", "value": "1"}, gone]}
    w = World(Pods(waits_for_objects=False))
    w.put(NODES, node())
    w.put(PODS, pod(restart="Never", containers=[{**main, "command": ["sh", "-c", "echo $A$KEY"]}]))
    w.run(1)
    assert read(w)[1] == "1"
