"""Jobs whose pods do their work: `examples/real-jobs` on `kilauea up --runtime process`, and pods that find each other.

Everything here runs as processes of this machine, in real time.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.api_process import Server
from cluster.up_process import EXAMPLES, apply, ask, kubectl, running_up, until

MINUTES = 60.0
REAL = EXAMPLES / "real-jobs"
Obj = dict[str, Any]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A cluster whose pods are processes; ends with all tests of this file."""
    with running_up(tmp_path_factory.mktemp("up") / "data", "--runtime", "process") as server:
        yield server


def submit(up: Server, story: str, folder: Path, **changes: str) -> Path:
    """Apply an example with a folder of its own for its files, and texts that are changed; return that folder."""
    files, copy = folder / "files", folder / "example"
    shutil.copytree(REAL / story, copy)
    for path in copy.glob("*.yaml"):
        text = path.read_text()
        for old, new in {**changes, f"/tmp/kilauea-{story}": str(files)}.items():
            text = text.replace(old, new)
        path.write_text(text)
    kubectl(up, "apply", "-k", str(copy))
    return files


def ended(up: Server, kind: str, name: str, phase: str, minutes: float = 4) -> None:
    """Wait until a job or a flow is in a phase; fail with what its pods said if it never is."""

    def is_there() -> bool:
        return kubectl(up, "get", kind, name, "-o", "jsonpath={.status.state.phase}") == phase

    try:
        until(is_there, f"{kind} {name} to be {phase}", minutes * MINUTES)
    except AssertionError as error:
        pods = kubectl(up, "get", "pods", "-o", "wide")
        events = kubectl(up, "get", "events", "--sort-by=.lastTimestamp")[-3000:]
        raise AssertionError(f"{error}\n{pods}\n{events}") from None


def pod(name: str, script: str, labels: Obj | None = None, **spec: Any) -> Obj:
    """A pod that runs a Python program."""
    container: Obj = {"name": "main", "image": "python:3.12-slim", "command": ["python3", "-c", script]}
    container["resources"] = {"requests": {"cpu": "50m", "memory": "32Mi"}}
    body = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": body}


def said(up: Server, name: str, minutes: float = 2) -> str:
    """What a pod has printed when it has succeeded."""

    def is_over() -> bool:
        phase = kubectl(up, "get", "pod", name, "-o", "jsonpath={.status.phase}")
        assert phase != "Failed", f"pod {name} failed: {kubectl(up, 'logs', name)}"
        return phase == "Succeeded"

    until(is_over, f"pod {name} to succeed", minutes * MINUTES)
    return kubectl(up, "logs", name)


def test_training_restarts_from_its_checkpoint_and_converges(up: Server, tmp_path: Path) -> None:
    files = submit(up, "training", tmp_path)
    ended(up, "vcjob", "training", "Completed")
    printed = kubectl(up, "logs", "training-master-0")
    assert printed.startswith("resumed from step 150\n")
    assert printed.endswith("converged with 3 processes: largest error of a weight 0.0013\n")
    retries = kubectl(up, "get", "vcjob", "training", "-o", "jsonpath={.status.retryCount}")
    assert retries == "1", kubectl(up, "get", "events", "--sort-by=.lastTimestamp")
    assert (files / "model.json").exists()


def test_a_task_whose_container_failed_too_often_restarts_alone_if_its_policy_says_so(
    up: Server, tmp_path: Path
) -> None:
    script = """
import pathlib, sys, time
tries = len(list(pathlib.Path("/files").iterdir()))
pathlib.Path(f"/files/{tries}").touch()
if tries == 0:
    sys.exit("the first container of the first pod fails")
if tries == 1:
    time.sleep(600)
print("the second pod works")
"""
    files = tmp_path / "files"
    mount = {"name": "files", "mountPath": "/files"}
    volume = {"name": "files", "hostPath": {"path": str(files), "type": "DirectoryOrCreate"}}
    flaky = pod("", script, volumes=[volume], restartPolicy="OnFailure")["spec"]
    flaky["containers"][0]["volumeMounts"] = [mount]
    steady = pod("", "import time; time.sleep(600)")["spec"]
    actions = {"TaskFailed": "RestartTask", "TaskCompleted": "CompleteJob"}
    policies = [{"event": event, "action": action} for event, action in actions.items()]
    tasks = [
        {"name": "flaky", "replicas": 1, "maxRetry": 1, "template": {"spec": flaky}, "policies": policies},
        {"name": "steady", "replicas": 1, "template": {"spec": steady}},
    ]
    spec = {"schedulerName": "volcano", "minAvailable": 2, "tasks": tasks}
    apply(up, {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "flaky"}, "spec": spec})
    until(lambda: "flaky-steady-0" in kubectl(up, "get", "pods", "-o", "name"), "the other task to start")
    uid = kubectl(up, "get", "pod", "flaky-steady-0", "-o", "jsonpath={.metadata.uid}")
    until(lambda: "second pod" in ask(up, "logs", "flaky-flaky-0").stdout, "the second pod", 3 * MINUTES)
    assert kubectl(up, "get", "pod", "flaky-steady-0", "-o", "jsonpath={.metadata.uid}") == uid
    ended(up, "vcjob", "flaky", "Completed")


