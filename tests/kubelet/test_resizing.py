"""Containers that run for real get other amounts of cpu and memory, as the statuses of their pods tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilauea.api.kinds import PODS
from kilauea.api.ports import Key
from kilauea.kubelet.container_runtime import Usage
from support.kubelets import KubeletWorld, kubelet_world, pod

RESTARTED = [
    {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    {"resourceName": "memory", "restartPolicy": "RestartContainer"},
]


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[KubeletWorld]:
    with kubelet_world(tmp_path) as world:
        yield world


def amounts(cpu: str, memory: str) -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


def create(kubelet: KubeletWorld, name: str, cpu: str, memory: str, **main: Any) -> None:
    restart = main.pop("restart", "Always")
    main = {"resources": amounts(cpu, memory), **main}
    kubelet.create(pod(name, ["run", "forever"], restart=restart, main=main))


def resize(kubelet: KubeletWorld, name: str, cpu: str, memory: str) -> None:
    patch = {"spec": {"containers": [{"name": "main", "resources": amounts(cpu, memory)}]}}
    kubelet.world.run(kubelet.world.calm.patch(PODS, Key("default", name), patch, "strategic", "resize"))
    kubelet.wait(1)


def conditions(kubelet: KubeletWorld, name: str = "a") -> dict[str, tuple[str | None, str]]:
    """Reason and message of the conditions about a resize."""
    found = kubelet.pod(name)["status"]["conditions"]
    return {
        each["type"].removeprefix("PodResize"): (each.get("reason"), each.get("message", ""))
        for each in found
        if each["type"].startswith("PodResize")
    }


def has(kubelet: KubeletWorld, name: str = "a") -> tuple[Any, Any]:
    """The resources that a container has, and those that are granted to it."""
    entry = kubelet.container(name)
    return entry.get("resources"), entry.get("allocatedResources")


def test_the_limits_of_a_running_container_change(kubelet: KubeletWorld) -> None:
    create(kubelet, "a", "1", "64Mi")
    assert has(kubelet) == (amounts("1", "64Mi"), amounts("1", "64Mi")["requests"])
    resize(kubelet, "a", "2", "128Mi")
    assert kubelet.runtime.asked == [f"resize main 2000 {128 << 20}"]
    assert has(kubelet) == (amounts("2", "128Mi"), amounts("2", "128Mi")["requests"])
    entry, status = kubelet.container("a"), kubelet.pod("a")["status"]
    assert (entry["restartCount"], conditions(kubelet)) == (0, {})
    assert status["observedGeneration"] == kubelet.pod("a")["metadata"]["generation"]
    kubelet.runtime.end(kubelet.runtime.started[0].id, 1)
    kubelet.wait(1)
    assert kubelet.runtime.started[1].limits.cpu == 2000


def test_a_resize_waits_for_room_and_a_restart_has_what_was_granted(kubelet: KubeletWorld) -> None:
    create(kubelet, "a", "1", "1Gi")
    create(kubelet, "b", "2", "1Gi")
    resize(kubelet, "a", "3", "1Gi")
    message = "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"
    assert conditions(kubelet) == {"Pending": ("Deferred", message)}
    assert [each for each in kubelet.events("a") if "Resize" in each] == [f"ResizeDeferred: {message}"]
    assert has(kubelet)[0] == amounts("1", "1Gi")
    create(kubelet, "c", "1", "1Gi")  # what a pod has is what counts for others
    assert kubelet.phase("c") == "Running"
    kubelet.stop()
    kubelet.runtime.end(kubelet.runtime.started[0].id, 1)
    kubelet.start()
    kubelet.wait(1)
    assert (kubelet.runtime.started[-1].name, kubelet.runtime.started[-1].limits.cpu) == ("main", 1000)
    kubelet.delete("b", 1)
    kubelet.delete("c", 1)
    kubelet.wait(3)
    assert (conditions(kubelet), has(kubelet)[0]) == ({}, amounts("3", "1Gi"))


def test_a_resize_that_no_node_of_this_size_has_is_infeasible(kubelet: KubeletWorld) -> None:
    create(kubelet, "a", "1", "64Mi")
    resize(kubelet, "a", "5", "64Mi")
    message = "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000"
    assert conditions(kubelet) == {"Pending": ("Infeasible", message)}
    resize(kubelet, "a", "1", "64Mi")
    assert (conditions(kubelet), kubelet.runtime.asked) == ({}, [])


def test_memory_is_not_taken_that_a_container_uses(kubelet: KubeletWorld) -> None:
    create(kubelet, "a", "1", "64Mi")
    id = kubelet.runtime.started[0].id
    kubelet.runtime.used[id] = Usage(0, 50 << 20, 1)
    resize(kubelet, "a", "1", "32Mi")
    words = f'attempting to set container "main" memory limit ({32 << 20}) below current usage ({50 << 20})'
    assert conditions(kubelet) == {"InProgress": ("Error", f"cannot decrease memory limits: {words}")}
    assert (has(kubelet)[0], kubelet.runtime.asked) == (amounts("1", "64Mi"), [])
    kubelet.wait(10)
    assert len([each for each in kubelet.events("a") if each.startswith("ResizeError")]) == 1
    kubelet.runtime.used[id] = Usage(0, 20 << 20, 1)
    kubelet.wait(3)
    assert (conditions(kubelet), has(kubelet)[0]) == ({}, amounts("1", "32Mi"))


@pytest.mark.parametrize("restart", ["Always", "OnFailure"])
def test_a_container_is_restarted_where_its_policy_says_so(kubelet: KubeletWorld, restart: str) -> None:
    create(kubelet, "a", "1", "64Mi", restart=restart, resizePolicy=RESTARTED)
    resize(kubelet, "a", "2", "64Mi")
    assert kubelet.container("a")["restartCount"] == 0
    resize(kubelet, "a", "2", "128Mi")
    assert "Killing: Container main resize requires restart" in kubelet.events("a")
    assert (kubelet.container("a")["restartCount"], has(kubelet)[0]) == (1, amounts("2", "128Mi"))
    assert (kubelet.runtime.started[1].limits.memory, conditions(kubelet)) == (128 << 20, {})
