"""`kilauea up --runtime process`: logs, exec, attach, cp, port-forward and top, with kubectl."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from cluster.api_process import Server
from cluster.processes.process_cluster import pod, process_cluster, until_phase
from cluster.up_process import apply, ask, kubectl, until

SERVER = """if True:
    import http.server, os, sys
    server = http.server.ThreadingHTTPServer((os.environ["ADDRESS"], 0), http.server.SimpleHTTPRequestHandler)
    print("port", server.server_port, flush=True)
    server.serve_forever()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("up")
    with process_cluster(folder) as cluster:
        running = cluster.start()
        talks = "echo first; echo oops >&2; while read line; do echo got $line; done"
        apply(running, pod("talks", talks, main={"stdin": True}))
        until_phase(running.client(), "talks", "Running")
        yield running
        running.stop()


def test_exec_runs_beside_the_container_and_ends_with_its_code(server: Server) -> None:
    done = ask(server, "exec", "talks", "--", "sh", "-c", "hostname; echo err >&2; exit 4")
    assert (done.returncode, done.stdout) == (4, "talks\n")
    assert done.stderr == "err\ncommand terminated with exit code 4\n"
    missing = ask(server, "exec", "talks", "--", "no-such-command")
    assert 'exec: "no-such-command": executable file not found in $PATH' in missing.stderr
    terminal = ask(server, "exec", "-i", "talks", "--", "cat", given="input\n")
    assert terminal.stdout == "input\n"


def test_what_is_attached_is_heard_and_logged(server: Server) -> None:
    environment = os.environ | {"KUBECONFIG": str(server.kubeconfig)}
    pipe = subprocess.PIPE
    words = ["kubectl", "attach", "-i", "-q", "talks"]
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as attached:
        assert attached.stdin is not None
        assert attached.stdout is not None
        until(lambda: _says(attached, b"word\n"), "an answer")
        attached.kill()
    assert "got word\n" in kubectl(server, "logs", "talks")


def _says(attached: subprocess.Popen[bytes], word: bytes) -> bool:
    """Write a line and read the answer."""
    assert attached.stdin is not None
    assert attached.stdout is not None
    attached.stdin.write(word)
    attached.stdin.flush()
    return attached.stdout.readline() == b"got " + word


@pytest.mark.parametrize(
    ("options", "code", "output"),
    [
        (["--rm", "-q", "-i"], 3, "input\nclosed\n"),
        (["-q", "--attach", "--stdin", "--leave-stdin-open"], 0, "input\n"),
    ],
)
def test_run_passes_its_input_on_and_prints_the_output_once(
    server: Server, options: list[str], code: int, output: str
) -> None:
    script = "read line; echo $line; read line || echo closed; exit 3"
    words = ["run", "reads", "--image=host", "--restart=Never", *options, "--", "sh", "-c", script]
    done = ask(server, *words, given="input\n")
    assert (done.returncode, done.stdout.partition("pod ")[0]) == (code, output), done.stderr
    kubectl(server, "delete", "pod", "reads", "--ignore-not-found", "--grace-period", "1")


