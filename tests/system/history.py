"""A history by seed: what users do and what goes wrong, then quiet, and what must hold in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from kilauea.api.times import SECOND
from kilauea.controllers.kinds import JOBS, NODES, POD_GROUPS, PODS, QUEUES, REPLICA_SETS
from kilauea.engine.events import Changed
from kilauea.engine.state import ClusterState
from kilauea.runtime.scheduler.reading import read
from kilauea.runtime.scheduler.watched import RESOURCES
from system.cluster import NODE_STATE, RUN_TIME, System, cluster
from system.laws import CORES, ENDED, GROUP_NAME, cores_of
from system.process import NAMES

STEPS = 20
PAUSES = (0.0, 0.01, 0.3, 3.0, 30.0)
QUIET, STILL = 600.0, 120.0
"""Seconds without faults and acts; in the last of them nothing happens any more."""
TEAMS = ("red", "blue", "default")


class History:
    """Acts upon a system, by chance."""

    def __init__(self, system: System, seed: int) -> None:
        self.system = system
        self.chance = Random(f"history {seed}")
        self.told: list[str] = []
        """The acts, for who replays them."""
        self._made: list[tuple[str, str, int]] = []
        """What users made and did not delete: kind of the act, name, size."""
        self._silent: set[str] = set()
        self._removed: set[str] = set()

    def play(self) -> None:
        """Everything up to the quiet."""
        system, chance = self.system, self.chance
        for team in TEAMS[:2]:
            system.queue(team, chance.randint(2, 8))
        system.start()
        system.faults(chance.choice((0.0, 0.05, 0.2)))
        for step in range(STEPS):
            act = chance.choice(ACTS)
            self.told.append(f"{system.world.loop.time():8.2f} s: {step} {act.__name__.strip('_')}")
            act(self, f"{step}")
            system.wait(chance.choice(PAUSES))
        self._calm()
        system.wait(QUIET)

    def _calm(self) -> None:
        system = self.system
        system.faults(0.0)
        for process in system.processes:
            if not process.lives:
                process.start()
        for name in sorted(self._silent):
            if self.chance.random() < 0.5:
                system.patch(NODES, name, {"metadata": {"annotations": {NODE_STATE: None}}})
            else:
                system.delete(NODES, name)

    # --- users

    def _shape(self) -> tuple[int, int, int, str, dict[str, str]]:
        """Minimum, size, cores of a pod, queue, and how long it runs."""
        minimum = self.chance.randint(1, 4)
        size = minimum + self.chance.choice((0, 0, 1, 3))
        notes = self.chance.choice(({}, {RUN_TIME: f"{self.chance.randint(1, 60)}s"}))
        return minimum, size, self.chance.randint(1, 2), self.chance.choice(TEAMS), notes

    def _gang(self, step: str) -> None:
        minimum, size, cpu, queue, notes = self._shape()
        self.system.gang(f"gang{step}", minimum, size, cpu, queue, notes)
        self._made.append(("gang", f"gang{step}", size))

    def _replicas(self, step: str) -> None:
        minimum, size, cpu, queue, _ = self._shape()
        self.system.replicas(f"replicas{step}", minimum, size, cpu, queue)
        self._made.append(("replicas", f"replicas{step}", size))

    def _job(self, step: str) -> None:
        _, size, cpu, queue, _ = self._shape()
        self.system.job(f"job{step}", size, cpu, queue, {RUN_TIME: f"{self.chance.randint(1, 60)}s"})
        self._made.append(("job", f"job{step}", size))

    def _pod(self, step: str) -> None:
        _, _, cpu, _, notes = self._shape()
        self.system.pod(f"pod{step}", cpu, notes)
        self._made.append(("pod", f"pod{step}", 1))

    def _delete(self, step: str) -> None:
        if not self._made:
            return
        kind, name, size = self._made.pop(self.chance.randrange(len(self._made)))
        grace = self.chance.choice((None, 0))
        match kind:
            case "gang":
                for number in range(size):
                    self.system.delete(PODS, f"{name}-{number}", grace)
                self.system.delete(POD_GROUPS, name)
            case "replicas":
                self.system.delete(REPLICA_SETS, name)
            case "job":
                self.system.delete(JOBS, name)
            case _:
                self.system.delete(PODS, name, grace)

    def _kill_pod(self, step: str) -> None:
        names = sorted(pod["metadata"]["name"] for pod in self.system.all(PODS))
        if names:
            self.system.delete(PODS, self.chance.choice(names), self.chance.choice((None, 0)))

    def _scale(self, step: str) -> None:
        sets = [name for kind, name, _ in self._made if kind == "replicas"]
        if sets:
            self.system.patch(REPLICA_SETS, self.chance.choice(sets), {"spec": {"replicas": self.chance.randint(0, 6)}})

    def _deserve(self, step: str) -> None:
        amount = {"cpu": str(self.chance.randint(2, 8))}
        self.system.patch(QUEUES, self.chance.choice(TEAMS[:2]), {"spec": {"deserved": amount}})

    # --- what goes wrong

    def _node_dies(self, step: str) -> None:
        name = self.chance.choice([node["metadata"]["name"] for node in self.system.all(NODES)] or ["none"])
        self._silent.add(name)
        self.system.patch(NODES, name, {"metadata": {"annotations": {NODE_STATE: "silent"}}})

    def _node_returns(self, step: str) -> None:
        for name in sorted(self._silent):
            self.system.patch(NODES, name, {"metadata": {"annotations": {NODE_STATE: None}}})
        self._silent.clear()

    def _node_goes(self, step: str) -> None:
        names = [node["metadata"]["name"] for node in self.system.all(NODES)]
        if len(names) > 1:
            name = self.chance.choice(names)
            self.system.delete(NODES, name)
            self._removed.add(name)

    def _node_comes(self, step: str) -> None:
        there = {node["metadata"]["name"] for node in self.system.all(NODES)}
        back = sorted(self._removed - there)
        self.system.node(back[0] if back else f"extra-{step}")

    def _dies(self, step: str) -> None:
        """A process dies; it comes back with one of the next of these acts, or at the end."""
        process = self.chance.choice(self.system.processes)
        if process.lives:
            process.kill()
        if self.chance.random() < 0.7:
            self.system.wait(self.chance.choice(PAUSES))
            process.start()

    def _outage(self, step: str) -> None:
        """The way of a process to the server is cut off for a while."""
        process = self.chance.choice(self.system.processes)
        rate, process.faults.rate = process.faults.rate, 1.0
        self.system.wait(self.chance.choice((0.3, 3.0, 30.0)))
        process.faults.rate = rate


ACTS: tuple[Callable[[History, str], None], ...] = (
    History._gang,
    History._gang,
    History._gang,
    History._replicas,
    History._replicas,
    History._job,
    History._pod,
    History._delete,
    History._kill_pod,
    History._scale,
    History._deserve,
    History._node_dies,
    History._node_returns,
    History._node_goes,
    History._node_comes,
    History._dies,
    History._dies,
    History._outage,
)


def play(seed: int) -> tuple[list[str], list[str]]:
    """Play a history.

    Returns:
        What it broke; its acts, and what the scheduler decided.
    """
    with cluster(seed) as system:
        history = History(system, seed)
        history.play()
        broken = [*system.laws.broken, *system.complaints.texts, *system.ended(), *at_the_end(system)]
        return broken, [*history.told, *(f"{time}: {what}" for time, what in system.laws.deeds)]


# --- the end


def at_the_end(system: System) -> Iterator[str]:
    """What is not as it should be after the quiet."""
    yield from _unrest(system)
    yield from _state(system)
    pods = system.all(PODS)
    nodes = [node["metadata"]["name"] for node in system.all(NODES) if not node["spec"].get("taints")]
    for pod in pods:
        phase, place = pod["status"].get("phase"), pod["spec"].get("nodeName")
        if pod["metadata"].get("deletionTimestamp"):
            yield f"pod {pod['metadata']['name']} never goes"
        elif place in nodes and phase not in ("Running", *ENDED):
            yield f"pod {pod['metadata']['name']} never starts on {place}: {phase}"
        elif place and place not in nodes:
            yield f"pod {pod['metadata']['name']} stays on {place}, which is not there or not well"
    yield from _gangs(system, pods, nodes)


def _unrest(system: System) -> Iterator[str]:
    """Work that never ends."""
    since = system.world.clock.now() - int(STILL * SECOND)
    late = [what for time, what in system.laws.deeds if time >= since]
    if late:
        yield f"{len(late)} deeds in the last {STILL:.0f} s, e.g. {late[0]}, {late[-1]}"
    scheduler = system.scheduler.scheduler
    if scheduler.busy:
        yield f"the scheduler has {scheduler.busy} writes that do not end"
    assumed = scheduler.feed.assumed
    left = [*assumed.binds, *assumed.evictions, *assumed.held, *assumed.phases]
    if left:
        yield f"assumed for ever: {left}"


def _state(system: System) -> Iterator[str]:
    """Where the scheduler's state is another than that of the objects."""
    fresh = ClusterState(scheduler_names=NAMES)
    for kind in ("Node", "Queue", "PodGroup", "Pod"):
        for item in system.items(RESOURCES[kind]):
            fresh.apply(Changed(read(kind, item)))
    state = system.scheduler.scheduler.feed.state
    shown = [
        ("tasks", lambda of: {(t.key, t.uid, t.node, t.status) for t in of.tasks.values()}),
        ("groups", lambda of: {(k, j.phase, j.min_available) for k, j in of.jobs.items() if j.group}),
        ("nodes", lambda of: {(name, str(facts)) for name, facts in of._facts.items()}),
        ("queues", lambda of: {(name, str(queue.deserved)) for name, queue in of.queues.items()}),
    ]
    for what, figures in shown:
        known, true = figures(state), figures(fresh)
        known = {each for each in known if what != "groups" or each in true or not _is_of_one(state, each[0])}
        if known != true:
            yield f"{what}: the scheduler knows {sorted(known - true)}, there are {sorted(true - known)}"


