"""A history by seed: what users do and what goes wrong, then quiet, and what must hold in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from kilauea.api.kinds import BUDGETS, JOBS, NODES, POD_GROUPS, PODS, QUEUES, REPLICA_SETS
from system.batch import Batch
from system.cluster import System, cluster
from system.ending import at_the_end
from system.policies import policy_of
from system.users import NODE_STATE, RUN_TIME, STOP_TIME

STEPS = 20
PAUSES = (0.0, 0.01, 0.3, 3.0, 30.0)
FULL = 16
"""Pods of one core that fill all nodes."""
QUIET = 450.0
"""Seconds without faults and acts; fewer if nothing waits any more."""
PRIORITIES = {"low": 10, "high": 1000}
ORGANISATION, TEAMS = "organisation", ("red", "blue", "default")
"""In a tree red and blue are below the organisation."""


@dataclass(frozen=True)
class Made:
    """What users made: kind of the act, name, number of pods."""

    kind: str
    name: str
    size: int


class History:
    """Acts upon a system, at random."""

    def __init__(self, system: System, seed: int) -> None:
        self.system = system
        self.users = system.users
        self.rng = Random(f"history {seed}")
        self.batch = Batch(system.users, Random(f"batch {seed}"))
        self.told: list[str] = [system.policy.name]
        """The acts, for who replays them."""
        self._made: list[Made] = []
        self._silent: set[str] = set()
        self._removed: set[str] = set()
        self._closed: set[str] = set()
        self._kept: dict[str, bool] = {}
        """Pods with a finalizer, and whether nothing waits for their end."""
        self._fillings: list[Made] = []
        """What filled the cluster; it goes at the end, of which it would take too much."""
        self._set_back = 0
        """Seconds; what goes by times in objects, as the pods of lost nodes do, happens so much later."""

    def play(self) -> None:
        """Everything up to the quiet."""
        system, rng = self.system, self.rng
        for name, value in PRIORITIES.items():
            self.users.priority(name, value)
        self._queues()
        system.start()
        system.faults(rng.choice((0.0, 0.05, 0.2)))
        system.server.fail(rng.choice((0.0, 0.0, 0.05)))
        for step in range(STEPS):
            act = rng.choice(WITH_JOBS if system.policy.jobs else ACTS)
            self.told.append(f"{system.server.loop.time():8.2f} s: {step} {act.__name__.strip('_')}")
            self.told[-1] += f" {act(self, f'{step}') or ''}"
            system.wait(rng.choice(PAUSES))
        self._calm()
        system.wait(self._set_back)
        system.laws.changed = system.server.loop.time()
        end = system.laws.changed + QUIET
        while system.server.loop.time() < end and not system.at_rest():
            system.wait(30)

    def _queues(self) -> None:
        rng, tree = self.rng, self.system.policy.queues == "tree"
        if tree:
            end, deserved = rng.choice((None, None, rng.randint(8, 14))), rng.randint(6, 12)
            if self.system.policy.admission:
                end, deserved = None, 12  # else it would refuse the teams
            self.users.queue(ORGANISATION, deserved, end, "", 1)
        for team in TEAMS[:2]:
            end = rng.choice((None, None, rng.randint(4, 12)))
            deserved = rng.randint(2, 6 if tree else 8)
            end = max(end, deserved) if end and self.system.policy.admission else end
            self.users.queue(team, deserved, end, ORGANISATION if tree else "", rng.randint(1, 3))

    def _calm(self) -> None:
        system = self.system
        system.faults(0.0)
        system.server.fail(0.0)
        for process in system.processes:
            if not process.lives:
                process.start()
        self.batch.calm()
        for made in self._fillings:
            self._take_back(made)
        for name, alone in sorted(self._kept.items()):
            if alone and self.rng.random() < 0.5:
                system.stuck.add(name)
            else:
                self.users.release(name)
        for name in sorted(self._closed):
            self.users.command(f"reopen-{name}", "OpenQueue", name)
        for name in sorted(self._silent):
            if self.rng.random() < 0.5:
                self.users.patch(NODES, name, {"metadata": {"annotations": {NODE_STATE: None}}})
            else:
                self.users.delete(NODES, name)

    # --- users

    def _shape(self) -> tuple[int, int, int, str, str, dict[str, str]]:
        """Minimum, size, cores of a pod, queue, priority, and how long it runs."""
        minimum = self.rng.randint(1, 4)
        size = minimum + self.rng.choice((0, 0, 1, 3))
        notes: dict[str, str] = self.rng.choice(({}, {RUN_TIME: f"{self.rng.randint(1, 60)}s"}))
        if self.rng.random() < 0.3:
            notes = {**notes, STOP_TIME: f"{self.rng.randint(1, 5)}s"}
        priority = self.rng.choice(("", "low", "high"))
        return minimum, size, self.rng.randint(1, 2), self.rng.choice(TEAMS), priority, notes

    def _gang(self, step: str) -> None:
        minimum, size, cpu, queue, priority, notes = self._shape()
        self.users.gang(f"gang{step}", minimum, size, cpu, queue, priority, notes)
        self._made.append(Made("gang", f"gang{step}", size))

    def _replicas(self, step: str) -> None:
        minimum, size, cpu, queue, priority, _ = self._shape()
        self.users.replicas(f"replicas{step}", minimum, size, cpu, queue, priority)
        self._made.append(Made("replicas", f"replicas{step}", size))

    def _job(self, step: str) -> None:
        _, size, cpu, queue, priority, _ = self._shape()
        self.users.job(f"job{step}", size, cpu, queue, priority, {RUN_TIME: f"{self.rng.randint(1, 60)}s"})
        self._made.append(Made("job", f"job{step}", size))

    def _pod(self, step: str) -> None:
        _, _, cpu, _, priority, notes = self._shape()
        self.users.pod(f"pod{step}", cpu, priority, notes)
        self._made.append(Made("pod", f"pod{step}", 1))

    def _budget(self, step: str) -> None:
        if self._made:
            allowed = self.rng.choice(({"minAvailable": 1}, {"maxUnavailable": 0}, {"maxUnavailable": 1}))
            self.users.budget(self.rng.choice(self._made).name, **allowed)

    def _no_budget(self, step: str) -> None:
        names = self._names(BUDGETS)
        if names:
            self.users.delete(BUDGETS, self.rng.choice(names))

    def _delete(self, step: str) -> None:
        if not self._made:
            return
        made = self._made.pop(self.rng.randrange(len(self._made)))
        self._take_back(made, self.rng.choice((None, 0)))

    def _take_back(self, made: Made, grace: int | None = None) -> None:
        match made.kind:
            case "gang":
                for number in range(made.size):
                    self.users.delete(PODS, f"{made.name}-{number}", grace)
                self.users.delete(POD_GROUPS, made.name)
            case "replicas":
                self.users.delete(REPLICA_SETS, made.name)
            case "job":
                self.users.delete(JOBS, made.name)
            case _:
                self.users.delete(PODS, made.name, grace)

    def _kill_pod(self, step: str) -> None:
        names = self._names(PODS)
        if names:
            self.users.delete(PODS, self.rng.choice(names), self.rng.choice((None, 0)))

    def _scale(self, step: str) -> None:
        sets = [made.name for made in self._made if made.kind == "replicas"]
        if sets:
            self.users.patch(REPLICA_SETS, self.rng.choice(sets), {"spec": {"replicas": self.rng.randint(0, 6)}})

    def _deserve(self, step: str) -> None:
        amount = {"cpu": str(self.rng.randint(2, 8))}
        change = {"deserved": amount, "weight": self.rng.randint(1, 4)}
        self.users.patch(QUEUES, self.rng.choice(TEAMS[:2]), {"spec": change})

    def _close(self, step: str) -> None:
        name = self.rng.choice(TEAMS[:2])
        self.users.command(f"close-{step}", "CloseQueue", name)
        self._closed.add(name)

    def _open(self, step: str) -> None:
        for name in sorted(self._closed):
            self.users.command(f"open-{step}-{name}", "OpenQueue", name)
        self._closed.clear()

    def _names(self, resource: Any) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.users.all(resource))

    # --- what goes wrong

    def _node_dies(self, step: str) -> None:
        name = self.rng.choice(self._names(NODES) or ["none"])
        self._silent.add(name)
        self.users.patch(NODES, name, {"metadata": {"annotations": {NODE_STATE: "silent"}}})

    def _node_returns(self, step: str) -> None:
        for name in sorted(self._silent):
            self.users.patch(NODES, name, {"metadata": {"annotations": {NODE_STATE: None}}})
        self._silent.clear()

    def _node_goes(self, step: str) -> None:
        names = self._names(NODES)
        if len(names) > 1:
            name = self.rng.choice(names)
            self.users.delete(NODES, name)
            self._removed.add(name)

    def _node_comes(self, step: str) -> None:
        back = sorted(self._removed - set(self._names(NODES)))
        self.users.node(back[0] if back else f"extra-{step}")

    def _dies(self, step: str) -> None:
        """A process dies; it comes back with one of the next of these acts, or at the end."""
        process = self.rng.choice(self.system.processes)
        if process.lives:
            process.kill()
        if self.rng.random() < 0.7:
            self.system.wait(self.rng.choice(PAUSES))
            process.start()

    def _server_dies(self, step: str) -> None:
        """The server dies, and comes back on its data, which it may have to do twice."""
        for _ in range(self.rng.choice((1, 1, 2))):
            self.system.wait(self.rng.choice((0.0, 0.001, 0.02, 0.5)))
            self.system.server.kill()
            self.system.wait(self.rng.choice(PAUSES))
            self.system.server.start()

    def _power_fails(self, step: str) -> None:
        """Everything dies at once, and comes back in some order."""
        processes = [each for each in self.system.processes if each.lives]
        self.system.server.kill()
        for process in processes:
            process.kill()
        self.rng.shuffle(processes)
        early = processes[: self.rng.randint(0, len(processes))]
        for process in early:
            process.start()
        self.system.wait(self.rng.choice(PAUSES))
        self.system.server.start()
        for process in processes[len(early) :]:
            process.start()

    def _outage(self, step: str) -> None:
        """The way of a process to the server is cut off for a while."""
        process = self.rng.choice(self.system.processes)
        rate, process.faults.rate = process.faults.rate, 1.0
        self.system.wait(self.rng.choice((0.3, 3.0, 30.0)))
        process.faults.rate = rate

    def _never_ends(self, step: str) -> str:
        """A pod with a foreign finalizer is deleted."""
        pods = [each for each in self.users.all(PODS) if not each["metadata"].get("deletionTimestamp")]
        if not pods:
            return ""
        metadata = self.rng.choice(pods)["metadata"]
        refused = self.users.keep(metadata["name"])
        self._kept[metadata["name"]] = not metadata.get("ownerReferences")
        self.users.delete(PODS, metadata["name"], self.rng.choice((None, 0)))
        return f"{metadata['name']} {refused}"

    def _clock_steps(self, step: str) -> str:
        """The time of day is set back, or a little forward."""
        seconds = self.rng.choice((-300, -30, -2, 2))
        self.system.server.clock.step(seconds)
        self._set_back += max(-seconds, 0)
        return f"by {seconds} s"

    def _promises(self, step: str) -> list[str]:
        """The nodes on which room is promised, once a full cluster is claimed; none if no one goes for the claim."""
        notes = {RUN_TIME: f"{self.rng.randint(20, 60)}s", STOP_TIME: f"{self.rng.randint(1, 5)}s"}
        self.users.gang(f"fill{step}", 1, FULL, 1, self.rng.choice(TEAMS), "low", notes)
        self._fillings.append(Made("gang", f"fill{step}", FULL))
        self.system.wait(1.0)
        minimum, _, cpu, queue, _, _ = self._shape()
        self.users.gang(f"claim{step}", minimum, minimum, cpu, queue, "high", {})
        self._made.append(Made("gang", f"claim{step}", minimum))
        for _ in range(40):
            plan = self.system.laws.plan
            if plan is not None and plan.nominations:
                return sorted({each.node for each in plan.nominations})
            self.system.wait(0.25)
        return []

    def _promised_node_goes(self, step: str) -> str:
        """A node vanishes while room on it is promised."""
        promised = self._promises(step)
        left = [name for name in promised if name in self._names(NODES)]
        if not left or len(self._names(NODES)) == 1:
            return ""
        name = self.rng.choice(left)
        self.users.delete(NODES, name)
        self._removed.add(name)
        return name

    def _dies_between(self, step: str) -> str:
        """The scheduler dies between the evictions for a claim and its binds."""
        if not self._promises(step):
            return ""
        self.system.wait(self.rng.choice((0.0, 0.001, 0.02, 0.5)))
        process = self.system.scheduler
        if process.lives:
            process.kill()
        if self.rng.random() < 0.7:
            self.system.wait(self.rng.choice(PAUSES))
            process.start()
        return process.name

    def _disk_is_full(self, step: str) -> None:
        """For a while nothing can be written."""
        rate = self.system.server.faults
        self.system.server.fail(1.0)
        self.system.wait(self.rng.choice((0.3, 3.0, 30.0)))
        self.system.server.fail(rate)


def _of_jobs(name: str) -> Act:
    """An act of the users of Volcano's jobs."""

    def act(history: History, step: str) -> str:
        told: str = getattr(history.batch, name)(step)
        return told

    act.__name__ = name
    return act


