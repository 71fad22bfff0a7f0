"""A whole cluster in one process under virtual time: server, scheduler, controllers, nodes, each with its own faults.

with cluster(7, policy_of(7)) as system:
    system.start()
    system.users.gang("g", 3, 3, 1, "default", "", {})
    system.scheduler.kill()
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kilauea.api.ports import Controller, Key
from kilauea.apiserver.storage.log import Row
from kilauea.controllers.registry import kubernetes_controllers, volcano_controllers
from kilauea.nodes.heartbeats import Heartbeats
from kilauea.nodes.machine import Machine
from kilauea.nodes.pods import Pods
from kilauea.nodes.registration import Registration
from support.virtual_time import VirtualLoop, virtual_loop
from system.laws import CORES, STILL, Laws
from system.policies import Policy
from system.process import Controllers, Process, SchedulerProcess
from system.server import FULL, ServerProcess, fresh_data, scratch
from system.users import Users

NODE_COUNT = 4
RENEW_SECONDS = 20
LEASE = Key("volcano-system", "volcano")
"""Held by one of two schedulers."""


class LogErrors(logging.Handler):
    """Keeps what is logged as an error, but that a disk is full which is."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it, if it is news; of a fault its last line tells what, and where is in the log."""
        lines = self.format(record).splitlines()
        text = " ... ".join(dict.fromkeys((lines[0], *lines[-5:])))
        if FULL not in text and text not in self.texts:
            self.texts.append(text)


class System:
    """The cluster: its processes, its users, and who sees to the laws."""

    def __init__(self, loop: VirtualLoop, seed: int, policy: Policy, folder: Path, laws: Laws, nodes: int) -> None:
        self.policy = policy
        self.laws = laws
        self.log_errors = LogErrors()
        self.stuck: set[str] = set()
        """Pods that never end their termination."""
        fresh_data(folder / "data")
        conf = folder / "scheduler.conf"
        conf.write_text(policy.text)
        self.server = ServerProcess(loop, str(seed), folder / "data", self.durable, policy.admission)
        self.users = Users(self.server)
        names = ("kilauea-scheduler", *(["kilauea-standby"] if policy.standby else []))
        self.schedulers = [
            SchedulerProcess(
                self.server,
                name,
                str(seed),
                str(conf),
                lambda *seen: self.laws.look(self.server.clock.monotonic(), *seen),
                self.laws.broken,
                LEASE if policy.standby else None,
            )
            for name in names
        ]
        self.processes: list[Process] = [
            *self.schedulers,
            Controllers(self.server, "kilauea-controllers", str(seed), _controllers),
            Controllers(self.server, "kilauea-nodes", str(seed), lambda since: _nodes(nodes)),
        ]

    @property
    def scheduler(self) -> SchedulerProcess:
        """The scheduler that schedules; the first if none does."""
        return next((each for each in self.schedulers if each.leads), self.schedulers[0])

    def durable(self, row: Row) -> None:
        """Something was written for good."""
        self.laws.durable(self.server.loop.time(), row)

    def start(self) -> None:
        """Start everything, and let it become ready."""
        for process in self.processes:
            process.start()
        self.wait(2)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.server.run(asyncio.sleep(seconds))

    def faults(self, rate: float) -> None:
        """From now on, so much goes wrong."""
        for process in self.processes:
            process.faults.rate = rate

    def at_rest(self) -> bool:
        """Whether no pod waits, and nothing has happened to any for a while."""
        plan = self.laws.plan
        still = self.server.loop.time() - self.laws.changed > 1.5 * STILL
        return still and plan is not None and not plan.pending

    def ended(self) -> list[str]:
        """What has come to an end, which nothing should."""
        return [each for process in self.processes for each in process.ended()]


def _controllers(since: int) -> list[Controller]:
    return [*volcano_controllers(), *kubernetes_controllers(lambda now: since)]


def _nodes(count: int) -> list[Controller]:
    return [Registration(count, Machine(cpu=str(CORES))), Heartbeats(Machine(), RENEW_SECONDS), Pods()]


@contextmanager
def cluster(seed: int, policy: Policy, laws: Laws | None = None, nodes: int = NODE_COUNT) -> Iterator[System]:
    """A cluster for the length of a block: its server lives, the others begin with `start`.

    Args:
        seed: of everything random.
        policy: configuration.
        laws: what must hold; those of nodes with cores if None.
        nodes: how many nodes register themselves.
    """
    root = logging.getLogger()
    with scratch() as folder, virtual_loop() as loop:
        system = System(loop, seed, policy, Path(folder), laws or Laws(policy), nodes)
        root.addHandler(system.log_errors)
        try:
            system.server.start()
            yield system
            system.server.kill()
        finally:
            root.removeHandler(system.log_errors)
