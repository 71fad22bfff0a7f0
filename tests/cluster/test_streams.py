"""kubectl and the official Python client talk to pods that are real processes."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3
from kubernetes.stream import portforward, stream
from kubernetes.stream.ws_client import WSClient

from cluster.up_process import until
from kubernetes import client as k8s
from kubernetes import config
from support.served_pods import ServedPods


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPods]:
    with ServedPods(tmp_path_factory.mktemp("served")) as made:
        made.run_pod("a", "sleep", "10000")
        yield made


@pytest.fixture(scope="module")
def core(served: ServedPods) -> Iterator[k8s.CoreV1Api]:
    with config.new_client_from_config(str(served.kubeconfig)) as api:
        yield k8s.CoreV1Api(api)


def kubectl(served: ServedPods, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"KUBECONFIG": str(served.kubeconfig), "HOME": str(served.folder)}
    return subprocess.run(
        ["kubectl", *words], input=given, capture_output=True, timeout=240, env=environment, check=False
    )


def test_exec_separates_output_and_ends_with_the_code_of_the_command(served: ServedPods) -> None:
    done = kubectl(served, "exec", "a", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout) == (3, b"out\n")
    assert done.stderr == b"err\ncommand terminated with exit code 3\n"


def test_exec_hands_on_a_megabyte_of_input_and_its_end(served: ServedPods) -> None:
    given = bytes(range(256)) * 4096
    assert kubectl(served, "exec", "-i", "a", "--", "cat", given=given).stdout == given


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a", "-c", "nope", "--", "ls"), "Error from server (BadRequest): container nope is not valid for pod a"),
        (("none", "--", "ls"), 'Error from server (NotFound): pods "none" not found'),
        (
            ("a", "--", "nosuchcommand"),
            "error: Internal error occurred: error executing command in container: "
            'exec: "nosuchcommand": executable file not found in $PATH',
        ),
    ],
)
def test_exec_says_why_it_cannot(served: ServedPods, words: tuple[str, ...], message: str) -> None:
    done = kubectl(served, "exec", *words)
    assert (done.returncode, done.stderr.decode().strip()) == (1, message)


def test_cp_brings_a_folder_into_a_container_and_back(served: ServedPods, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "bytes").write_bytes(bytes(range(256)) * 1000)
    there, back = tmp_path / "there", tmp_path / "back"
    assert kubectl(served, "cp", str(folder), f"a:{there}").returncode == 0
    assert (there / "bytes").read_bytes() == (folder / "bytes").read_bytes()
    assert kubectl(served, "cp", f"a:{there}", str(back)).returncode == 0
    assert (back / "bytes").read_bytes() == (folder / "bytes").read_bytes()


@contextmanager
def talking(core: k8s.CoreV1Api, *command: str, stdin: bool = False) -> Iterator[WSClient]:
    """A command that the Python client runs."""
    talk = stream(
        core.connect_get_namespaced_pod_exec, "a", "default", command=list(command),
        stdin=stdin, stdout=True, stderr=True, tty=False, _preload_content=False,
    )  # fmt: skip
    try:
        yield talk
    finally:
        talk.close()
        talk.sock.shutdown()  # which `close` leaves out if the server has closed before


def test_the_python_client_runs_a_command(core: k8s.CoreV1Api) -> None:
    with talking(core, "sh", "-c", "echo out; echo err >&2") as talk:
        talk.run_forever(timeout=240)
        assert talk.returncode == 0
        assert sorted(talk.read_all().split()) == ["err", "out"]


def test_the_python_client_talks_to_a_command_and_is_told_its_code(core: k8s.CoreV1Api) -> None:
    with talking(core, "sh", "-c", "read line; echo got $line; read line; exit 7", stdin=True) as talk:
        talk.write_stdin("word\n")
        assert talk.readline_stdout(timeout=240) == "got word"
        talk.write_stdin("another\n")
        talk.run_forever(timeout=240)
        assert talk.returncode == 7


def test_logs_have_the_lines_that_one_asks_for(served: ServedPods) -> None:
    served.run_pod("talks", "sh", "-c", "for i in 1 2 3; do echo line $i; done; echo oops >&2; sleep 1000")
    until(lambda: len(kubectl(served, "logs", "talks").stdout.splitlines()) == 4, "four lines")
    assert kubectl(served, "logs", "talks", "--tail", "2").stdout.splitlines()[0] in (b"line 3", b"oops")
    assert kubectl(served, "logs", "talks", "--limit-bytes", "3").stdout in (b"lin", b"oop")
    stamped = kubectl(served, "logs", "talks", "--timestamps", "--prefix").stdout.decode().splitlines()[0]
    assert re.fullmatch(r"\[pod/talks/main\] \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z \w+.*", stamped)
    assert len(kubectl(served, "logs", "talks", "--since", "1h").stdout.splitlines()) == 4
    assert kubectl(served, "logs", "talks", "--since-time", "2100-01-01T00:00:00Z").stdout == b""
    previous = kubectl(served, "logs", "talks", "--previous")
    assert previous.stderr.decode().strip() == (
        'Error from server (BadRequest): previous terminated container "main" in pod "talks" not found'
    )


def test_logs_are_followed_until_the_container_ends(served: ServedPods) -> None:
    served.run_pod("ends", "sh", "-c", "echo first; read line; echo got $line", stdin=True)
    environment = os.environ | {"KUBECONFIG": str(served.kubeconfig), "HOME": str(served.folder)}
    words = ["kubectl", "logs", "-f", "ends"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"first\n"
        assert kubectl(served, "attach", "-i", "ends", given=b"word\n").returncode == 0
        assert follower.stdout.read() == b"got word\n"
        assert follower.wait(240) == 0


def test_logs_of_several_containers_come_with_their_names(served: ServedPods) -> None:
    command = ["sh", "-c", "echo here; sleep 1000"]
    served.run_containers("two", [{"name": name, "image": "host", "command": command} for name in ("x", "y")])
    until(lambda: len(kubectl(served, "logs", "two", "--all-containers").stdout.splitlines()) == 2, "both lines")
    found = kubectl(served, "logs", "two", "--all-containers", "--prefix").stdout.decode().splitlines()
    assert sorted(found) == ["[pod/two/x] here", "[pod/two/y] here"]


@pytest.fixture(scope="module")
def web(served: ServedPods, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pod that serves a folder of files at a port that it writes to one of them."""
    folder = tmp_path_factory.mktemp("web")
    (folder / "large").write_bytes(os.urandom(3_000_000))
    program = f"""if True:
        import functools, http.server as h
        handler = functools.partial(h.SimpleHTTPRequestHandler, directory={str(folder)!r})
        server = h.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        open({str(folder / "port")!r}, "w").write(f"{{server.server_port}}.")
        server.serve_forever()
    """
    served.run_pod("web", sys.executable, "-c", program)
    until(lambda: (folder / "port").exists() and (folder / "port").read_text().endswith("."), "the port")
    return folder


