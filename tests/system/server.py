"""The API server of a system: its core over a real log on disk, which dies in the midst of everything and comes back.

A commit takes a moment of virtual time, and may fail for want of space. What is under way when the server dies is
lost, requests and commits; what was shown to anybody is there when it is started again.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import apsw

from kilauea.admission.review import Settings
from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.bootstrap import create_first_objects
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.custom_resources.bundled import install_bundled
from kilauea.apiserver.resources.builtin import builtin_types
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.storage import Retention, Store
from kilauea.apiserver.storage.log import RevisionLog, Row
from kilauea.apiserver.storage.writer import Commits, Committed, Failed
from kilauea.client.rest import Client
from kilauea.client.transport import Answer, unreachable
from kilauea.runtime.cluster.admission import VolcanoAdmission
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.cluster.in_process import Definitions
from kilauea.runtime.inputs.template_rules import template_errors
from support.virtual_time import LoopClock, VirtualLoop, virtual_loop

T = TypeVar("T")
COMMIT_SECONDS = (0.0, 0.001, 0.02, 0.5)
FULL = "database or disk is full"
_MEMORY = Path("/dev/shm")
"""Where files cost nothing, if there is such a place: what happens to real disks is asked elsewhere."""


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for the files of one system."""
    return tempfile.TemporaryDirectory(prefix="kilauea-system-", dir=_MEMORY if _MEMORY.is_dir() else None)


class FaultyLog(RevisionLog):
    """A log on a disk that is full at times; tells of every row that became durable."""

    def __init__(self, folder: Path, rng: Random, see: Callable[[Row], None]) -> None:
        super().__init__(folder, "normal")
        self.rate = 0.0
        self._rng = rng
        self._see = see

    def append(self, rows: Sequence[Row]) -> None:
        """Commit, if there is space."""
        if self._rng.random() < self.rate:
            raise apsw.FullError(FULL)
        super().append(rows)
        for row in rows:
            self._see(row)


