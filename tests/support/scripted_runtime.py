"""A container runtime under virtual time: its containers do what their arguments say, and it notes what it was asked.

`["run", "5", "3"]` runs for five seconds and exits with 3; `run forever` runs until it is signalled; `stubborn` ignores
signals; `missing` cannot be run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from kilauea.api.container_streams import Output
from kilauea.api.ports import Clock
from kilauea.kubelet.container_runtime import Container, ContainerError, ContainerState, Limits, Usage


class Answer:
    """A command that has run in a container at once."""

    def __init__(self, code: int, output: str, seconds: float) -> None:
        self._code = code
        self._outputs = [Output("stdout", output.encode())] if output else []
        self._seconds = seconds

    async def read(self) -> Output | None:
        await asyncio.sleep(self._seconds)
        return self._outputs.pop(0) if self._outputs else None

    async def write(self, data: bytes) -> None:
        """Drop it."""

    async def end_input(self) -> None:
        """Nothing to do."""

    async def resize(self, columns: int, rows: int) -> None:
        """Nothing to do."""

    async def wait(self) -> int:
        return self._code

    async def close(self) -> None:
        """Nothing to do."""


class ScriptedRuntime:
    """Runs nothing.

    Attributes:
        started: containers in the order of their start.
        asked: calls as text, with the name of the container.
        answers: exit code, output and seconds of each command that is run in a container, by the command.
    """

    name, version = "scripted", "1"
    limitations: Sequence[str] = ()

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.states: dict[str, ContainerState] = {}
        self.started: list[Container] = []
        self.asked: list[str] = []
        self.answers: dict[str, tuple[int, str, float]] = {}
        self.written: dict[str, Path] = {}
        """Folders with what containers have written, by their ids."""
        self.used: dict[str, Usage] = {}
        """What containers use, by their ids."""
        self._argv: dict[str, Sequence[str]] = {}
        self._exits: asyncio.Queue[ContainerState] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> Sequence[ContainerState]:
        return list(self.states.values())

    async def close(self) -> None:
        """Nothing to do."""

    async def start(self, container: Container) -> ContainerState:
        if container.argv[0] == "missing":
            raise ContainerError("RunContainerError", 'exec: "missing": executable file not found in $PATH')
        self.started.append(container)
        state = ContainerState(
            container.id, container.pod, container.name, container.attempt, "running", 1, self._clock.now()
        )
        self.states[container.id] = state
        self._argv[container.id] = container.argv
        if container.argv[0] == "run" and container.argv[1] != "forever":
            task = asyncio.ensure_future(self._later(container))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return state

    async def _later(self, container: Container) -> None:
        await asyncio.sleep(float(container.argv[1]))
        self.end(container.id, int(container.argv[2]))

    def end(self, id: str, code: int, signal: int = 0) -> None:
        """End a container that runs."""
        state = self.states.get(id)
        if state is None or state.state == "exited":
            return
        reason = "Error" if code else "Completed"
        ended = state._replace(
            state="exited", pid=0, finished=self._clock.now(), exit_code=code, signal=signal, reason=reason
        )
        self.states[id] = ended
        self._exits.put_nowait(ended)

    async def signal(self, id: str, number: int, *, everyone: bool = False) -> None:
        self.asked.append(f"signal {self.states[id].name} {number}")
        if "stubborn" not in self._argv[id]:
            self.end(id, 128 + number, number)

    async def kill(self, id: str) -> None:
        self.asked.append(f"kill {self.states[id].name}")
        self.end(id, 137, 9)

    async def resize(self, id: str, limits: Limits) -> None:
        self.asked.append(f"resize {self.states[id].name} {limits.cpu} {limits.memory}")

    async def remove(self, id: str) -> None:
        self.states.pop(id, None)

    async def exits(self) -> AsyncIterator[ContainerState]:
        while True:
            yield await self._exits.get()

    async def exec(self, id: str, argv: Sequence[str], *, stdin: bool = False, tty: bool = False) -> Answer:
        self.asked.append(f"exec {self.states[id].name} {' '.join(argv)}")
        return Answer(*self.answers.get(argv[0], (0, "", 0.0)))

    async def attach(self, id: str, *, stdin: bool = False) -> Answer:
        raise ContainerError("NotSupported", "nothing to attach to")

    async def folders(self, ids: Sequence[str]) -> Mapping[str, Path]:
        return {id: self.written[id] for id in ids if id in self.written}

    async def usage(self, ids: Sequence[str]) -> Mapping[str, Usage]:
        return {id: self.used[id] for id in ids if id in self.used}

    def reboot(self) -> None:
        """Forget everything, as after a restart of the machine."""
        self.states.clear()
