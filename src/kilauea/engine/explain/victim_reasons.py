"""Why one pod is spared, in words: what the rules of queues and each of the plugins stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kilauea.engine.actions.reclaim import may_take
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import EPSILON, PODS, add, less_equal, names, order_of
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugins.capacity import over_in_any
from kilauea.engine.session import Session


class Reason(NamedTuple):
    """A reason: a code for programs, words for people, and the plugin whose reason it is, if it is one's."""

    code: str
    words: str
    plugin: str = ""


BY_PLUGIN = {
    "gang": Reason("GangAtMinimum", "its gang has no pod beyond its minimum"),
    "priority": Reason("PriorityNotLower", "its priority is not lower"),
    "conformance": Reason("SystemCritical", "part of the system, which is never evicted"),
    "cdp": Reason("CoolingDown", "placed less than its cooldown time ago"),
    "drf": Reason("FairShare", "its job has the smaller share of the cluster"),
    "tdm": Reason("NotRevocable", "tdm takes only from preemptable pods on nodes that are not lent, by their budget"),
    "proportion": Reason("QueueWithinDeserved", "its queue holds no more than it deserves"),
    "capacity-card": Reason(
        "ServiceType", "cards are taken back by inference alone, and from training that holds what is asked for"
    ),
}
"""What it means that a plugin spares a pod, where that is one thing."""


def of_plugin(session: Session, plugin: str, claimer: Task, task: Task) -> Reason:
    """Why a plugin spares a pod."""
    if plugin == "capacity":
        found = _of_capacity(session, claimer, task)
    elif plugin == "pdb":
        found = _of_budget(session, task)
    else:
        found = BY_PLUGIN.get(plugin, Reason("SparedByPlugin", f"plugin {plugin} spares it"))
    return found._replace(plugin=plugin)


def _of_budget(session: Session, task: Task) -> Reason:
    if not session.state.classes.get(task.label_class).labels:
        return Reason("NoLabels", "it has no labels, so no PodDisruptionBudget can speak for it")
    return Reason("DisruptionBudget", "a PodDisruptionBudget allows no more to go")


def _of_capacity(session: Session, claimer: Task, task: Task) -> Reason:
    """The first of the plugin's conditions that fails (spec of the queue plugins, 2.8)."""
    queue = session.queues[session.state.jobs[task.group].queue]
    if not (_asked(task) & _asked(claimer)):
        return Reason("NothingInCommon", "it holds nothing that the pod asks for")
    after = dict(queue.allocated)
    add(after, task.spec.requests, -1)
    if not less_equal(queue.guarantee, after):
        return Reason("Guarantee", "its queue would fall below its guarantee")
    for at in (queue, *queue.figures.ancestors):
        deserved = at.figures.deserved or {}
        counted = [name for name in names(task.spec.requests) if name != PODS and name in names(deserved)]
        if counted and not over_in_any(at.allocated, deserved, task.spec.requests):
            what = " or ".join(counted)
            if at is queue:
                return Reason("QueueWithinDeserved", f"its queue holds no more {what} than it deserves")
            return Reason("AncestorWithinDeserved", f"{at.name} above its queue holds no more {what} than it deserves")
    return Reason("NoClaim", "the queue that waits has no claim to what it holds")


def _asked(task: Task) -> set[str]:
    return {name for name, amount in task.spec.requests.items() if amount >= EPSILON and name != PODS}


def within_deserved(queue: Queue, task: Task) -> bool:
    """Whether a queue holds no more than it deserves of anything that a task of it holds."""
    deserved = queue.figures.deserved or {}
    return all(queue.allocated.get(name, 0) <= deserved.get(name, 0) + EPSILON for name in _asked(task))


def nothing_to_take(claimer: Queue, owner: Queue, task: Task) -> Reason | None:
    """Why a queue may not take a task of another, as things stand between the two; None if it may."""
    if may_take(claimer, owner, task):
        return None
    if within_deserved(owner, task):
        return BY_PLUGIN["proportion"]
    deserved = owner.figures.deserved or {}
    beyond = [n for n in _asked(task) if owner.allocated.get(n, 0) > deserved.get(n, 0) + EPSILON]
    words = f"its queue has too much {' and '.join(sorted(beyond, key=order_of))}, but {claimer.name} lacks none"
    return Reason("ClaimerHasItsShare", words)


def below_floor(claimer: Queue, owner: Queue, tasks: Sequence[Task]) -> Reason:
    """Which queue would be left with too little without tasks of one owner, of that queue and those above it."""
    lost: dict[str, float] = {}
    for task in tasks:
        add(lost, task.spec.requests)
    shared = {ancestor.name for ancestor in claimer.figures.ancestors}
    which = "it" if len(tasks) == 1 else f"its gang of {len(tasks)}"
    for queue in (owner, *owner.figures.ancestors):
        if queue.name in shared:
            continue
        deserved = queue.figures.deserved or {}
        of = "its queue" if queue is owner else f"{queue.name} above its queue"
        for name in sorted(lost.keys() - {PODS}, key=order_of):
            held = queue.allocated.get(name, 0)
            after, share = held - lost[name], deserved.get(name, 0)
            if after < queue.guarantee.get(name, 0) - EPSILON:
                return Reason("Guarantee", f"without {which} {of} would have less {name} than its guarantee")
            if held > share + EPSILON > after + 2 * EPSILON and share > EPSILON:
                return Reason("BelowDeserved", f"without {which} {of} would have less {name} than it deserves")
        counted = [n for n in lost if n != PODS and deserved.get(n, 0) > EPSILON]
        if counted and not any(queue.allocated.get(n, 0) > deserved[n] + EPSILON for n in counted):
            return Reason("AncestorWithinDeserved", f"{queue.name} above its queue holds no more than it deserves")
    return Reason("Floor", "a queue would be left with less than it deserves or is guaranteed")
