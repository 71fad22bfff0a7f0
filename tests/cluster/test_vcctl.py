"""`vcctl`, its siblings and `kilauea run` at a whole cluster: what they order happens, and waiting sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.api_process import Server
from cluster.up_process import running_up
from kilauea.api.kinds import COMMANDS, PODS, QUEUES, VC_JOBS
from support.vcctl_runs import Console, Objects, data

PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
PATIENCE = ("--wait", "--timeout", "60s")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_up(tmp_path_factory.mktemp("vcctl") / "data", "--nodes", "2") as running:
        yield running


@pytest.fixture
def console(server: Server) -> Console:
    return Console(server.kubeconfig)


@pytest.fixture
def objects(server: Server) -> Objects:
    return Objects(server.client())


def state(console: Console, queue: str) -> str:
    found = data(console.good("vcctl", "queue", "get", queue, "-o", "json"))
    text: str = found["queues"][0]["state"]
    return text


def state_of(objects: Objects, job: str) -> str:
    found: str = objects.one(VC_JOBS, "default", job).get("status", {}).get("state", {}).get("phase", "")
    return found


def test_a_job_is_suspended_resumed_restarted_scaled_and_ended(console: Console, objects: Objects) -> None:
    console.good("vsub", "-n", "life", "-r", "2", "-m", "2", "-c", "sleep 3600")
    assert console.good("vcctl", "job", "suspend", "life", *PATIENCE) == "job life is Aborted\n"
    resumed = console.good("vresume", "-n", "life", *PATIENCE)
    assert resumed in ("job life is Pending\n", "job life is Running\n")
    restarted = console.good("vcctl", "job", "restart", "life", *PATIENCE)
    assert restarted in ("job life is Pending\n", "job life is Running\n")
    console.good("vcctl", "job", "scale", "life", "-r", "3")
    spec = objects.one(VC_JOBS, "default", "life")["spec"]
    assert (spec["minAvailable"], spec["tasks"][0]["replicas"], spec["tasks"][0]["minAvailable"]) == (3, 3, 3)
    assert console.good("vcctl", "job", "complete", "life", *PATIENCE) == "job life is Completed\n"
    assert console.failed("vcctl", "job", "terminate", "life").endswith("job life is already Completed\n")
    assert console.good("vcancel", "-n", "life", *PATIENCE) == "cancel job life successfully\n"
    assert objects.all(COMMANDS, "default") == []


def test_run_with_wait_ends_as_the_job_does(console: Console) -> None:
    assert console.good("vcctl", "job", "run", "short", "-c", "sleep 1", *PATIENCE) == "run job short successfully\n"


def test_run_of_kilauea_follows_a_job_and_ends_with_its_exit_code(console: Console, objects: Objects) -> None:
    ran = console("kilauea", "run", "-n", "2", "-J", "good", "--wait", "--", "sh", "-c", "sleep 1; exit 0")
    assert (ran.code, ran.out) == (0, "good\n")
    assert ran.err.splitlines()[-1].startswith("good: Completed")
    ran = console("kilauea", "run", "-J", "bad", "--wait", "sh", "-c", "sleep 1; exit 7")
    assert (ran.code, ran.out) == (7, "bad\n")
    ran = console("kilauea", "run", "-J", "apart", "-N", "2", "-c", "100m", "--wait", "--", "sleep", "1")
    assert ran.code == 0, ran
    pods = [pod for pod in objects.all(PODS, "default") if pod["metadata"]["name"].startswith("apart-")]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods) == 2


def test_a_job_without_room_waits_and_view_says_why(console: Console) -> None:
    console.good("vcctl", "job", "run", "huge", "-R", "cpu=1k", "-L", "cpu=1k")
    out = console.good("vcctl", "job", "view", "huge")
    for _ in range(50):
        if "Unschedulable=True" in out:
            break
        out = console.good("vcctl", "job", "view", "huge")
    assert "Waits Because:" in out
    assert "Phase:\tPending" in out
    console.good("vcancel", "huge")


def test_closing_with_wait_closes_leaves_first_and_cascade_opens_them_again(console: Console) -> None:
    console.good("vcctl", "queue", "create", "-n", "top")
    console.good("vcctl", "queue", "create", "-n", "below", "--parent", "top")
    out = console.good("vcctl", "queue", "operate", "top", "-a", "close", *PATIENCE)
    assert out == "queue below is Closed\nqueue top is Closed\n"
    assert console.good("vcctl", "queue", "operate", "top", "-a", "open", *PATIENCE) == "queue top is Open\n"
    assert state(console, "below") == "Closed"
    console.good("vcctl", "queue", "operate", "top", "-a", "close", *PATIENCE)
    console.good("vcctl", "queue", "operate", "top", "-a", "open", "--cascade", *PATIENCE)
    console.good("vcctl", "queue", "operate", "below", "-a", "open", *PATIENCE)
    said = console.failed("vcctl", "queue", "delete", "-n", "top")
    assert said.startswith('Failed to delete queue: admission webhook "validatequeue.volcano.sh" denied the request: ')
    assert (
        console.good("vcctl", "queue", "delete", "-n", "top", "--cascade") == "queue below deleted\nqueue top deleted\n"
    )


def test_a_cascade_at_root_deletes_nothing(console: Console, objects: Objects) -> None:
    console.good("vcctl", "queue", "create", "-n", "a-zone")
    said = console.failed("vcctl", "queue", "delete", "-n", "root", "--cascade")
    words = "queue root cannot be deleted: choose a queue without it below; nothing was deleted"
    assert said == f"Failed to delete queue: {words}\n"
    assert {each["metadata"]["name"] for each in objects.all(QUEUES)} >= {"default", "a-zone", "root"}


def test_a_cascade_waits_for_running_jobs_unless_it_is_forced(console: Console, objects: Objects) -> None:
    console.good("vcctl", "queue", "create", "-n", "busy")
    console.good("vcctl", "queue", "create", "-n", "idle-leaf", "--parent", "busy")
    console.good("vcctl", "queue", "create", "-n", "leaf", "--parent", "busy")
    console("kilauea", "run", "-d", "-J", "at-work", "-p", "leaf", "-n", "2", "--", "sleep", "3600")
    for _ in range(300):
        if "at-work" in console.good("vcctl", "job", "list") and state_of(objects, "at-work") == "Running":
            break
        time.sleep(0.1)
    said = console.failed("vcctl", "queue", "delete", "-n", "busy", "--cascade")
    assert said.startswith("Failed to delete queue: pods hold resources: 2 of queue leaf: ")
    assert {each["metadata"]["name"] for each in objects.all(QUEUES)} >= {"busy", "idle-leaf", "leaf"}
    done = console.good("vcctl", "queue", "delete", "-n", "busy", "--cascade", "--force")
    assert done == "queue idle-leaf deleted\nqueue leaf deleted\nqueue busy deleted\n"
    console.good("vcancel", "-n", "at-work")


def test_the_root_and_the_default_queue_stay(console: Console) -> None:
    said = console.done("vcctl", "queue", "operate", "-n", "root", "-a", "close")
    assert said == "queue root cannot be closed: close the queues below it\n"
    said = console.failed("vcctl", "queue", "delete", "-n", "default")
    assert said.startswith('Failed to delete queue: admission webhook "validatequeue.volcano.sh" denied the request: ')
    assert state(console, "root") == "Open"


def test_a_refused_job_is_said_with_the_words_of_admission(console: Console) -> None:
    said = console.failed("vcctl", "job", "run", "-N", "bad", "-m", "5", "-r", "2")
    assert said == (
        'Failed to run job: admission webhook "validatejob.volcano.sh" denied the request: '
        "job 'minAvailable' should not be greater than total replicas in tasks;\n"
    )


def test_lists_go_on_until_somebody_stops_them(server: Server, console: Console) -> None:
    command = [sys.executable, "-c", "from kilauea.cli.vcctl.programs import vcctl; vcctl()"]
    for words, state in (("job list -w", "Running"), ("queue list --watch", "Open"), ("pod list -w", "Running")):
        environment = os.environ | {"KUBECONFIG": str(server.kubeconfig), "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen([*command, *words.split()], env=environment, text=True, **PIPES)
        name = f"seen-by-{words.split()[0]}"
        try:
            if "queue" in words:
                console.good("vcctl", "queue", "create", "-n", name)
            else:
                console.good("vsub", "-n", name, "-c", "sleep 3600")
            assert process.stdout is not None
            found = next(line for line in process.stdout if name in line and state in line)
            assert found.startswith(name)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
            assert process.stderr is not None
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()
            process.communicate()