class DelayedWriter(Commits):
    """Commits after a moment of virtual time what has come in by then."""

    def __init__(self, log: RevisionLog, loop: VirtualLoop, rng: Random, committed: Committed, failed: Failed) -> None:
        super().__init__(log, committed, failed)
        self._loop, self._rng = loop, rng
        self._items: list[tuple[int, Sequence[Row]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._dead = False

    def put(self, epoch: int, rows: Sequence[Row]) -> None:
        """Commit these rows, together with all that come before it is time."""
        self._items.append((epoch, rows))
        if self._timer is None and not self._dead:
            delay = self._rng.choices(COMMIT_SECONDS, (8, 8, 3, 1))[0]
            self._timer = self._loop.call_later(delay, self._commit)

    def _commit(self) -> None:
        items, self._items, self._timer = self._items, [], None
        self.commit(items)

    def close(self) -> None:
        """Die: what has not been committed never will be."""
        self._dead = True
        if self._timer is not None:
            self._timer.cancel()
        self.log.close()


class ServerProcess:
    """Lives and dies, and keeps its folder.

    Args:
        loop: its time.
        seed: of rng.
        folder: its data; those of a fresh cluster if there are none.
        see: is told of each row that becomes durable.
        admission: whether Volcano's admission is asked.
    """

    name = "apiserver"

    def __init__(
        self, loop: VirtualLoop, seed: str, folder: Path, see: Callable[[Row], None], admission: bool = False
    ) -> None:
        self._admission = admission
        self.loop, self.clock = loop, LoopClock(loop)
        self._rng = Random(f"{seed} server")
        self._folder, self._see = folder, see
        self._work: dict[asyncio.Task[Any], None] = {}
        """Requests, all of which end with the process, in the order in which they began."""
        self.core: ApiServer | None = None
        self.revision = 0
        """The newest that anybody has seen, of the process before."""
        self.faults = 0.0
        """Of commits, how many fail."""
        self.calm = Client(Line(self, "calm"), "calm", Random(f"{seed} calm"), page=0)

    @property
    def lives(self) -> bool:
        """Whether it answers."""
        return self.core is not None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine."""
        return self.loop.run_until_complete(work)

    def spawn(self, *works: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
        """Tasks that go on until they are cancelled."""
        return [self.loop.create_task(work) for work in works]

    def start(self) -> None:
        """Read the data and answer.

        Raises:
            AssertionError: something is gone that a client has seen.
        """
        rng = self._rng
        self._log = FaultyLog(self._folder, Random(rng.random()), self._see)
        retention = Retention(seconds=rng.choice((5.0, 60.0)), revisions=50)

        def write(committed: Committed, failed: Failed) -> DelayedWriter:
            self._writer = DelayedWriter(self._log, self.loop, Random(rng.random()), committed, failed)
            return self._writer

        self._store = store = Store.of_log(self._log, write, retention, self.loop.time)
        store.most_decoded = 100  # as in kilauea up
        assert store.revision >= self.revision, f"revision {self.revision} was seen, {store.revision} is left"
        core = ApiServer(Backend(store, Registry(builtin_types()), self.clock.now, Random(rng.random())))
        settings = Settings(check_template=template_errors)
        core.backend.admission = admission_steps(*([VolcanoAdmission(core.backend, settings)] * self._admission))
        self.run(create_first_objects(core))
        self._definitions = Definitions(core, self.clock)
        self.run(self._definitions.start())
        self.core = core
        self._log.rate = self.faults

    def fail(self, rate: float) -> None:
        """From now on so many commits fail."""
        self.faults = self._log.rate = rate

    def kill(self) -> None:
        """Die in the midst of everything."""
        self.revision, self.core = self._store.revision, None
        self._writer.close()
        work, self._work = [*self._work, *filter(_is_of_server, asyncio.all_tasks(self.loop))], {}
        for task in work:
            task.cancel()
        if work:
            self.run(asyncio.wait(work))
        self.run(self._definitions.stop())

    def process(self) -> ApiServer:
        """The process that there is now.

        Raises:
            ApiError: the object does not exist.
        """
        if self.core is None:
            raise unreachable("connection refused")
        return self.core

    async def until_death(self, core: ApiServer, work: Coroutine[Any, Any, T]) -> T:
        """Work of a process for a client; the connection breaks when it dies.

        Raises:
            ApiError: it is dead.
        """
        if self.core is not core:
            work.close()
            raise unreachable("connection reset")
        task = self.loop.create_task(work)
        self._work[task] = None
        task.add_done_callback(lambda ended: self._work.pop(ended, None))
        try:
            return await task
        except asyncio.CancelledError:
            if task.cancelled() and self.core is not core:
                raise unreachable("connection reset") from None
            raise


def _is_of_server(task: asyncio.Task[Any]) -> bool:
    """Whether it is work that the server has started by itself: a write that goes on when its caller goes away."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and "kilauea/apiserver/" in code.co_filename


class Line:
    """The way of a component to the server, whichever process that is by then."""

    def __init__(self, server: ServerProcess, component: str) -> None:
        self._server = server
        self._component = component

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Ask."""
        core = self._server.process()
        direct = DirectTransport(core, self._component)
        return await self._server.until_death(core, direct.request(method, target, headers, body))

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """A watch."""
        core = self._server.process()
        async with aclosing(DirectTransport(core, self._component).stream(target, headers)) as pieces:
            while (piece := await self._server.until_death(core, _next(pieces))) is not None:
                yield piece

    async def close(self) -> None:
        """End all connections; there are none."""


async def _next(pieces: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(pieces, None)


@lru_cache(maxsize=1)
def _fresh() -> tempfile.TemporaryDirectory[str]:
    """The data of a cluster in which nothing has happened yet."""
    folder = scratch()
    with virtual_loop() as loop:
        server = ServerProcess(loop, "fresh", Path(folder.name), lambda row: None)
        server.start()
        assert server.core is not None
        server.run(install_bundled(server.core))
        server.run(asyncio.sleep(60))
        server.kill()
    return folder


def fresh_data(folder: Path) -> None:
    """Put the data of a fresh cluster into a folder."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
    shutil.copytree(_fresh().name, folder)
