"""`kilauea apiserver` or `kilauea up` as a process of its own, and the plainest of clients for it.

with running_server(folder) as server:
    server.client().get("/api/v1/pods")
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml

START_SECONDS, STOP_SECONDS = 240, 120
"""Far more than it takes on a busy machine: a test that waits for longer has failed."""


@dataclass(frozen=True)
class Endpoint:
    """A server that answers, wherever it runs.

    Attributes:
        url: `https://127.0.0.1:PORT`.
        token: of the administrator.
        authority: file with the certificate of the authority.
        kubeconfig: of the administrator.
    """

    url: str
    token: str
    authority: Path
    kubeconfig: Path

    def client(self) -> Client:
        """A client of the administrator with connections of its own."""
        return Client(self.url, self.token, self.authority)


@dataclass(frozen=True)
class Server(Endpoint):
    """A server of ours that answers; it has written the kubeconfig.

    Attributes:
        process: of the command.
        data_dir: what it was given.
        log: what it says.
    """

    process: subprocess.Popen[bytes]
    data_dir: Path
    log: Path

    def stop(self) -> None:
        """End the process as a service manager does; it must end cleanly."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(STOP_SECONDS)
        assert code == 0, f"exit code {code} after SIGTERM:\n{self.log.read_text()}"
        assert "Traceback" not in self.log.read_text(), self.log.read_text()

    def kill(self) -> None:
        """End the process without a last word."""
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def memory(self) -> int:
        """Bytes of resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Answer:
    """Status code, headers and body of an answer."""

    code: int
    headers: urllib3.HTTPHeaderDict
    content: bytes

    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.content)


class Client:
    """Requests with a token; nothing is done twice."""

    def __init__(self, url: str, token: str, authority: Path) -> None:
        self.url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._pool = urllib3.PoolManager(ca_certs=str(authority), retries=False, maxsize=4, timeout=120.0)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request; what is not bytes goes as JSON; `Content_Type=...` sets a header."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} | {key.replace("_", "-"): value for key, value in headers.items()}
        response = self._pool.request(method, self.url + path, body=content, headers=self._headers | sent)
        return Answer(response.status, response.headers, response.data)

    def get(self, path: str) -> Any:
        """What is at a path, decoded."""
        answer = self.send("GET", path)
        assert answer.code == 200, f"{path}: {answer.code} {answer.content!r}"
        return answer.json()

    def watch(self, path: str, read_seconds: float = 120.0) -> Iterator[dict[str, Any]]:
        """The events of a watch, until it ends; the path has its query. Fails if nothing comes for too long."""
        timeout = urllib3.Timeout(connect=10.0, read=read_seconds)
        response = self._pool.request(
            "GET", self.url + path, headers=self._headers, preload_content=False, timeout=timeout
        )
        pending = b""
        try:
            for chunk in response.stream(65536, decode_content=True):
                *lines, pending = (pending + chunk).split(b"\n")
                yield from map(json.loads, lines)
        finally:
            response.close()
        assert pending == b"", "the stream ends within an event"


def start_server(data_dir: Path, *options: str, command: str = "apiserver") -> Server:
    """Start the command and wait until it has written the kubeconfig, which it does once it listens."""
    data_dir.mkdir(parents=True, exist_ok=True)
    kubeconfig, log = data_dir / "kubeconfig", data_dir.with_name(f"{data_dir.name}.log")
    kubeconfig.unlink(missing_ok=True)
    words = [sys.executable, "-m", "kilauea", command, "--listen", "127.0.0.1:0", "--data-dir", str(data_dir), *options]
    with log.open("ab") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output)
    deadline = time.monotonic() + START_SECONDS
    while not kubeconfig.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise AssertionError(f"the server does not start:\n{log.read_text()}")
        time.sleep(0.02)
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    authority = data_dir.with_name(f"{data_dir.name}.ca.crt")
    authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    token = config["users"][0]["user"]["token"]
    return Server(cluster["server"], token, authority, kubeconfig, process, data_dir, log)


@contextmanager
def running_server(data_dir: Path, *options: str, command: str = "apiserver") -> Iterator[Server]:
    """A server for the length of a block, which ends it and asserts that it ended cleanly."""
    server = start_server(data_dir, *options, command=command)
    try:
        yield server
        server.stop()
    finally:
        if server.process.poll() is None:
            server.kill()