def _is_of_one(state: ClusterState, key: str) -> bool:
    """Whether a group stands for a single pod, so that the API has none."""
    return any(task.owner_kind == "" for task in state.jobs[key].tasks.values()) and state.jobs[key].min_available == 1


def _gangs(system: System, pods: list[dict[str, Any]], nodes: list[str]) -> Iterator[str]:
    """Gangs run whole or not at all, and what fits runs."""
    free = dict.fromkeys(nodes, CORES)
    for pod in pods:
        place = pod["spec"].get("nodeName")
        if place in free and pod["status"].get("phase") not in ENDED:
            free[place] -= cores_of(pod)
    minima = {group["metadata"]["name"]: group["spec"].get("minMember", 1) for group in system.all(POD_GROUPS)}
    members: dict[str, list[dict[str, Any]]] = {}
    for pod in pods:
        name = (pod["metadata"].get("annotations") or {}).get(GROUP_NAME) or pod["metadata"]["name"]
        members.setdefault(name, []).append(pod)
    for name, group in sorted(members.items()):
        minimum = minima.get(name, 1)
        ready = sum(1 for pod in group if pod["spec"].get("nodeName") and pod["status"].get("phase") != "Failed")
        waiting = [pod for pod in group if not pod["spec"].get("nodeName")]
        if 0 < ready < minimum and f"default/{name}" not in system.laws.hurt:
            yield f"gang {name} has {ready} of {minimum}"
        missing = max(minimum - ready, 1)
        if len(waiting) >= missing:
            room = sum(cores // cores_of(waiting[0]) for cores in free.values())
            if room >= missing:
                yield f"{name}: {len(waiting)} pods wait, {missing} are missing, there is room for {room}: {free}"