def test_workers_find_their_head_by_name_and_the_task_of_one_that_crashed_is_done_by_another(
    up: Server, tmp_path: Path
) -> None:
    submit(up, "task-queue", tmp_path)
    ended(up, "vcjob", "primes", "Completed")
    printed = kubectl(up, "logs", "primes-head-0").splitlines()
    assert printed[-1] == "9592 primes below 100000, from 20 tasks"
    assert "primes-shaky-0 has left, its task goes to another" in printed
    assert {"primes-worker-0 has come", "primes-worker-1 has come"} <= set(printed)


def test_the_steps_of_a_night_run_in_their_order_and_share_their_files(up: Server, tmp_path: Path) -> None:
    files = submit(up, "nightly", tmp_path)
    ended(up, "jobflow", "nightly", "Succeed")
    assert (files / "report.txt").read_text() == "degree 2: 0.942\ndegree 1: 27.953\n"
    assert kubectl(up, "logs", "nightly-report-main-0") == "best of 2 fits: degree 2\n"


def test_a_thousand_short_tasks_all_leave_their_result(up: Server, tmp_path: Path) -> None:
    manifest = (REAL / "array" / "job.yaml").read_text().replace("/tmp/kilauea-squares", str(tmp_path / "files"))
    kubectl(up, "apply", "-f", "-", given=manifest)
    ended(up, "vcjob", "squares", "Completed", minutes=10)
    results = {int(path.name): int(path.read_text()) for path in (tmp_path / "files").iterdir()}
    assert results == {number: number * number for number in range(1000)}


SERVE = """
import http.server, os, socket
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(socket.gethostname().encode())
    def log_message(self, *words): pass
http.server.HTTPServer((socket.gethostname(), 8080), Answer).serve_forever()
"""
ASK = """
import time, urllib.request
seen = set()
end = time.monotonic() + 100
while len(seen) < 2 and time.monotonic() < end:
    try:
        seen.add(urllib.request.urlopen("http://web:8000", timeout=5).read().decode())
    except OSError as error:
        time.sleep(0.2)
print(*sorted(seen))
"""


def test_a_service_leads_to_all_pods_behind_it_which_listen_at_the_same_port(up: Server) -> None:
    labels = {"app": "web"}
    ports = [{"port": 8000, "targetPort": 8080}]
    service = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": labels, "ports": ports}
    }  # fmt: skip
    servers = [pod(f"web-{number}", SERVE, labels) for number in range(2)]
    apply(up, service, *servers, pod("asks", ASK))
    assert said(up, "asks") == "web-0 web-1\n"
    kubectl(up, "delete", "pod", "web-0", "web-1", "--grace-period=1")


API = """
import json, os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
context = ssl.create_default_context(cafile=folder + "/ca.crt")
own = os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
for host in (own, "kubernetes.default.svc:NUMBER"):
    url = f"https://{host}/version"
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + open(folder + "/token").read()})
    print(json.load(urllib.request.urlopen(request, context=context, timeout=30))["major"])
"""


def test_a_pod_reaches_the_api_server_by_name_and_by_address(up: Server) -> None:
    port = kubectl(up, "get", "service", "kubernetes", "-o", "jsonpath={.spec.ports[0].port}")
    apply(up, pod("calls-home", API.replace("NUMBER", port)))
    assert said(up, "calls-home") == "1\n1\n"


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="this machine has no mpirun (apt-get install openmpi-bin)")
def test_mpirun_starts_its_processes_in_the_workers(up: Server, tmp_path: Path) -> None:
    submit(up, "mpi", tmp_path)
    ended(up, "vcjob", "mpi", "Completed")
    lines = sorted(kubectl(up, "logs", "mpi-master-0").splitlines())
    assert [line for line in lines if line.startswith("rank")] == [
        f"rank {number} of 2 on mpi-worker-{number}: sum 1" for number in (0, 1)
    ]
