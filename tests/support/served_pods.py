"""An API server over HTTPS with pods that are real processes, in a thread of the test.

with ServedPods(folder) as served:
    served.run_pod("a", ["sleep", "60"])
    kubectl with served.kubeconfig
"""

from __future__ import annotations

import asyncio
import datetime
import json
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from kilauea.api.times import SECOND, format_time
from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.authentication import Authenticator
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.bootstrap import create_first_objects
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.dynamic.admission import DynamicAdmission
from kilauea.apiserver.http.credentials import load_credentials
from kilauea.apiserver.http.kubeconfig import write_kubeconfig
from kilauea.apiserver.http.transport import Transport
from kilauea.apiserver.request import GROUP_MASTERS, ApiResponse, User, make_request
from kilauea.apiserver.resources.builtin import builtin_types
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.storage import Store
from kilauea.kubelet.connections import ContainerConnections
from kilauea.kubelet.container_runtime import Container
from kilauea.kubelet.logs import LogFiles
from kilauea.kubelet.names import container_id, container_log, pod_logs, status_id
from kilauea.runtime.clock import SystemClock
from support.subprocess_runtime import SubprocessRuntime

T = TypeVar("T")
ADMIN = User("kubernetes-admin", groups=(GROUP_MASTERS,))
NODE = "here"
PODS = "/api/v1/namespaces/default/pods"
Obj = dict[str, Any]


async def abort_connections() -> None:
    """Abort what is still open in a loop: the other side may not say goodbye, for which TLS would wait."""
    await asyncio.sleep(0)
    for each in list(getattr(asyncio.get_running_loop(), "_transports", {}).values()):
        each.abort()
    await asyncio.sleep(0.05)


class ServedPods:
    """A server, and the containers of its pods."""

    def __init__(self, folder: Path, users: Mapping[str, User] | None = None) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self._users = users or {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.runtime = SubprocessRuntime()

    def __enter__(self) -> Self:
        self._thread.start()
        self.call(self._start())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine in the loop of the server."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(240)

    async def _start(self) -> None:
        clock = SystemClock()
        store = await Store.open(None, "memory")
        backend = Backend(store, Registry(builtin_types()), clock.now, Random(7), admission_steps())
        backend.dynamic = DynamicAdmission(store, None)
        backend.connections = ContainerConnections(self.runtime, self.runtime.find, lambda node: node == NODE)
        backend.logs = LogFiles(self.folder, self.runtime.find, lambda node: node == NODE, None)
        self.backend = backend
        self.server = ApiServer(backend)
        await create_first_objects(self.server)
        credentials = load_credentials(self.folder / "credentials", "127.0.0.1", datetime.datetime.now(datetime.UTC))
        known = {credentials.token: ADMIN, **self._users}
        self._transport = Transport(self.server, Authenticator(known, None), credentials.server_context())
        port = await self._transport.listen("127.0.0.1", 0)
        self.url, self.token, self.authority = f"https://127.0.0.1:{port}", credentials.token, credentials.ca.decode()
        write_kubeconfig(self.kubeconfig, self.url, credentials)

    async def _stop(self) -> None:
        await self._transport.close()
        await abort_connections()
        await self.runtime.close()
        await self.backend.store.close()

    def close_transport(self) -> None:
        """End all connections."""
        self.call(self._transport.close())

    def is_absent(self, name: str) -> bool:
        """True if there is no such pod."""
        return self.backend.store.get(f"/core/pods/default/{name}") is None

    def until_ended(self, name: str) -> None:
        """Wait until all containers of a pod have ended, and report that."""
        while self.report(name, "127.0.0.1")["status"]["phase"] == "Running":
            time.sleep(0.02)

    def wait_for_last_command(self) -> int | None:
        """Wait for the end of the command that was run last, and return its code as Python has it."""
        process = self.runtime.exec_processes[-1].process
        for _ in range(3000):
            if process.returncode is not None:
                break
            time.sleep(0.02)
        return process.returncode

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """The body of an answer that must be a success."""
        data = b"" if body is None else json.dumps(body).encode()
        answer = self.call(self.server.handle(make_request(method, path, {"content-type": content_type}, data, ADMIN)))
        assert isinstance(answer, ApiResponse)
        content = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        assert answer.status in (200, 201), content
        return json.loads(content)

    def run_pod(self, name: str, *command: str, **more: Any) -> Obj:
        """Create a pod with one container, named main, and start it."""
        containers = [{"name": "main", "image": "host", "command": list(command), **more}]
        return self.run_containers(name, containers)

    def run_containers(self, name: str, containers: Sequence[Obj], **spec: Any) -> Obj:
        """Create a pod and start its containers."""
        spec = {"nodeName": NODE, "restartPolicy": "Never", "containers": list(containers), **spec}
        pod: Obj = self.ask("POST", PODS, {"metadata": {"name": name}, "spec": spec})
        for container in containers:
            self.start(pod, container)
        return self.report(name, "127.0.0.1")

    def start(self, pod: Obj, container: Obj, attempt: int = 0) -> str:
        """Start a container; return its id."""
        metadata = pod["metadata"]
        folder = pod_logs(self.folder, metadata["namespace"], metadata["name"], metadata["uid"])
        made = Container(
            container_id(metadata["uid"], container["name"], attempt), metadata["uid"], container["name"], attempt,
            container["command"], container_log(folder, container["name"], attempt),
            stdin=bool(container.get("stdin")), tty=bool(container.get("tty")),
        )  # fmt: skip
        self.call(self.runtime.start(made))
        return made.id

    def report(self, name: str, address: str) -> Obj:
        """Write the status of a pod, as its containers are."""
        pod = self.ask("GET", f"{PODS}/{name}")
        states = [self._status(pod, container["name"]) for container in pod["spec"]["containers"]]
        running = any("running" in each["state"] for each in states)
        status = {"phase": "Running" if running else "Succeeded", "podIP": address, "containerStatuses": states}
        path = f"{PODS}/{name}/status"
        written: Obj = self.ask("PATCH", path, {"status": status}, "application/merge-patch+json")
        return written

    def _status(self, pod: Obj, container: str) -> Obj:
        id = container_id(pod["metadata"]["uid"], container, 0)
        state = self.runtime.find(id)
        assert state is not None
        started = format_time(state.started // SECOND * SECOND)
        told: Obj = {"running": {"startedAt": started}}
        if state.state == "exited":
            told = {"terminated": {"exitCode": state.exit_code, "startedAt": started, "containerID": status_id(id)}}
        return {"name": container, "ready": True, "restartCount": 0, "image": "host", "imageID": "",
                "containerID": status_id(id), "state": told}  # fmt: skip
