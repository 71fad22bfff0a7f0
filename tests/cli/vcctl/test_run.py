"""`kilauea run` against a server without controllers, and what happens when one stops waiting for a job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster.api_process import Server
from kilauea.api.kinds import VC_JOBS
from support.vcctl_runs import Console, Objects


def test_run_with_detach_prints_the_name_alone(console: Console, objects: Objects, namespace: str) -> None:
    flags = "-d -p blue -N 4 -c 2 -m 4Gi -G 1 -i trainer:1 -e MODE=fast -t 90m --namespace"
    ran = console("kilauea", "run", *flags.split(), namespace, "./train.py", "-n", "3")
    assert ran.code == 0
    name = ran.out.strip()
    assert ran.err == (
        f"{name}: submitted to queue blue: 4 copies of 2 cpu, 4Gi memory, 1 nvidia.com/gpu, each for at most 1h30m\n"
    )
    made = objects.one(VC_JOBS, namespace, name)
    assert name.startswith("train-py-")
    spec = made["spec"]
    pod = spec["tasks"][0]["template"]["spec"]
    amounts = {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    assert pod["containers"] == [
        {
            "name": name,
            "image": "trainer:1",
            "imagePullPolicy": "IfNotPresent",
            "command": ["./train.py", "-n", "3"],
            "env": [{"name": "MODE", "value": "fast"}],
            "resources": {"limits": amounts, "requests": amounts},
        }
    ]
    (apart,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["labelSelector"]["matchLabels"] == {"job.volcano.sh": name}
    assert (pod["activeDeadlineSeconds"], spec["queue"]) == (5400, "blue")
    assert (spec["minAvailable"], spec["tasks"][0]["replicas"]) == (4, 4)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-n 2 -N 2 true", "--tasks and --nodes are mutually exclusive"),
        ("-c many true", 'cpu: "many" is not a quantity'),
        ("-e NO_ONE_HAS_SET_THIS true", '--env: "NO_ONE_HAS_SET_THIS" has no value'),
        ("-t 10ms true", "--time must be at least 1s"),
        ("-t soon true", 'invalid time "soon": use minutes (90), [D-]HH:MM:SS (01:30:00) or 1h30m'),
        ("-m 4 true", '--memory: "4" has no unit: use 4G or 4M'),
        ("-m lots true", 'memory: "lots" is not a quantity'),
        ("-d -W true", "--detach and --wait are mutually exclusive"),
        ("", "Missing argument"),
    ],
)
def test_run_of_kilauea_says_what_is_wrong_with_its_options(console: Console, words: str, said: str) -> None:
    ran = console("kilauea", "run", *words.split())
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.parametrize(
    ("flags", "seconds", "memory"),
    [
        ("-t 60 -m 4G", 3600, "4Gi"),
        ("-t 01:00:00 -m 512m", 3600, "512Mi"),
        ("-t 1-12 -m 1.5T", 129_600, "1.5Ti"),
        ("-t 90m -m 4Gi", 5400, "4Gi"),
        ("-t 0 -m 100MB", None, "100Mi"),
    ],
)
def test_run_of_kilauea_takes_times_and_memory_as_sbatch_does(
    console: Console, objects: Objects, namespace: str, flags: str, seconds: int | None, memory: str
) -> None:
    name = console("kilauea", "run", "-d", *flags.split(), "--namespace", namespace, "true").out.strip()
    pod = objects.one(VC_JOBS, namespace, name)["spec"]["tasks"][0]["template"]["spec"]
    assert pod.get("activeDeadlineSeconds") == seconds
    assert pod["containers"][0]["resources"]["requests"]["memory"] == memory


@pytest.mark.parametrize(
    ("program", "words"),
    [("kilauea", "run -J {} --namespace {} --wait true"), ("vsub", "-n {} -N {} --wait")],
)
def test_a_user_who_stops_waiting_is_told_that_the_job_goes_on(
    server: Server, objects: Objects, namespace: str, program: str, words: str
) -> None:
    start = (
        "from kilauea.cli.main import main as go"
        if program == "kilauea"
        else f"from kilauea.cli.vcctl.programs import {program} as go"
    )
    given = words.format("long", namespace).split()
    waiting = subprocess.Popen(
        [sys.executable, "-c", f"import sys\nsys.argv = {[program, *given]}\n{start}\ngo()"],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stdout is not None
    if program == "kilauea":
        assert waiting.stdout.readline() == "long\n"
    else:
        while not objects.all(VC_JOBS, namespace):
            time.sleep(0.05)
        time.sleep(0.5)
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=20)
    assert waiting.returncode == 130
    assert "job long is still in the cluster" in said
    assert f"vcctl job delete -n {namespace} -N long" in said
    assert "Aborted!" not in said


def test_a_cluster_that_is_not_known_is_a_fault_of_the_configuration() -> None:
    ran = Console(Path("no-such-kubeconfig"))("kilauea", "run", "--", "true")
    assert (ran.code, ran.out) == (2, "")
    assert "no-such-kubeconfig: no such file" in ran.err