Act = Callable[[History, str], str | None]
"""May tell more."""
ACTS: tuple[Act, ...] = (
    *(3 * (History._gang,)),
    *(2 * (History._replicas,)),
    History._job,
    History._pod,
    History._budget,
    History._no_budget,
    History._delete,
    History._kill_pod,
    History._scale,
    History._deserve,
    History._close,
    History._open,
    History._node_dies,
    History._node_returns,
    History._node_goes,
    History._node_comes,
    *(2 * (History._dies,)),
    *(2 * (History._server_dies,)),
    History._power_fails,
    History._outage,
    History._disk_is_full,
    History._never_ends,
    History._clock_steps,
    History._promised_node_goes,
    History._dies_between,
)
WITH_JOBS: tuple[Act, ...] = (
    *ACTS[2:],
    *(9 * (_of_jobs("submit"),)),
    *(4 * (_of_jobs("order"),)),
    *(2 * (_of_jobs("fail"),)),
    *map(_of_jobs, ("scale", "scale", "delete", "flow", "flow", "cron")),
)
"""Acts where users have Volcano's jobs, and fewer gangs of their own."""


def play(seed: int) -> tuple[list[str], list[str]]:
    """Play a history.

    Returns:
        What it broke; its configuration, its acts, and what the scheduler decided.
    """
    with cluster(seed, policy_of(seed)) as system:
        history = History(system, seed)
        history.play()
        compared = any(each.compared for each in system.schedulers)
        assert compared or not system.laws.decisions, "no plan was compared with what was decided"
        broken = [*system.laws.broken, *system.log_errors.texts, *system.ended(), *at_the_end(system)]
        return broken, [*history.told, *(f"{time}: {what}" for time, what in system.laws.decisions)]
