"""Faults of queues: their position in the tree, promises that cannot be kept, and work that they cannot run.

Faults do not affect decisions about other queues. Each fault becomes a condition of its queue and a finding of the
plan, with a stable reason for programs and a message with numbers. Faults that depend only on the objects of queues and
nodes are cached across cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kilauea.api.wellknown import ROOT_QUEUE
from kilauea.engine.model.queue_tree import QueueTree, build_queue_tree
from kilauea.engine.model.queues import Queue
from kilauea.engine.queues.faults.fault import DETACHED, QueueFault, Rules, conditions, findings, rules_of
from kilauea.engine.queues.faults.promises import broken_promises, card_faults
from kilauea.engine.queues.faults.work import faults_of_work, jobs_without_queue
from kilauea.engine.session import Session

__all__ = ["QueueFault", "conditions", "findings", "jobs_without_queue", "queue_faults"]


def queue_faults(session: Session) -> list[QueueFault]:
    """All faults of queues, in the order of their names."""
    rules = rules_of(session.conf)
    state = session.state
    made_of = (state.queue_version, tuple(session.total.items()), rules, session.nodes)
    known = state.kept.get(__name__)
    if known is None or known[0] != made_of:
        tree = build_queue_tree(session.queues)
        known = (made_of, (tree, list(_standing(session, rules, tree))))
        state.kept[__name__] = known
    tree, standing = known[1]
    return sorted((*standing, *faults_of_work(session, tree, rules)), key=lambda fault: fault.queue)


def _standing(session: Session, rules: Rules, tree: QueueTree) -> Iterator[QueueFault]:
    """Faults in the queues' objects and the nodes; a cluster without nodes is still starting."""
    queues = {name: session.queues[name] for name in sorted(session.queues)}
    yield from _misplaced(queues, rules, tree)
    if len(session.nodes):
        yield from broken_promises(queues, tree, session.total, rules)
    if rules.cards:
        yield from card_faults(queues, session.nodes)


def _misplaced(queues: Mapping[str, Queue], rules: Rules, tree: QueueTree) -> Iterator[QueueFault]:
    """Queues without a path to the root, and parents that are ignored."""
    effect = "it and its jobs wait" if rules.tree else "parents are not looked at here, so its jobs go on"
    if ROOT_QUEUE not in queues:
        if rules.tree:
            yield QueueFault(ROOT_QUEUE, DETACHED, "RootNotFound", "it does not exist; all jobs wait", error=True)
        return
    for name, (reason, why) in tree.faults.items():
        yield QueueFault(name, DETACHED, reason, f"{why}; {effect}", error=rules.tree)
    below = [name for name, ancestors in tree.ancestors.items() if len(ancestors) > 1]
    if below and rules.plugin and not rules.tree:
        first, more = below[0], f", and {len(below) - 1} more" if len(below) > 1 else ""
        why = "enableHierarchy is not true" if rules.plugin == "capacity" else "only capacity knows a tree of queues"
        message = f"queues have parents ({first} in {queues[first].parent}{more}); {rules.plugin} ignores them: {why}"
        yield QueueFault(ROOT_QUEUE, DETACHED, "ParentsIgnored", message)
