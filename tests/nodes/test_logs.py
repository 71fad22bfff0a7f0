"""What `kubectl logs` shows of simulated containers."""

from __future__ import annotations

from kilauea.api.kinds import NODES, PODS
from kilauea.nodes.logs import PodLogs
from kilauea.nodes.pods import Pods
from simulated import World, node, pod


def world(given, seconds=0.0):
    made = World(Pods())
    made.put(NODES, node())
    made.put(PODS, given)
    made.run(seconds)
    return made


def read(w, container="c"):
    return PodLogs(w).read("default", "p", container).decode().splitlines()


def test_a_running_container_has_said_what_its_command_prints():
    assert read(world(pod(command="echo hello; sleep 60"))) == [
        "2026-01-01T00:00:00Z simulated container c started on node-0",
        "hello",
    ]


def test_a_container_that_has_ended_says_how():
    w = world(pod(restart="Never", command="sleep 2; exit 3"), 5)
    assert read(w)[-1] == "2026-01-01T00:00:02Z ended with exit code 3 (Error)"


def test_a_container_that_waits_for_its_restart_shows_its_last_run():
    assert read(world(pod(command="exit 1"), 1))[-1].endswith("ended with exit code 1 (Error)")


def test_nothing_is_shown_of_what_has_not_run():
    waiting = world(pod(notes_={"start_delay": "1h"}))
    assert read(waiting) == []
    assert read(waiting, "other") == []
    assert PodLogs(waiting).read("default", "unknown", "c") == b""
