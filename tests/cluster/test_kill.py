"""kill -9 while clients write, then a start on the same folder: what was acknowledged is there, nothing is half there.

Five rounds; a hundred with the hypothesis profile `thorough`.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import urllib3
from hypothesis import settings

from cluster.api_process import Client, Server, start_server

CLIENTS = 4
ROUNDS = 100 if settings().max_examples > 100 else 5
PATH = "/api/v1/namespaces/default/configmaps"
State = dict[str, Any] | None


class Writer:
    """A client that creates, changes and deletes objects of its own until the server has gone.

    Attributes:
        known: the last acknowledged state of each of its objects by name, None where it was deleted.
        asked: name and content of the request that got no answer; None as content for a deletion.
    """

    def __init__(self, number: int, client: Client, rng: Random) -> None:
        self.number, self.client, self.rng = number, client, rng
        self.known: dict[str, State] = {}
        self.asked: tuple[str, dict[str, str] | None] | None = None

    def run(self, acknowledged: threading.Semaphore) -> None:
        """Write until nothing answers any more."""
        try:
            while True:
                self._write()
                acknowledged.release()
        except urllib3.exceptions.HTTPError:
            return

    def _write(self) -> None:
        there = [name for name, state in self.known.items() if state is not None]
        action = self.rng.choice(("create", "create", "create", "change", "delete")) if there else "create"
        if action == "create":
            name = f"w{self.number}-{len(self.known)}"
            data = {"text": "x" * self.rng.randrange(3000), "name": name}
            self._send("POST", PATH, name, data, {"metadata": {"name": name}, "data": data}, 201)
            return
        name = self.rng.choice(there)
        old = self.known[name]
        assert old is not None
        if action == "delete":
            self._send("DELETE", f"{PATH}/{name}", name, None, None, 200)
        else:
            data = {"text": "y" * self.rng.randrange(3000), "name": name}
            self._send("PUT", f"{PATH}/{name}", name, data, old | {"data": data}, 200)

    def _send(self, method: str, path: str, name: str, data: dict[str, str] | None, body: Any, code: int) -> None:
        self.asked = (name, data)
        answer = self.client.send(method, path, body)
        assert answer.code == code, answer.content
        self.known[name] = None if data is None else answer.json()
        self.asked = None

    def check(self, found: dict[str, dict[str, Any]]) -> None:
        """Compare with all that is there after the restart, and take what became of the last request as known."""
        if self.asked is not None:
            name, data = self.asked
            obj = found.get(name)
            if obj is None if data is None else obj is not None and obj["data"] == data:
                self.known[name] = obj
            self.asked = None
        for name, state in self.known.items():
            assert found.get(name) == state, name
        mine = {name for name in found if name.startswith(f"w{self.number}-")}
        assert mine == {name for name, state in self.known.items() if state is not None}


def write_until_killed(server: Server, writers: list[Writer], acknowledgements: int) -> None:
    """Let the clients write, and kill the server after so many answers, in the midst of the next requests."""
    acknowledged = threading.Semaphore(0)
    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(writer.run, acknowledged) for writer in writers]
        for _ in range(acknowledgements):
            assert acknowledged.acquire(timeout=30)
        server.kill()
        for each in running:
            each.result()


def credentials(server: Server) -> tuple[str, bytes]:
    """The administrator's token and the certificate of the authority."""
    return server.token, server.authority.read_bytes()


def test_kill_minus_nine_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    rng = Random(6)
    server = start_server(tmp_path / "data")
    first = credentials(server)
    writers = [Writer(number, server.client(), Random(number)) for number in range(CLIENTS)]
    revision = 0
    try:
        for _ in range(ROUNDS):
            write_until_killed(server, writers, rng.randrange(20, 400))
            server = start_server(tmp_path / "data")
            assert credentials(server) == first
            listed = server.client().get(PATH)
            found = {each["metadata"]["name"]: each for each in listed["items"]}
            for each in found.values():
                each |= {"kind": "ConfigMap", "apiVersion": "v1"}  # left out within a list
            assert int(listed["metadata"]["resourceVersion"]) >= revision
            revision = int(listed["metadata"]["resourceVersion"])
            for writer in writers:
                writer.check(found)
                writer.client = server.client()
        server.stop()
    finally:
        if server.process.poll() is None:
            server.kill()


def test_a_second_server_on_the_same_folder_is_refused(server: Server, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kilauea", "apiserver", "--listen", "127.0.0.1:0"]
    command += ["--data-dir", str(server.data_dir), "--kubeconfig", str(tmp_path / "kubeconfig")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert str(server.data_dir) in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "kubeconfig").exists()
    assert server.client().get("/api/v1/namespaces")["items"]
