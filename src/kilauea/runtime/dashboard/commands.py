"""Plans and explanations: the same commands that a user would run, as processes with limits.

Trial cycles use processor time and memory, and parse user input. A separate process isolates that from the cluster and
can be ended. It has the credentials of the dashboard's user.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kilauea.dashboard.pages import PLAN_SECONDS

PATIENCE = 4
"""Factor by which a command may take longer than its processor time, on a busy machine."""
MEMORY = 4 << 30
"""Maximum bytes of address space of a command."""
MOST_OUTPUT = 8 << 20
"""Maximum bytes of output to read."""
MOST_WAITING = 4
"""Maximum number of waiting commands: one runs at a time."""
_BUSY = "the dashboard is busy with other plans: try again soon"


class Done(NamedTuple):
    """The end of a command: exit code, output and errors; `fault` is the reason if it did not run or ended early."""

    code: int
    output: bytes = b""
    errors: str = ""
    fault: str = ""


class Commands:
    """Runs commands of `kilauea` for one cluster, one at a time.

    Args:
        kubeconfig: the file with the cluster and the credentials; None for the default files.
        environment: environment variables of the commands.
    """

    def __init__(self, kubeconfig: Path | None, environment: Mapping[str, str]) -> None:
        self._kubeconfig, self._environment = kubeconfig, dict(environment)
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    async def run(self, *words: str, given: bytes = b"") -> Done:
        """Run `kilauea WORDS` for the cluster, with these bytes as standard input."""
        if self._waiting >= MOST_WAITING:
            return Done(1, fault=_BUSY)
        self._waiting += 1
        try:
            async with self._turn:
                return await self._run(words, given)
        finally:
            self._waiting -= 1

    async def _run(self, words: Sequence[str], given: bytes) -> Done:
        access = ["--kubeconfig", str(self._kubeconfig)] if self._kubeconfig is not None else []
        limited = [sys.executable, "-m", "kilauea.runtime.dashboard.limited", str(PLAN_SECONDS), str(MEMORY)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *limited,
            *(sys.executable, "-m", "kilauea", *words, *access),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={**self._environment, "NO_COLOR": "1", "COLUMNS": "200", "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(PLAN_SECONDS * PATIENCE):
                output, errors = await _talk(process, given)
                code = await process.wait()
        except TimeoutError:
            return Done(1, fault=_too_long())
        except _TooMuch:
            return Done(1, fault=f"the output is larger than {MOST_OUTPUT >> 20} MiB: plan fewer objects at a time")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            return Done(code, fault=_too_long())
        return Done(code, output, errors)


class _TooMuch(Exception):
    """The output exceeds the limit."""


def _too_long() -> str:
    return f"it takes more than {PLAN_SECONDS} seconds of processor time: plan fewer objects, or use `kilauea plan`"


async def _talk(process: asyncio.subprocess.Process, given: bytes) -> tuple[bytes, str]:
    """Write the input of a process, and read its output and errors."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None

    async def write(to: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            to.write(given)
            await to.drain()
        to.close()

    _, output, errors = await asyncio.gather(write(process.stdin), _all(process.stdout), _all(process.stderr))
    return output, errors.decode(errors="replace")


async def _all(stream: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := await stream.read(1 << 16):
        parts.append(part)
        size += len(part)
        if size > MOST_OUTPUT:
            raise _TooMuch
    return b"".join(parts)