def test_logs_come_by_line_stream_and_time(server: Server) -> None:
    until(lambda: "oops" in kubectl(server, "logs", "talks"), "the first lines")
    assert set(kubectl(server, "logs", "talks").splitlines()[:2]) == {"first", "oops"}
    path = "/api/v1/namespaces/default/pods/talks/log?stream=Stderr"
    assert kubectl(server, "get", "--raw", path) == "oops\n"
    stamped = kubectl(server, "logs", "talks", "--timestamps").splitlines()[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z \w+", stamped)
    apply(server, pod("crashes", "echo run; exit 1", restart="Always"))
    until(lambda: ask(server, "logs", "--previous", "crashes").stdout == "run\n", "the log of the run before")


def test_files_are_copied_both_ways(server: Server, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(os.urandom(100_000))
    kubectl(server, "exec", "talks", "--", "mkdir", "-p", "/tmp/copied")
    kubectl(server, "cp", str(tmp_path / "here"), "talks:/tmp/copied/there")
    kubectl(server, "cp", "talks:/tmp/copied/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == (tmp_path / "here").read_bytes()
    kubectl(server, "exec", "talks", "--", "rm", "-r", "/tmp/copied")


@pytest.mark.parametrize("address", ["$(POD_IP)", "127.0.0.1"])
def test_a_port_is_forwarded_at_the_address_of_the_pod_and_at_localhost(server: Server, address: str) -> None:
    name = "local" if address == "127.0.0.1" else "own"
    fields = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    command = {
        "command": [os.path.realpath(sys.executable), "-c", SERVER],
        "env": [fields, {"name": "ADDRESS", "value": address}],
    }
    apply(server, pod(name, "", main=command))
    until(lambda: ask(server, "logs", name).stdout.startswith("port "), "the server")
    port = int(kubectl(server, "logs", name).split()[1])
    environment = os.environ | {"KUBECONFIG": str(server.kubeconfig)}
    words = ["kubectl", "port-forward", "--address", "127.0.0.1", f"pod/{name}", f":{port}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as forwarder:
        try:
            assert forwarder.stdout is not None
            local = int(forwarder.stdout.readline().split(b":")[1].split()[0])
            answer = urllib3.request("GET", f"http://127.0.0.1:{local}/")
            assert (answer.status, b"Directory listing" in answer.data) == (200, True)
        finally:
            forwarder.terminate()


def test_a_container_is_added_to_look_into_a_pod(server: Server) -> None:
    apply(server, pod("studied", "sleep 1000"))
    until_phase(server.client(), "studied", "Running")
    words = ["debug", "studied", "--profile=general", "-q", "--image=host", "-c", "look", "-i", "--"]
    done = ask(server, *words, "sh", "-c", "read word; echo saw $word", given="input\n")
    assert done.returncode == 0, done.stderr
    until(lambda: ask(server, "logs", "studied", "-c", "look").stdout == "saw input\n", "its log")
    path = "/api/v1/namespaces/default/pods/studied"

    def ended() -> bool:
        status = server.client().get(path)["status"]
        states = [each["state"] for each in status.get("ephemeralContainerStatuses") or ()]
        return status["phase"] == "Running" and [state.get("terminated", {}).get("exitCode") for state in states] == [0]

    until(ended, "the end of the added container")
    kubectl(server, "delete", "pod", "studied", "--grace-period", "1")


def test_a_running_container_sees_a_config_map_change(server: Server) -> None:
    kubectl(server, "create", "configmap", "settings", "--from-literal=mode=fast")
    script = 'echo "$(cat /settings/mode)"; until grep -q slow /settings/mode; do sleep 0.1; done; cat /settings/mode'
    volume = {"name": "settings", "configMap": {"name": "settings"}}
    mounts = [{"name": "settings", "mountPath": "/settings"}]
    apply(server, pod("watches", script, volumes=[volume], main={"volumeMounts": mounts}))
    until(lambda: ask(server, "logs", "watches").stdout == "fast\n", "the first value")
    kubectl(server, "patch", "configmap", "settings", "-p", '{"data": {"mode": "slow"}}')
    until_phase(server.client(), "watches", "Succeeded")
    assert kubectl(server, "logs", "watches") == "fast\nslow"


def test_top_shows_what_processes_use(server: Server) -> None:
    apply(server, pod("works", "while true; do :; done"))
    until_phase(server.client(), "works", "Running")

    def millicores() -> int:
        found = re.search(r"works\s+(\d+)m\s+(\d+)Mi", ask(server, "top", "pod").stdout)
        return int(found[1]) if found else 0

    until(lambda: millicores() > 10, "the usage of a busy pod")
    kubectl(server, "delete", "pod", "works", "--grace-period", "1")
