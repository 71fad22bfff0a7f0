"""A runtime with a supervisor of its own for a test, and containers to run in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kilauea.api.container_streams import Process
from kilauea.kubelet.container_runtime import Container, ContainerState
from kilauea.kubelet.processes.runtime import Isolation, ProcessRuntime

PATIENCE = 240.0
"""Seconds after which a test gives up: far more than it needs on a busy machine."""


@asynccontextmanager
async def runtime(folder: Path, isolation: Isolation = "plain", **options: Any) -> AsyncIterator[ProcessRuntime]:
    """Open a runtime; end its containers and its supervisor afterwards."""
    opened = ProcessRuntime(folder / "processes", isolation=isolation, **options)
    await opened.open()
    if opened.isolation != isolation:
        await opened.close()
        pytest.skip(f"this machine does not permit {isolation}: {opened.limitations}")
    try:
        yield opened
    finally:
        for state in await opened.open():
            await opened.kill(state.id)
        await opened.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(opened.supervisor, signal.SIGTERM)
        await until(lambda: not is_alive(opened.supervisor))


def container(folder: Path, *argv: str, id: str = "one", **fields: Any) -> Container:
    """A container that runs a command, logged to `ID.log`."""
    environment = {"PATH": os.environ["PATH"], **fields.pop("environment", {})}
    log = folder / f"{id}.log"
    return Container(id=id, pod="pod", name="main", attempt=0, argv=argv, log=log, environment=environment, **fields)


async def run(opened: ProcessRuntime, wanted: Container) -> ContainerState:
    """Run a container to its end."""
    await opened.start(wanted)
    return await exit_of(opened, wanted.id)


async def output_of(process: Process) -> tuple[bytes, bytes, int]:
    """Read all output of a process; return it with the exit code, and disconnect."""
    read = {"stdout": b"", "stderr": b""}
    async with asyncio.timeout(PATIENCE):
        while (output := await process.read()) is not None:
            read[output.channel] += output.data
        code = await process.wait()
    await process.close()
    return read["stdout"], read["stderr"], code


async def read_until(process: Process, text: bytes) -> bytes:
    """Read output of a process until it has a text."""
    read = b""
    async with asyncio.timeout(PATIENCE):
        while text not in read:
            output = await process.read()
            assert output is not None, read
            read += output.data
    return read


async def exit_of(opened: ProcessRuntime, id: str) -> ContainerState:
    """Wait for the end of a container."""
    async with asyncio.timeout(PATIENCE):
        async for state in opened.exits():
            if state.id == id:
                return state
    raise AssertionError(f"container {id} does not exit")


async def until(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition does not come true"
        await asyncio.sleep(0.01)


def logged(wanted: Container, stream: str = "stdout") -> list[str]:
    """Lines that a container has written, without their times; a part of a line ends in `...`."""
    lines = []
    try:
        text = wanted.log.read_text(errors="replace")
    except FileNotFoundError:
        # The log is being rotated.
        return []
    for line in text[: text.rfind("\n") + 1].splitlines():
        _, where, tag, text = line.split(" ", 3)
        if where == stream:
            lines.append(text if tag == "F" else f"{text}...")
    return lines


def is_alive(pid: int) -> bool:
    """True if a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def processes_of(*argv: str) -> list[int]:
    """Processes that run a command."""
    wanted = "\0".join(argv).encode() + b"\0"
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == wanted:
                found.append(int(path.parent.name))
    return found


def limits_of(pid: int) -> tuple[str, str]:
    """The limits of cpu and memory of a process by its control groups, of either version."""
    found = {"cpu": "", "memory": ""}
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for name, files in (
            ("cpu", ("cpu.max", "cpu.cfs_quota_us")),
            ("memory", ("memory.max", "memory.limit_in_bytes")),
        ):
            for file in files:
                value = Path("/sys/fs/cgroup", controllers, path.strip("/"), file)
                if (not controllers or name in controllers.split(",")) and value.exists():
                    found[name] = value.read_text().split()[0]
    return found["cpu"], found["memory"]
