"""Rules by which all containers of a pod start again: `restartPolicyRules` with the action RestartAllContainers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.kubelets import KubeletWorld, container, kubelet_world, pod

RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
TRIGGER = {"restartPolicy": "Never", "restartPolicyRules": RULES}
FOREVER = ("run", "forever")


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[KubeletWorld]:
    with kubelet_world(tmp_path) as world:
        yield world


def end(kubelet: KubeletWorld, name: str, code: int) -> None:
    """End the run of a container."""
    kubelet.runtime.end([each.id for each in kubelet.runtime.started if each.name == name][-1], code)


def last_end(kubelet: KubeletWorld, name: str) -> tuple[int, str]:
    """Exit code and reason of the last run of a container of pod a."""
    found: dict[str, Any] = kubelet.container("a", name)["lastState"]["terminated"]
    return found["exitCode"], found["reason"]


def test_all_containers_of_a_pod_start_again_in_their_order(kubelet: KubeletWorld) -> None:
    inits = [container("init", ["run", "1", "0"]), container("sidecar", FOREVER, restartPolicy="Always")]
    hook = {"preStop": {"exec": {"command": ["say", "goodbye"]}}}
    beside = [container("other", FOREVER, lifecycle=hook)]
    kubelet.create(pod("a", FOREVER, main=TRIGGER, initContainers=inits, beside=beside))
    kubelet.wait(3)
    assert kubelet.condition("a", "AllContainersRestarting")["status"] == "False"
    address, once = kubelet.pod("a")["status"]["podIP"], ["init", "sidecar", "main", "other"]
    end(kubelet, "main", 42)
    kubelet.wait(3)
    assert kubelet.started() == once * 2
    assert [kubelet.container("a", name)["restartCount"] for name in once] == [1, 1, 1, 1]
    assert (last_end(kubelet, "main"), last_end(kubelet, "init")) == ((42, "Error"), (0, "Completed"))
    assert last_end(kubelet, "other") == last_end(kubelet, "sidecar") == (143, "RestartingAllContainers")
    assert (kubelet.phase("a"), kubelet.pod("a")["status"]["podIP"]) == ("Running", address)
    assert kubelet.condition("a", "Ready")["status"] == "True"
    assert kubelet.condition("a", "AllContainersRestarting")["status"] == "False"
    assert not [each for each in kubelet.runtime.asked if each.startswith("exec")]
    end(kubelet, "main", 0)
    end(kubelet, "other", 3)
    kubelet.wait(3)
    assert kubelet.phase("a") == "Failed"
    assert kubelet.condition("a", "AllContainersRestarting")["reason"] == "PodFailed"


def test_the_pod_says_that_its_containers_are_being_ended(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", FOREVER, main=TRIGGER, beside=[container("other", ["stubborn"])]))
    kubelet.wait(1)
    end(kubelet, "main", 42)
    kubelet.wait(1)
    restarting = kubelet.condition("a", "AllContainersRestarting")
    assert (restarting["status"], restarting["reason"]) == ("True", "RestartAllContainersStarted")
    assert kubelet.condition("a", "Initialized")["status"] == "True"
    assert (kubelet.phase("a"), kubelet.started()) == ("Running", ["main", "other"])
    kubelet.wait(2)
    assert kubelet.condition("a", "AllContainersRestarting")["status"] == "False"
    assert kubelet.started() == ["main", "other"] * 2
    assert last_end(kubelet, "other") == (137, "RestartingAllContainers")


def test_an_init_container_can_let_those_before_it_start_again(kubelet: KubeletWorld) -> None:
    inits = [container("first", ["run", "1", "0"]), container("second", FOREVER, **TRIGGER)]
    kubelet.create(pod("a", initContainers=inits))
    kubelet.wait(3)
    end(kubelet, "second", 42)
    kubelet.wait(3)
    assert kubelet.started() == ["first", "second"] * 2
    assert kubelet.phase("a") == "Pending"
    end(kubelet, "second", 0)
    kubelet.wait(1)
    assert (kubelet.phase("a"), kubelet.container("a")["restartCount"]) == ("Running", 0)


def test_another_exit_code_ends_the_pod_as_ever(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", ["run", "1", "41"], main=TRIGGER))
    kubelet.wait(3)
    assert (kubelet.phase("a"), kubelet.container("a")["restartCount"]) == ("Failed", 0)


def test_a_container_that_asks_for_it_again_and_again_backs_off(kubelet: KubeletWorld) -> None:
    beside = [container("other", FOREVER)]
    kubelet.create(pod("a", ["run", "1", "42"], main=TRIGGER, beside=beside))
    kubelet.wait(8)
    assert kubelet.started().count("main") == 2
    kubelet.wait(8)
    assert kubelet.started().count("main") == 3


def test_the_next_kubelet_completes_what_another_has_started(kubelet: KubeletWorld) -> None:
    kubelet.create(pod("a", FOREVER, main=TRIGGER, beside=[container("other", FOREVER)]))
    kubelet.wait(1)
    kubelet.stop()
    end(kubelet, "main", 42)
    kubelet.start()
    kubelet.wait(4)
    assert kubelet.started() == ["main", "other"] * 2
    assert last_end(kubelet, "other") == (143, "RestartingAllContainers")
