"""What must hold at the end of a history: rest, books that are right, gangs that are whole, and what can run runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from kilauea.api.kinds import JOBS, NODES, POD_GROUPS, PODS, REPLICA_SETS, VC_JOBS
from kilauea.api.times import SECOND
from kilauea.engine.events import Changed
from kilauea.engine.state import ClusterState
from kilauea.runtime.inputs.reading import read
from kilauea.runtime.inputs.resources import RESOURCES
from system.cluster import System
from system.job_ending import jobs_at_the_end
from system.job_laws import TASK
from system.laws import CORES, ENDED, GROUP_NAME, STILL, cores_of
from system.limits import Limits
from system.process import NAMES

MOST = 15
"""Writes of an object in the end, where no rest is: a job may have tries left, groups send each other back."""

GIVEN = 360.0
"""Seconds after which an admission that came to nothing is given back: 60 cycles, and some."""


def at_the_end(system: System) -> Iterator[str]:
    """What is not as it should be after the quiet."""
    yield from _unrest(system)
    yield from _state(system)
    pods = system.users.all(PODS)
    nodes = [each["metadata"]["name"] for each in system.users.all(NODES) if not each["spec"].get("taints")]
    for pod in pods:
        phase, place = pod["status"].get("phase"), pod["spec"].get("nodeName")
        if pod["metadata"].get("deletionTimestamp"):
            if pod["metadata"]["name"] in system.stuck:
                continue
            yield f"pod {pod['metadata']['name']} never goes"
        elif place in nodes and phase not in ("Running", *ENDED):
            yield f"pod {pod['metadata']['name']} never starts on {place}: {phase}"
        elif place and place not in nodes:
            yield f"pod {pod['metadata']['name']} stays on {place}, which is not there or not well"
    yield from _orphans(system, pods)
    yield from _gangs(system, pods, nodes)
    yield from jobs_at_the_end(system.users, Limits(system), system.server.clock.now())


def _orphans(system: System, pods: list[dict[str, Any]]) -> Iterator[str]:
    """What was made for an owner goes with it."""
    groups = system.users.all(POD_GROUPS)
    made = [*groups, *pods, *system.users.all(JOBS), *system.users.all(REPLICA_SETS), *system.users.all(VC_JOBS)]
    uids = {each["metadata"]["uid"] for each in made}
    for each in [*groups, *pods]:
        metadata = each["metadata"]
        if any(owner["uid"] not in uids for owner in metadata.get("ownerReferences") or ()):
            yield f"{each['kind']} {metadata['name']} outlives its owner"


def _unrest(system: System) -> Iterator[str]:
    """Work that never ends."""
    since = system.server.clock.monotonic() - int(STILL * SECOND)
    late = [what for time, what in system.laws.decisions if time >= since]
    tries = MOST if system.policy.jobs else 0  # jobs that fail again and again have not done so for long
    if len([what for what in late if what.startswith("bind ")]) > tries or not all("bind " in what for what in late):
        yield f"{len(late)} decisions in the last {STILL:.0f} s, e.g. {late[0]}, {late[-1]}"
    begin = system.server.loop.time() - STILL
    written = Counter(key for seconds, key in system.laws.writes if seconds >= begin)
    most = 0 if system.at_rest() else MOST
    for key, count in sorted((key, count) for key, count in written.items() if count > most):
        yield f"{key} is written {count} times in the last {STILL:.0f} s"
    for process in system.schedulers:
        if process.scheduler.busy:
            yield f"{process.name} has {process.scheduler.busy} writes that do not end"
        assumed = process.scheduler.feed.assumed
        left = [*assumed.binds, *assumed.evictions, *assumed.nominations, *assumed.held, *assumed.phases]
        if left:
            yield f"{process.name} assumes forever: {left}"


def _state(system: System) -> Iterator[str]:
    """Where the scheduler's state is another than that of the objects."""
    fresh = ClusterState(scheduler_names=NAMES)
    for kind in ("Node", "Queue", "PodGroup", "Pod"):
        for item in system.users.items(RESOURCES[kind]):
            fresh.apply(Changed(read(kind, item)))
    shown: list[tuple[str, Callable[[ClusterState], set[Any]]]] = [
        ("tasks", lambda of: {(t.key, t.uid, t.node, t.status) for t in of.tasks.values()}),
        ("groups", lambda of: {(k, j.phase, j.min_available) for k, j in of.jobs.items() if j.group}),
        ("nodes", lambda of: {(name, str(facts)) for name, facts in of._facts.items()}),
        ("queues", lambda of: {(name, str(queue.deserved)) for name, queue in of.queues.items()}),
    ]
    for process, (what, figures) in product(system.schedulers, shown):
        state = process.scheduler.feed.state
        known, true = figures(state), figures(fresh)
        known = {each for each in known if what != "groups" or each in true or not _is_of_one(state, each[0])}
        if known != true:
            yield f"{what}: {process.name} knows {sorted(known - true)}, there are {sorted(true - known)}"


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
    groups = {group["metadata"]["name"]: group for group in system.users.all(POD_GROUPS)}
    members: dict[str, list[dict[str, Any]]] = {}
    for pod in pods:
        if pod["metadata"]["name"] in system.stuck:
            continue
        name = (pod["metadata"].get("annotations") or {}).get(GROUP_NAME) or pod["metadata"]["name"]
        members.setdefault(name, []).append(pod)
    yield from _admitted_in_vain(groups, members, system)
    limits = Limits(system)
    for name, group in sorted(members.items()):
        minimum = _spec(groups, name).get("minMember", 1)
        ready = sum(1 for pod in group if pod["spec"].get("nodeName") and pod["status"].get("phase") != "Failed")
        waiting = [pod for pod in group if not pod["spec"].get("nodeName")]
        if 0 < ready < minimum and f"default/{name}" not in system.laws.hurt:
            yield f"gang {name} has {ready} of {minimum}"
        missing, lack = max(minimum - ready, 1), _of_tasks(_spec(groups, name), group)
        if lack:
            missing = max(missing, len(waiting))  # those of tasks that have their minimum may come first
        hopeless = Counter(lack) - Counter(_task(pod) or "" for pod in waiting)
        if len(waiting) >= missing and not hopeless and not any(map(_has_claim, waiting)):
            size = max(map(cores_of, waiting))
            room = sum(cores // size for cores in free.values())
            asked = max(missing * size, _asks_for(groups.get(name)))
            if room >= missing and limits.allow(_spec(groups, name).get("queue", "default"), asked):
                yield f"{name}: {len(waiting)} pods wait, {missing} are missing, there is room for {room}: {free}"


def _spec(groups: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    found: dict[str, Any] = groups.get(name, {}).get("spec", {})
    return found


def _asks_for(group: dict[str, Any] | None) -> int:
    """The cores that a group must be granted at once before any of its pods is placed; 0 if that is done."""
    if group is None or group["status"].get("phase") != "Pending":
        return 0
    return int((group["spec"].get("minResources") or {}).get("cpu", 0))


def _has_claim(pod: dict[str, Any]) -> bool:
    """Whether a pod can only be where its volume is."""
    return any("persistentVolumeClaim" in each for each in pod["spec"].get("volumes") or ())


def _of_tasks(spec: dict[str, Any], pods: list[dict[str, Any]]) -> dict[str, int]:
    """How many pods each task lacks for its own minimum, of those that do; those that have failed do not count."""
    placed = Counter(
        _task(pod) for pod in pods if pod["spec"].get("nodeName") and pod["status"].get("phase") != "Failed"
    )
    lack = {task: least - placed[task] for task, least in (spec.get("minTaskMember") or {}).items()}
    return {task: count for task, count in lack.items() if count > 0}


def _task(pod: dict[str, Any]) -> str | None:
    found: str | None = (pod["metadata"].get("annotations") or {}).get(TASK)
    return found


def _admitted_in_vain(
    groups: dict[str, dict[str, Any]], members: dict[str, list[dict[str, Any]]], system: System
) -> Iterator[str]:
    """No group whose pods have all ended keeps quota that others wait for, for longer than it may try."""
    late = system.server.loop.time() - GIVEN
    waiting = {_spec(groups, name).get("queue") for name in groups if groups[name]["status"].get("phase") == "Pending"}
    for name, group in groups.items():
        pods = members.get(name, [])
        ended = pods and all(pod["status"].get("phase") in ENDED for pod in pods)
        if ended and system.laws.admitted.get(name, late) < late and group["spec"].get("queue") in waiting:
            yield f"{name} is admitted, its pods have ended, and others wait in queue {group['spec']['queue']}"
