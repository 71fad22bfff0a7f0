"""Containers of simulated nodes get other amounts of cpu and memory while they run."""

from __future__ import annotations

from typing import Any

from kilauea.api.kinds import NODES, PODS
from kilauea.nodes.pods import Pods
from support.simulated import World, node, pod


def amounts(cpu: str, memory: str = "1Gi") -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


def sized(name: str, cpu: str, memory: str = "1Gi", **more: Any) -> dict[str, Any]:
    """A pod whose only container asks for so much."""
    container = {"name": "c", "image": "web", "resources": amounts(cpu, memory), **more.pop("container", {})}
    made = pod(name, containers=[container], **more)
    return {**made, "metadata": {**made["metadata"], "generation": 1}}


def world(*pods: dict[str, Any], cpu: str = "4") -> World:
    made = World(Pods())
    machine = node()
    machine["status"]["allocatable"] |= {"cpu": cpu, "memory": "16Gi"}
    made.put(NODES, machine)
    for each in pods:
        made.put(PODS, each)
    made.run()
    return made


def resize(w: World, name: str, cpu: str, memory: str = "1Gi") -> None:
    """Write other amounts as the server does, which counts the generation."""
    old = w.pod(name)
    container = {**old["spec"]["containers"][0], "resources": amounts(cpu, memory)}
    changed = {"metadata": {"generation": old["metadata"]["generation"] + 1}, "spec": {"containers": [container]}}
    w.change(PODS, name, changed, "default")
    w.run()


def has(w: World, name: str) -> str:
    """The cpu that the only container has."""
    return str(w.pod(name)["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"])


def pending(w: World, name: str) -> tuple[Any, Any] | None:
    """Reason and generation of the condition of a resize that waits."""
    for each in w.pod(name)["status"]["conditions"]:
        if each["type"] == "PodResizePending" and each["status"] == "True":
            return each["reason"], each["observedGeneration"]
    return None


def test_the_status_has_the_resources_of_containers_from_the_start() -> None:
    w = world(sized("p", "1"))
    (container,) = w.pod()["status"]["containerStatuses"]
    assert container["resources"] == amounts("1")
    assert container["allocatedResources"] == amounts("1")["requests"]


def test_a_resize_for_which_there_is_room_is_done_at_once_and_without_a_restart() -> None:
    w = world(sized("p", "1"))
    before = w.pod()["status"]["containerStatuses"][0]
    resize(w, "p", "2", "2Gi")
    status = w.pod()["status"]
    (after,) = status["containerStatuses"]
    assert after == {
        **before, "resources": amounts("2", "2Gi"), "allocatedResources": {"cpu": "2", "memory": "2Gi"}
    }  # fmt: skip
    assert (status["observedGeneration"], status["phase"], pending(w, "p")) == (2, "Running", None)


def test_a_container_that_cannot_be_resized_while_it_runs_is_restarted() -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
    policy.append({"resourceName": "memory", "restartPolicy": "RestartContainer"})
    w = world(sized("p", "1", container={"resizePolicy": policy}))
    first = w.pod()["status"]["containerStatuses"][0]["containerID"]
    resize(w, "p", "2")
    assert w.pod()["status"]["containerStatuses"][0]["restartCount"] == 0
    resize(w, "p", "2", "2Gi")
    (after,) = w.pod()["status"]["containerStatuses"]
    assert (after["restartCount"], after["resources"]) == (1, amounts("2", "2Gi"))
    assert after["lastState"]["terminated"]["containerID"] == first != after["containerID"]
    assert "running" in after["state"]
    assert w.pod()["status"]["phase"] == "Running"


def test_a_resize_beyond_the_node_is_infeasible_until_it_is_taken_back() -> None:
    w = world(sized("p", "1"), cpu="4")
    resize(w, "p", "5")
    assert (has(w, "p"), pending(w, "p")) == ("1", ("Infeasible", 2))
    (told,) = w.records
    assert told.startswith("Warning ResizeInfeasible: Node didn't have enough capacity: cpu, requested: 5000")
    assert w.pod()["status"]["observedGeneration"] == 2
    resize(w, "p", "2")
    assert (has(w, "p"), pending(w, "p")) == ("2", None)


def test_a_resize_waits_for_room_and_is_done_when_another_pod_goes() -> None:
    w = world(sized("p", "1"), sized("other", "2"), cpu="4")
    resize(w, "p", "3")
    assert (has(w, "p"), pending(w, "p")) == ("1", ("Deferred", 2))
    assert w.records == [
        "Warning ResizeDeferred: Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"
    ]
    written = len(w.written)
    w.run(60)
    assert len(w.written) == written, "a resize that still waits is not told again"
    w.remove(PODS, "other", "default")
    w.run(2)
    assert (has(w, "p"), pending(w, "p")) == ("3", None)


def test_a_pod_that_waits_for_its_resize_holds_what_it_has_and_not_what_it_asks_for() -> None:
    w = world(sized("p", "1"), sized("other", "1"), cpu="4")
    resize(w, "p", "4")
    assert pending(w, "p") == ("Deferred", 2)
    resize(w, "other", "3")
    assert (has(w, "other"), pending(w, "other")) == ("3", None)


def test_of_two_resizes_that_wait_the_one_of_higher_priority_is_done_first() -> None:
    pods = [sized("a", "1"), sized("b", "1", priority=1000), sized("other", "2")]
    w = world(*pods, cpu="4")
    resize(w, "a", "3")
    resize(w, "b", "3")
    assert (pending(w, "a"), pending(w, "b")) == (("Deferred", 2), ("Deferred", 2))
    w.remove(PODS, "other", "default")
    w.run(4)
    assert (has(w, "a"), has(w, "b")) == ("1", "3")
    assert (pending(w, "a"), pending(w, "b")) == (("Deferred", 2), None)


def test_a_resize_of_low_priority_does_not_wait_for_one_that_does_not_fit_anyway() -> None:
    w = world(sized("a", "1"), sized("b", "1", priority=1000), sized("other", "1"), cpu="4")
    resize(w, "b", "4")
    resize(w, "a", "2")
    assert (pending(w, "b"), has(w, "a"), pending(w, "a")) == (("Deferred", 2), "2", None)


def test_a_pod_that_ends_while_its_resize_waits_says_no_more_about_it() -> None:
    w = world(sized("p", "1", restart="Never", notes_={"run-time": "30s"}), cpu="4")
    resize(w, "p", "5")
    assert pending(w, "p") is not None
    w.run(40)
    assert (w.pod()["status"]["phase"], pending(w, "p")) == ("Succeeded", None)
