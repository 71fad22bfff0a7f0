"""What containers do, by their pods: containers that are alike share a program, others do not."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import pytest

from kilauea.api.times import SECOND
from kilauea.nodes.program import program_of

POD: dict[str, Any] = {
    "metadata": {"name": "p", "annotations": {"example.com/team": "a", "kilauea.dev/run-time": "3s"}},
    "spec": {"containers": [{"name": "main", "command": ["sh", "-c", "echo hello"]}]},
}


class Program(NamedTuple):
    """What a container does, and what it prints."""

    run_time: int | None
    exit_code: int
    reason: str
    output: tuple[str, ...] = ()


def program(pod: dict[str, Any], init: bool = False) -> Program:
    found = program_of(pod, pod["spec"]["containers"][0], init)
    return Program(found.run_time, found.exit_code, found.reason, tuple(text for _, text in found.output))


def changed(annotations: dict[str, str] | None = None, init: bool = False, **container: Any) -> Program:
    """The program after something has been changed."""
    pod = copy.deepcopy(POD)
    pod["spec"]["containers"][0] |= container
    pod["metadata"]["annotations"] = POD["metadata"]["annotations"] if annotations is None else annotations
    return program(pod, init)


def test_containers_that_are_alike_do_the_same() -> None:
    assert program(POD) == changed() == Program(3 * SECOND, 0, "Completed", ("hello",))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (changed(command=["sh", "-c", "echo bye"]), Program(3 * SECOND, 0, "Completed", ("bye",))),
        (changed(command=["sh"], args=["-c", "exit 2"]), Program(3 * SECOND, 2, "Error")),
        (changed({"kilauea.dev/run-time": "4s"}), Program(4 * SECOND, 0, "Completed", ("hello",))),
        (changed({"kilauea.dev/run-time.main": "4s"}, name="other"), Program(0, 0, "Completed", ("hello",))),
        (changed({"kilauea.dev/run-time.main": "4s"}), Program(4 * SECOND, 0, "Completed", ("hello",))),
        (changed({"kilauea.dev/exit-code": "7"}), Program(0, 7, "Error", ("hello",))),
        (changed(init=True), Program(0, 0, "Completed", ("hello",))),
    ],
)
def test_what_differs_makes_a_difference(seen: Program, expected: Program) -> None:
    assert program(POD) != expected
    assert seen == expected


def test_a_container_of_a_batch_job_ends_after_a_moment() -> None:
    owner = {"kind": "Job", "apiVersion": "batch/v1", "name": "j", "uid": "u"}
    pod: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}}
    assert program(pod).run_time is None
    assert program({**pod, "metadata": {"name": "p", "ownerReferences": [owner]}}).run_time == 5 * SECOND


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.labels['index']", "3"),
        ("metadata.annotations['example.com/team']", "a"),
        ("metadata.labels['none']", ""),
        ("spec.nodeName", "node-1"),
        ("status.podIP", ""),
    ],
)
def test_a_variable_may_come_from_a_field_of_the_pod(path: str, value: str) -> None:
    pod = copy.deepcopy(POD)
    pod["metadata"]["labels"] = {"index": "3"}
    pod["spec"]["nodeName"] = "node-1"
    env = [{"name": "FIELD", "valueFrom": {"fieldRef": {"fieldPath": path}}}]
    pod["spec"]["containers"][0] |= {"env": env, "command": ["sh", "-c", 'echo "<$FIELD>"']}
    assert program(pod).output == (f"<{value}>",)
