"""Shared code of the stories on a cluster: the cluster, its objects, and a table that grows.

The stories are `examples/*/demo.py`. The cluster is `kilauea up` in a separate process, with a folder that is deleted
afterwards.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kilauea.api.ports import Resource
from kilauea.client.finding import find_access
from kilauea.client.http import HttpTransport
from kilauea.client.rest import Client

VCCTL = ("-c", "from kilauea.cli.vcctl.programs import vcctl; vcctl()")
"""The program `vcctl`, of the Python that runs this."""
PROGRAMS = {"kilauea": ("-m", "kilauea"), "vcctl": VCCTL}
REPOSITORY = Path(__file__).parent.parent


class Stage(NamedTuple):
    """A cluster that is ready."""

    client: Client
    kubeconfig: Path

    async def objects(self, resource: Resource) -> list[dict[str, Any]]:
        """All objects of a kind."""
        return [json.loads(raw) for raw in (await self.client.list(resource)).items]


@asynccontextmanager
async def cluster(*options: str) -> AsyncIterator[Stage]:
    """A cluster for the length of a block.

    Args:
        options: of `kilauea up`, beside those that say where it is.
    """
    with tempfile.TemporaryDirectory(prefix="kilauea-demo-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        place = ("--listen", "127.0.0.1:0", "--data-dir", folder, "--kubeconfig", str(kubeconfig))
        command = (sys.executable, "-m", "kilauea", "up", *place, *options)
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
        try:
            await _ready(process)
            async with HttpTransport(find_access(kubeconfig, {})) as transport:
                yield Stage(Client(transport, "demo"), kubeconfig)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()


async def _ready(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    async for said in process.stdout:
        if b" is ready " in said:
            return
    raise SystemExit("demo: the cluster did not start")


def say(words: str) -> None:
    """A narration of the story."""
    print(f"\n{words}", flush=True)


async def typed(stage: Stage, line: str, says: str, *, refused: bool = False, paragraphs: int = 99) -> None:
    """Type a command and show what it prints, or the first paragraphs of it; it must say something.

    Raises:
        SystemExit: it does not, or fails, or does not fail.
    """
    print(f"\n    $ {line}", flush=True)
    kubeconfig = str(stage.kubeconfig)
    program, *words = line.replace("$KUBECONFIG", kubeconfig).split()
    command = (sys.executable, *PROGRAMS[program], *words)
    environment = os.environ | {"KUBECONFIG": kubeconfig}
    process = await asyncio.create_subprocess_exec(
        *command, stdout=PIPE, stderr=STDOUT, env=environment, cwd=REPOSITORY
    )
    printed = (await process.communicate())[0].decode()
    shown = "\n\n".join(printed.rstrip().split("\n\n")[:paragraphs])
    for told in shown.splitlines():
        print(f"    {told}".rstrip(), flush=True)
    if bool(process.returncode) is not refused or says not in shown:
        raise SystemExit(f"demo: expected the command to {'fail' if refused else 'succeed'} and to print: {says}")


class Table:
    """Rows that are printed when they are new or have changed, with the seconds since the start."""

    def __init__(self, *columns: tuple[str, int]) -> None:
        """Create a table with columns and their widths, after a column for the time."""
        self._headings = ("TIME", *(heading for heading, _ in columns))
        self._widths = (7, *(width for _, width in columns))
        self._shown: list[Sequence[object]] = []
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def heading(self) -> None:
        """Print the names of the columns."""
        self._print(self._headings)

    def show(self, rows: Iterable[Sequence[object]]) -> None:
        """Print the rows that are new or have changed."""
        now = list(rows)
        for row in now:
            if row not in self._shown:
                self._print((f"{self.seconds:.1f}s", *row))
        self._shown = now

    def _print(self, cells: Sequence[object]) -> None:
        line = "".join(str(cell).ljust(width) for cell, width in zip(cells, self._widths, strict=True))
        print(line.rstrip(), flush=True)
