"""The smallest change that lets a waiting group start, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING

from kilauea.api.numbers import plural
from kilauea.cli.group_names import Owners, long, owners_of
from kilauea.controllers.podgroups import MIN_MEMBER
from kilauea.engine.explain.formatting import exact
from kilauea.engine.model.jobs import SERVICE

if TYPE_CHECKING:
    from kilauea.api.meta import Object
    from kilauea.engine.explain.group import Change, Explanation

FEWER_OF_OTHERS = "one job fewer in another namespace; `kilauea explain` names it to those who may list all jobs"
ONE_BY_ONE = "it creates a pod only when the one before is ready"
NOMINATED = "nothing has to change: it starts when the resources nominated to it are free"


def heading(explanation: Explanation) -> str:
    """The words before the change: its effect for the group."""
    return f"Smallest change that {_gain(explanation)}"


def _gain(explanation: Explanation) -> str:
    return "lets another pod start" if explanation.verdict == "starts in part" else "admits it"


def no_change(explanation: Explanation) -> str:
    """The sentence for a group for which no change was found; empty if none was searched."""
    searched = explanation.verdict in ("waits", "starts in part") and SERVICE not in explanation.group
    if not searched or explanation.stated or explanation.nominated or explanation.change is not None:
        return ""
    what = "a queue, a quota, its pods, its minimum, another job or nodes"
    return f"no single change of {what} {_gain(explanation)}"


def remedy(explanation: Explanation, objects: Sequence[Object]) -> str:
    """The change as a sentence; empty if the reason already contains it, or if nothing waits."""
    if explanation.change is not None:
        return sentence(explanation.change, owners_of(objects))
    if explanation.nominated:
        return NOMINATED
    return no_change(explanation)


def advice(explanation: Explanation, objects: Sequence[Object]) -> str:
    """The text for the event of a waiting group; empty if there is no advice."""
    change = explanation.change
    if change is None:
        return remedy(explanation, objects)
    found = FEWER_OF_OTHERS if _names_others(change, explanation.group) else remedy(explanation, objects)
    return f"{heading(explanation)}: {found}"


def _names_others(change: Change, group: str) -> bool:
    """Return True if a change names a job of another namespace, which readers of the event may not be able to see."""
    return change.what == "job" and change.object.partition("/")[0] != group.partition("/")[0]


def sentence(c: Change, owners: Owners) -> str:
    """A change as a sentence, with changes required in addition."""
    return _one(c, owners) if c.also is None else f"{_one(c, owners)}, and {sentence(c.also, owners)}"


def _one(c: Change, owners: Owners) -> str:
    amount, many = exact(c.resource, c.by) if c.resource else "", int(c.by) > 1
    create = f"`vcctl queue create -n {quote(c.object)}`"
    return {
        "queue": f"create queue {c.object} ({create}), or correct the queue of its job",
        "open": f"open queue {c.object} (`vcctl queue operate -n {c.object} -a open`)",
        "resume": f"resume queue {c.object} (`vcctl queue operate -n {c.object} -a resume`)",
        "traverse": f"let queue {c.object} start jobs out of order "
        f"(`vcctl queue operate -n {c.object} -a update --dequeue-strategy traverse`)",
        "leaf": f"submit it to queue {c.object}",
        "quota": f"raise the capability of queue {c.object} by {amount}",
        "cards": f"raise the card quota of queue {c.object} by {amount}",
        "weight": f"raise the weight of queue {c.object} by {int(c.by)}",
        "namespaceQuota": f"raise ResourceQuota {c.object} by {amount}",
        "scheduler": "set schedulerName to volcano",
        "priorityClass": f"create PriorityClass {c.object}, or correct priorityClassName",
        "gates": f"remove the scheduling gate {c.object} from {plural(int(c.by), 'pod')}",
        "uncordon": f"uncordon {'nodes' if many else 'node'} {c.object}",
        "ready": f"make {'nodes' if many else 'node'} {c.object} ready (`kubectl describe node` shows what is wrong)",
        "taint": f"tolerate the taint {c.object} in its pods, or remove it from its {plural(int(c.by), 'node')}",
        "selector": f"remove {c.object} from the nodeSelector of its pods, or label nodes with it",
        "affinity": f"remove the required node affinity of the pods of {long(c.object, owners)}",
        "podAffinity": f"remove the required pod affinity of the pods of {long(c.object, owners)}",
        "podAntiAffinity": f"remove the required pod anti-affinity of the pods of {long(c.object, owners)}",
        "spread": f"remove the topology spread constraints of the pods of {long(c.object, owners)}",
        "tier": f"set highestTierAllowed of {long(c.object, owners)} to {c.to}",
        "minimum": f"lower minMember of pod group {c.object} by {int(c.by)}, to {c.to}{_beside(c, owners)}",
        "minAvailable": f"lower minAvailable of job {c.object} by {int(c.by)}, to {c.to}",
        "parallel": f"{_replace(c.object)} podManagementPolicy: Parallel, or with a minimum of 1: {ONE_BY_ONE}",
        "ordered": f"{_replace(c.object)} {MIN_MEMBER}: '1' in its annotations: {ONE_BY_ONE}",
        "job": _gone(c.object, owners),
        "nodes": f"add {plural(int(c.by), 'node')} like {c.object}",
        "node": f"add a node like {c.object}, with {amount}",
    }[c.what]


def _replace(workload: str) -> str:
    return f"replace StatefulSet {workload} (`kubectl replace --force`) by one with"


def _beside(c: Change, owners: Owners) -> str:
    """Describe what to lower together with a minMember: minResources, and the annotation from which new pods set it."""
    words = ""
    if c.min_resources:
        words = f", and its minResources to {' and '.join(f'{name}: {amount}' for name, amount in c.min_resources)}"
    if c.object in owners and c.object.partition("/")[2].startswith("podgroup-"):
        words += f", also in annotation {MIN_MEMBER} of its workload: each new pod sets it from there"
    return words


def _gone(group: str, owners: Owners) -> str:
    """The advice to remove a group."""
    if group not in owners:
        return f"delete pod group {group} and its pods"
    return f"{'delete or suspend' if owners[group].kind == 'Job' else 'delete or scale down'} {long(group, owners)}"