def port_of(web: Path) -> int:
    return int((web / "port").read_text().rstrip("."))


def test_kubectl_forwards_a_port(served: ServedPods, web: Path) -> None:
    environment = os.environ | {"KUBECONFIG": str(served.kubeconfig), "HOME": str(served.folder)}
    words = ["kubectl", "port-forward", "--address", "127.0.0.1", "pod/web", f":{port_of(web)}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as forwarder:
        try:
            assert forwarder.stdout is not None
            local = int(forwarder.stdout.readline().split(b":")[1].split()[0])
            url = f"http://127.0.0.1:{local}/large"
            with ThreadPoolExecutor(4) as pool:
                found = list(pool.map(lambda _: urllib3.request("GET", url).data, range(4)))
            assert set(found) == {(web / "large").read_bytes()}
        finally:
            forwarder.terminate()


def test_kubectl_is_told_that_nothing_listens(served: ServedPods, web: Path) -> None:
    environment = os.environ | {"KUBECONFIG": str(served.kubeconfig), "HOME": str(served.folder)}
    words = ["kubectl", "port-forward", "--address", "127.0.0.1", "pod/web", ":1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as forwarder:
        assert forwarder.stdout is not None
        local = int(forwarder.stdout.readline().split(b":")[1].split()[0])
        with socket.create_connection(("127.0.0.1", local), 240) as connection:
            assert connection.recv(1) == b""
        assert (
            b"failed to connect to 127.0.0.1:1 of the pod: Connection refused" in forwarder.communicate(timeout=240)[1]
        )


def test_requests_are_passed_on_to_a_pod(served: ServedPods, core: k8s.CoreV1Api, web: Path) -> None:
    path = f"/api/v1/namespaces/default/pods/web:{port_of(web)}/proxy"
    assert kubectl(served, "get", "--raw", f"{path}/large").stdout == (web / "large").read_bytes()
    listing = core.connect_get_namespaced_pod_proxy(f"web:{port_of(web)}", "default")
    assert "large" in listing
    refused = kubectl(served, "get", "--raw", f"{path}/none").stderr.decode()
    assert "the server could not find the requested resource" in refused
    closed = kubectl(served, "get", "--raw", "/api/v1/namespaces/default/pods/web:1/proxy/").stderr.decode()
    assert "error trying to reach service: failed to connect to 127.0.0.1:1 of the pod: Connection refused" in closed


def test_the_python_client_forwards_a_port(core: k8s.CoreV1Api, web: Path) -> None:
    port = port_of(web)
    forwarder = portforward(core.connect_get_namespaced_pod_portforward, "web", "default", ports=str(port))
    connection = forwarder.socket(port)
    connection.setblocking(True)
    connection.sendall(b"GET /large HTTP/1.0\r\n\r\n")
    found = b""
    while part := connection.recv(65536):
        found += part
    connection.close()
    assert found.partition(b"\r\n\r\n")[2] == (web / "large").read_bytes()
    assert forwarder.error(port) is None
    forwarder.websocket.shutdown()
