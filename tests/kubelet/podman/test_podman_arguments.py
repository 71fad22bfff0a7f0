"""The command lines for podman, and the names that it is asked to pull."""

from __future__ import annotations

from pathlib import Path

import pytest

from kilauea.kubelet.container_runtime import Container, Limits, Mount
from kilauea.kubelet.podman.arguments import run_arguments
from kilauea.kubelet.podman.images import full_name


def arguments(**fields: object) -> list[str]:
    wanted = {
        "id": "x",
        "pod": "p",
        "name": "main",
        "attempt": 2,
        "argv": ["sh", "-c", "exit"],
        "log": Path("/l/2.log"),
    }
    return run_arguments(Container(**{**wanted, "image": "img", **fields}), "/data", "kilauea-1-x", 1000)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ["--network=host", "--name", "kilauea-1-x", "--log-opt=path=/l/2.log", "--log-opt=max-size=1000"]),
        ({}, ["--label=kilauea.dev/folder=/data", "--label=kilauea.dev/id=x", "--label=kilauea.dev/attempt=2"]),
        ({"environment": {"A": "b c=d"}}, ["--env=A=b c=d"]),
        ({"limits": Limits(1500, 64, 9)}, ["--cpus=1.5", "--memory=64", "--memory-swap=64", "--pids-limit=9"]),
        ({"mounts": [Mount("/t", "/s", True)]}, ["--mount=type=bind,source=/s,destination=/t,ro=true"]),
        ({"mounts": [Mount("/t,u", '/s"')]}, ['--mount=type=bind,"source=/s""","destination=/t,u"']),
        ({"mounts": [Mount("/t", size=5)]}, ["--mount=type=tmpfs,tmpfs-mode=1777,destination=/t,tmpfs-size=5"]),
        ({"oom_score": 900}, ["--oom-score-adj=900"]),
        ({"user": 5}, ["--user=5"]),
        ({"group": 6}, ["--user=0:6"]),
        ({"group": 6, "image_user": "app"}, ["--user=app:6"]),
        ({"user": 0, "group": 6, "image_user": "app"}, ["--user=0:6"]),
        (
            {"mounts": [Mount("/t,u", image="abc", read_only=True)]},
            ['--mount=type=image,source=abc,"destination=/t,u"'],
        ),
        ({"groups": (7, 8)}, ["--group-add=7", "--group-add=8"]),
        ({"read_only": True, "tty": True, "stdin": True}, ["--read-only", "--tty", "--interactive"]),
        ({"hostname": "h", "working_dir": "/w"}, ["--hostname=h", "--workdir=/w"]),
        ({"root": Path("/r")}, ["--rootfs", "/r:O"]),
    ],
)
def test_what_a_container_asks_for_is_an_argument(fields: dict[str, object], expected: list[str]) -> None:
    assert set(expected) <= set(arguments(**fields))


def test_the_command_replaces_that_of_the_image() -> None:
    assert arguments()[-4:] == ['--entrypoint=["sh"]', "img", "-c", "exit"]


def test_what_hides_folders_of_this_machine_is_left_out() -> None:
    assert not [each for each in arguments(mounts=[Mount("/data", optional=True)]) if each.startswith("--mount")]


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("busybox", "docker.io/library/busybox"),
        ("busybox:1", "docker.io/library/busybox:1"),
        ("team/app", "docker.io/team/app"),
        ("quay.io/team/app", "quay.io/team/app"),
        ("localhost/app", "localhost/app"),
        ("host:5000/app", "host:5000/app"),
    ],
)
def test_names_without_a_registry_are_completed_as_kubernetes_does(name: str, full: str) -> None:
    assert full_name(name) == full
