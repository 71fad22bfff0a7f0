"""A container runtime that runs containers with podman."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import re
import shutil
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kilauea.api.container_streams import Process
from kilauea.kubelet.container_runtime import LOG_SIZE, Container, ContainerError, ContainerState, Limits, Usage
from kilauea.kubelet.podman.arguments import ATTEMPT, FOLDER, ID, NAME, POD, run_arguments
from kilauea.kubelet.podman.command import Result, connect, run, start, version
from kilauea.kubelet.podman.folders import make_folder
from kilauea.kubelet.processes.supervisor import process_tree

log = logging.getLogger(__name__)

_NOT_RUN = (126, 127)
"""Exit codes of podman for a command that cannot be run, or does not exist."""
_PERIOD = 100_000
"""Period of processor time limits in microseconds."""
_LOOK = 15.0
"""Seconds between two checks of running containers: the stream of events may lose some."""
_AGAIN = 1.0
"""Seconds after which the stream of events is reopened."""
_RUNTIME = re.compile(r"^(?:runc|crun): ")
_NO_FOLDER = re.compile(r'workdir ".*" does not exist')
_MONITORS = Path("kubelet/podman")
"""Path in the folder of a cluster, with a working folder for the monitor (conmon) of each container."""
_OOM = "oom"
"""The file that a monitor creates there when the kernel kills a process for lack of memory."""
_ENDED = ("exited", "stopped", "dead")


class PodmanRuntime:
    """Runs podman containers, which outlive this process.

    Args:
        folder: folder of the cluster, which identifies its containers.
        log_size: bytes of a log at which it starts again.
    """

    name = "podman"

    def __init__(self, folder: Path, *, log_size: int = LOG_SIZE) -> None:
        self._folder = str(folder.absolute())
        self._prefix = "kilauea-" + hashlib.sha256(self._folder.encode()).hexdigest()[:8]
        self._log_size = log_size
        self._exits: asyncio.Queue[ContainerState] = asyncio.Queue()
        self._running: dict[str, int] = {}
        """Process ids of running containers, 0 for those that are being started."""
        self._watching: list[asyncio.Task[None]] = []
        self._options: tuple[str, ...] = ()
        self._limits: tuple[str, ...] = ()
        self.version = version()

    @property
    def limitations(self) -> Sequence[str]:
        """Limitations on this machine, available from `open` on."""
        return (*self._limits, "the log of a container restarts at 10 MiB, and older lines are lost")

    @property
    def running(self) -> Collection[str]:
        """Ids of running containers; without those whose end is still to be yielded by `exits`."""
        return frozenset(self._running)

    async def open(self) -> Sequence[ContainerState]:
        """Find all containers of earlier processes, running or exited, that are not removed."""
        await self.close()
        if not self.version:
            raise ContainerError("ContainerCannotRun", "podman is not installed; install it, or use --runtime process")
        info = await run(["info", "--format=json"])
        if info.code:
            raise ContainerError("ContainerCannotRun", f"podman does not work here: {info.error}")
        self._learn(json.loads(info.text))
        listed = await run(["ps", "--all", "--quiet", "--no-trunc", f"--filter=label={FOLDER}={self._folder}"])
        states = await self._inspect(listed.text.split())
        self._running = {state.id: state.pid for state in states if state.state == "running"}
        self._watching = [asyncio.create_task(self._follow()), asyncio.create_task(self._look_often())]
        return states

    async def close(self) -> None:
        """Stop watching; containers keep running."""
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        self._watching = []

    async def start(self, container: Container) -> ContainerState:
        """Create a container and run its command."""
        name = self._name(container.id)
        container.log.parent.mkdir(parents=True, exist_ok=True)
        monitor = self._monitor(container.id)
        self._running[container.id] = 0
        try:
            result = await self._podman(*run_arguments(container, self._folder, name, self._log_size), folder=monitor)
            if result.code and _NO_FOLDER.match(result.error) and container.root is None:
                result = await self._start_with_folder(container, name) or result
            if result.code:
                raise await self._not_started(container.id, result.code, result.error)
            (state,) = await self._inspect([name])
        except BaseException:
            self._running.pop(container.id, None)
            raise
        self._running[container.id] = state.pid
        if state.state == "exited":
            self._ended(state)
        return state._replace(state="running", finished=0, exit_code=0, signal=0, reason="", message="")

    async def _start_with_folder(self, container: Container, name: str) -> Result | None:
        """Start a container with a missing working directory, which is created as in kubelets; None if that fails.

        Only root can mount the files of a container that does not run.
        """
        await self._podman("rm", "--force", "--time=0", name)
        created = await self._podman(*run_arguments(container, self._folder, name, self._log_size, ("create",)))
        if created.code:
            return created
        mounted = await self._podman("mount", name)
        if mounted.code:
            return None
        try:
            make_folder(mounted.text.strip(), container.working_dir)
        except OSError:
            return None
        finally:
            await self._podman("unmount", name)
        return await self._podman("start", name, folder=self._monitor(container.id))

    async def signal(self, id: str, number: int, *, everyone: bool = False) -> None:
        """Send a signal to the first process of a container; no error if it has exited. Podman cannot signal others."""
        await self._podman("kill", f"--signal={number}", self._name(id))

    async def kill(self, id: str) -> None:
        """End all processes of a container: the kernel ends those of its namespace with the first."""
        await self.signal(id, 9)

    async def resize(self, id: str, limits: Limits) -> None:
        """Change the limits of a running container."""
        memory = limits.memory or -1
        quota = limits.cpu * _PERIOD // 1000 if limits.cpu else -1
        flags = (f"--memory={memory}", f"--memory-swap={memory}", f"--cpu-period={_PERIOD}", f"--cpu-quota={quota}")
        result = await self._podman("update", *flags, self._name(id))
        if result.code:
            raise ContainerError("ResizeError", f"podman cannot change the limits: {result.error}")

    async def remove(self, id: str) -> None:
        """Remove a container that has exited, except its log."""
        if id in self._running:
            raise ContainerError("CreateContainerError", f'container "{id}" runs; kill it before you remove it')
        await self._forget(id)

    async def exits(self) -> AsyncIterator[ContainerState]:
        """Yield each container that exits, from `open` on."""
        while True:
            yield await self._exits.get()

    async def exec(self, id: str, argv: Sequence[str], *, stdin: bool = False, tty: bool = False) -> Process:
        """Run another command in a running container."""
        self._check_running(id)
        flags = [flag for flag, wanted in (("--interactive", stdin), ("--tty", tty)) if wanted]
        command = [*self._options, "exec", *flags, self._name(id), *argv]
        return await connect(command, folder=self._monitor(id), stdin=stdin, tty=tty)

    async def attach(self, id: str, *, stdin: bool = False) -> Process:
        """Connect to the input and the output of a running container, from now on.

        Podman adds a line end to the output, and ends the input of the container with the client.
        """
        self._check_running(id)
        inspected = await run(["container", "inspect", self._name(id)])
        tty = not inspected.code and bool(json.loads(inspected.text)[0]["Config"].get("Tty"))
        flags = ["--sig-proxy=false", *([] if stdin else ["--no-stdin"])]
        command = [*self._options, "attach", *flags, self._name(id)]
        return await connect(command, folder=self._monitor(id), stdin=stdin, tty=tty)

    async def folders(self, ids: Sequence[str]) -> Mapping[str, Path]:
        """Return the folders with everything that containers have written to their root.

        Podman reports them if its storage uses overlays, and not for containers whose root is a folder.
        """
        names = {self._name(id): id for id in ids if self._running.get(id)}
        found = {}
        for data in await self._data(list(names)):
            written = ((data.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
            if written and not data.get("Rootfs"):
                found[names[data["Name"]]] = Path(written)
        return found

    async def usage(self, ids: Sequence[str]) -> Mapping[str, Usage]:
        """Return the usage of running containers; others are left out."""
        return {id: _usage(pid) for id in ids if (pid := self._running.get(id))}

    def _check_running(self, id: str) -> None:
        if not self._running.get(id):
            raise ContainerError("NotFound", f'container "{id}" is not running')

    def _learn(self, info: Mapping[str, Any]) -> None:
        """Choose options that work on this machine."""
        host = info["host"]
        is_hybrid = host.get("cgroupVersion") == "v1" and Path("/sys/fs/cgroup/unified").is_dir()
        if is_hybrid and (host.get("ociRuntime") or {}).get("name") == "crun" and shutil.which("runc"):
            self._options = ("--runtime=runc",)  # crun rejects mixed versions of control groups
        found = []
        if missing := sorted({"cpu", "memory", "pids"} - set(host.get("cgroupControllers") or ())):
            found.append(
                f"containers with limits of {', '.join(missing)} do not start: delegate these controllers to your user"
            )
        self._limits = tuple(found)

    def _name(self, id: str) -> str:
        return f"{self._prefix}-{id}"

    def _monitor(self, id: str) -> Path:
        """The working folder of the monitor of a container; missing for containers of earlier versions."""
        folder = Path(self._folder) / _MONITORS / id
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    async def _forget(self, id: str) -> None:
        await self._podman("rm", "--force", "--time=0", self._name(id))
        shutil.rmtree(self._monitor(id), ignore_errors=True)

    async def _podman(self, *arguments: str, folder: Path | None = None) -> Result:
        return await run([*self._options, *arguments], folder=folder)

    async def _not_started(self, id: str, code: int, words: str) -> ContainerError:
        """Return the error for a container that podman has not started, and remove it."""
        await self._forget(id)
        words = _RUNTIME.sub("", words)
        if code in _NOT_RUN:
            return ContainerError("RunContainerError", words)
        return ContainerError("CreateContainerError", words)

    async def _inspect(self, names: Sequence[str]) -> list[ContainerState]:
        """The states of containers, without those that no longer exist or were never started."""
        return [self._state(each) for each in await self._data(names) if each["State"]["Status"] != "created"]

    async def _data(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """The result of podman inspect, without containers that no longer exist."""
        if not names:
            return []
        result = await run(["container", "inspect", *names])
        try:
            found: list[dict[str, Any]] = json.loads(result.text or "[]")
        except ValueError:
            return []
        return found

    def _state(self, data: Mapping[str, Any]) -> ContainerState:
        """The state of a container from podman inspect, with the file of its monitor."""
        state = _state(data)
        if state.exit_code and (self._monitor(state.id) / _OOM).exists():
            return state._replace(reason="OOMKilled")
        return state

    async def _follow(self) -> None:
        """Follow events about containers that end."""
        filters = ("--filter=event=died", f"--filter=label={FOLDER}={self._folder}")
        while True:
            process = await start(
                ["events", *filters, "--format={{.Name}}"],
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                assert process.stdout is not None
                while line := await process.stdout.readline():
                    await self._look([line.decode().strip().removeprefix(self._prefix + "-")])
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            await asyncio.sleep(_AGAIN)

    async def _look_often(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            await self._look([id for id, pid in self._running.items() if pid and process_tree.stat(pid) is None])

    async def _look(self, ids: Sequence[str]) -> None:
        """Record containers that have ended, among some candidates."""
        names = [self._name(id) for id in ids if self._running.get(id)]
        for state in await self._inspect(names):
            if state.state == "exited":
                self._ended(state)

    def _ended(self, state: ContainerState) -> None:
        if self._running.pop(state.id, None) is not None:
            self._exits.put_nowait(state)


def _usage(pid: int) -> Usage:
    """Return the usage of a process and its descendants."""
    cpu = own = shared = threads = 0
    for each in process_tree.with_descendants([pid]):
        seen = process_tree.stat(each)
        if seen is not None:
            private, common = process_tree.memory(each)
            cpu, own, shared, threads = cpu + seen.cpu, own + private, max(shared, common), threads + seen.threads
    return Usage(cpu, own + shared, threads)


def _state(data: Mapping[str, Any]) -> ContainerState:
    """The state of a container from podman inspect."""
    state, labels = data["State"], data["Config"].get("Labels") or {}
    about = (labels.get(ID, ""), labels.get(POD, ""), labels.get(NAME, ""), int(labels.get(ATTEMPT, 0)))
    started = _moment(state["StartedAt"])
    if state["Status"] not in _ENDED:
        return ContainerState(*about, state="running", pid=int(state.get("Pid") or 0), started=started)
    code = int(state.get("ExitCode") or 0)
    reason = "OOMKilled" if state.get("OOMKilled") and code else "Error" if code else "Completed"
    finished = _moment(state["FinishedAt"])
    started = min(started, finished)  # podman sets the start time late, possibly after a short command has ended
    return ContainerState(*about, state="exited", started=started, finished=finished, exit_code=code, reason=reason)


def _moment(text: str) -> int:
    """Microseconds since 1970 of a time with nanoseconds; 0 for none."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", text)
    if match is None or text.startswith("0001"):
        return 0
    seconds = datetime.fromisoformat(match[1] + ("+00:00" if match[3] == "Z" else match[3])).astimezone(UTC)
    return int(seconds.timestamp()) * 1_000_000 + int((match[2] or "0")[:6].ljust(6, "0"))
