"""Runs podman: commands until they end, and commands with connected streams."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kilauea.kubelet.container_runtime import ContainerError
from kilauea.kubelet.processes.streams import StreamProcess, make_pipes

PROGRAM = "podman"
_VERSION_SECONDS = 20.0


class Result(NamedTuple):
    """The end of a command: its exit code, its output, and its last error."""

    code: int
    text: str
    error: str


def version() -> str:
    """Return the version of podman; empty if it is not installed."""
    try:
        done = subprocess.run(
            [PROGRAM, "--version"], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip().rpartition(" ")[2]


async def run(arguments: Sequence[str], *, folder: Path | None = None) -> Result:
    """Run a command of podman to its end.

    Args:
        arguments: of podman.
        folder: in which it works; that of this process by default.

    Raises:
        ContainerError: podman is not installed.
    """
    process = await start(arguments, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, folder=folder)
    output, errors = await process.communicate()
    return Result(process.returncode or 0, output.decode(errors="replace"), _last_error(errors))


async def start(
    arguments: Sequence[str],
    *,
    stdin: int,
    stderr: int,
    stdout: int = asyncio.subprocess.PIPE,
    folder: Path | None = None,
) -> asyncio.subprocess.Process:
    """Start a podman command in a separate session, so that signals of a terminal do not reach it.

    Raises:
        ContainerError: podman is not installed.
    """
    try:
        return await asyncio.create_subprocess_exec(
            PROGRAM, *arguments, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True, cwd=folder
        )
    except OSError as error:
        message = f"cannot run podman: {error.strerror}; install podman, or use --runtime process"
        raise ContainerError("ContainerCannotRun", message) from error


def _last_error(errors: bytes) -> str:
    line = errors.decode(errors="replace").strip().rpartition("\n")[2]
    return line.removeprefix("Error: ").removeprefix("OCI runtime error: ")


class CommandLink:
    """A command of podman that runs for one connection."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def exit_code(self) -> int:
        """Wait for its end; return its exit code."""
        code = await self._process.wait()
        return 128 - code if code < 0 else code

    def end_input(self) -> None:
        """Do nothing: closing its input pipe is sufficient."""

    async def close(self) -> None:
        """End it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


async def connect(arguments: Sequence[str], *, folder: Path, stdin: bool, tty: bool) -> StreamProcess:
    """Run a podman command with connected streams.

    Args:
        arguments: of podman.
        folder: in which it works.
        stdin: True to write to its standard input.
        tty: True to give it a terminal.
    """
    pipes = make_pipes(stdin=stdin, tty=tty)
    its_input, its_output, its_errors = pipes.theirs * 3 if tty else pipes.theirs
    try:
        process = await start(arguments, stdin=its_input, stdout=its_output, stderr=its_errors, folder=folder)
    except BaseException:
        pipes.close_ours()
        raise
    finally:
        pipes.close_theirs()
    return pipes.process(CommandLink(process))
