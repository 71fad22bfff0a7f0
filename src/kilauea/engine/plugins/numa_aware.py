"""Place pods where the kubelet assigns them exclusive processors on as few NUMA nodes as their policy demands.

What:
    Applies to pods of class Guaranteed whose containers request whole processors. A pod with the annotation
    `volcano.sh/numa-topology-policy` (`best-effort`, `restricted` or `single-numa-node`; set from a task's
    `topologyPolicy`) runs only on nodes whose topology manager has the same policy and whose CPU manager is `static`,
    according to the node's Numatopology. A pod does not run on a node whose policy would not admit it, with or without
    the annotation. For pods with the annotation, nodes where the pod is spread over fewer NUMA nodes score higher.

    A pod that starts gets the annotation `volcano.sh/topology-decision` with the numbers of its processors by NUMA
    node. These processors count as taken on its node until the Numatopology lists the pod.

Why:
    Memory on another NUMA node is slow, and the kubelet rejects a pod that its policy does not admit.

Arguments:
    weight (integer, 1): weight of the score.

    Flags: `enablePredicate`, `enableNodeOrder`.

Example:
    tiers:
    - plugins:
      - name: numa-aware
        arguments:
          weight: 10

Difference from the original:
    A node that admits a pod under best-effort although it lacks the processors has the lowest score; in Volcano it has
    the highest. Processors of a pod that the Numatopology does not list yet stay taken after a restart, and those of
    pods that it lists are not counted twice. A Numatopology that cannot be read is ignored and reported. As in Volcano,
    all nodes score 0 if all are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.numa import DECISION, decision_text
from kilauea.engine.conf import argument
from kilauea.engine.extension import Rejection, Scope
from kilauea.engine.model import status
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.numa import STATIC, Assignment, Hardware, NumaWish, assign
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session

NO_INFO = Rejection("NumaInfoMissing", "numa info is empty", hopeless=True)
NOT_STATIC = Rejection("CpuManagerNotStatic", "cpu manager policy isn't static", hopeless=True)
NO_TOPOLOGY = Rejection("NumaTopologyMissing", "no topo information", hopeless=True)
NO_CPUS = Rejection("NumaCpusMissing", "cpu allocatable map is empty", hopeless=True)
GENERAL = (NO_INFO, NOT_STATIC, NO_TOPOLOGY, NO_CPUS)

PLACED = frozenset({status.ALLOCATED, status.PIPELINED, status.BINDING})
"""States of a task that a session placed on a node."""


@dataclass(frozen=True)
class NumaArguments:
    """Arguments of numa-aware."""

    weight: int = argument("weight", 1, "Weight of the score.")


class NodeState(NamedTuple):
    """The relevant state of a node. Nodes in the same state have the same verdict."""

    cpu_policy: str
    policy: str
    hardware: Hardware | None
    free: int
    known: bool = True
    """True if the node has a Numatopology."""


class Verdict(NamedTuple):
    """The verdict for a request on nodes in a state."""

    code: int
    """0, or the number of a rejection from 1."""
    span: int
    """Number of NUMA nodes that the pod is spread over; one more than exist if the node lacks processors."""
    cpus: int
    """Processors that the pod gets."""


class NumaAware(Plugin):
    """See the module."""

    name = "numa-aware"
    depends_on_time = False
    Arguments = NumaArguments

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._given: dict[str, int] = {}
        """Processors that tasks got in this session, by task."""
        self._verdicts: dict[NumaWish, dict[int, Verdict]] = {}
        self._tables: dict[NumaWish, NDArray[np.int64]] = {}
        """By wish: code and span (2, S) for each state of nodes."""
        self._number_rejections()
        session.add_predicate(self.name, self._refused, self._rejections, scope=Scope.NODE, applies=self._matters)
        session.add_batch_node_score(self.name, self._score, applies=self._is_scored)
        session.add_event_handler(self.name, self._arrived, self._left)
        session.add_bind_annotations(self.name, self._decision)

    # --- possible reasons

    def _number_rejections(self) -> None:
        """Number the possible reasons in this cluster, by policies and names of containers."""
        state = self._session.state
        wishes = [wish for task in state.with_numa.values() if (wish := task.spec.numa) is not None]
        tasks = sorted({wish.policy for wish in wishes if wish.policy})
        nodes = sorted({facts.policy for facts in state.numa.values()})
        names = sorted({_label(wish, number) for wish in wishes for number in range(1, len(wish.containers) + 1)})
        differ = {(t, n): f"task topology policy[{t}] is different with node[{n}]" for t in tasks for n in nodes}
        self._differ = {pair: len(GENERAL) + number for number, pair in enumerate(differ, 1)}
        first = len(GENERAL) + len(differ)
        self._container = {name: first + number for number, name in enumerate(names, 1)}
        told = [("NumaPolicyDiffers", text) for text in differ.values()]
        told += [("NumaNotAdmitted", f"container {name} cannot be assigned by numa") for name in names]
        self._rejections = (*GENERAL, *(Rejection(code, text, hopeless=True) for code, text in told))

    # --- nodes by their state

    @cached_property
    def _states(self) -> list[NodeState]:
        """Return the distinct states of nodes; a node refers to its state by number."""
        return []

    @cached_property
    def _numbers(self) -> dict[NodeState, int]:
        return {}

    @cached_property
    def _state_of(self) -> NDArray[np.int64]:
        """(N,) number of the state of each node."""
        state, nodes = self._session.state, self._session.nodes
        out = np.full(len(nodes), self._number(NodeState("", "", None, 0, known=False)), dtype=np.int64)
        held = self._unconfirmed()
        for name, facts in state.numa.items():
            row = nodes.row_of.get(name, -1)
            if row >= 0:
                free = facts.free
                for numa, count in held.get(name, ()):
                    mask = facts.hardware.numa.get(numa, 0) & free if facts.hardware else 0
                    taken = facts.hardware.take(mask, min(count, mask.bit_count())) if facts.hardware else 0
                    free &= ~(taken or 0)
                out[row] = self._number(NodeState(facts.cpu_policy, facts.policy, facts.hardware, free))
        return out

    def _unconfirmed(self) -> dict[str, list[tuple[int, int]]]:
        """Return NUMA nodes and processors of pods that the Numatopology does not list yet, by node."""
        state = self._session.state
        out: dict[str, list[tuple[int, int]]] = {}
        for task in sorted(state.with_numa.values(), key=lambda t: t.key):
            facts = state.numa.get(task.node)
            if facts is None or not task.numa_cpus or task.status in status.ENDED:
                continue
            if task.uid not in facts.holders and task.key not in facts.holders:
                out.setdefault(task.node, []).extend(task.numa_cpus)
        return out

    def _number(self, state: NodeState) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
        return number

    # --- results for a wish

    def _matters(self, shape: TaskShape) -> bool:
        wish = shape.spec.numa
        return wish is not None and bool(wish.policy or self._session.state.numa)

    def _is_scored(self, shape: TaskShape) -> bool:
        wish = shape.spec.numa
        return wish is not None and bool(wish.policy)

    def _refused(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int64]:
        return self._by_state(shape, nodes, 0)

    def _by_state(self, shape: TaskShape, nodes: NodeRows, part: int) -> NDArray[np.int64]:
        """(n,) a part of the verdicts, which are computed once for each state."""
        wish, numbers = shape.spec.numa, nodes.take(self._state_of)
        assert wish is not None
        table = self._tables.get(wish)
        known = 0 if table is None else table.shape[1]
        if table is None or known < len(self._states):
            more = [self._verdict(wish, number)[:2] for number in range(known, len(self._states))]
            added = np.array(more, dtype=np.int64).reshape(-1, 2).T
            table = self._tables[wish] = added if table is None else np.concatenate([table, added], axis=1)
        found: NDArray[np.int64] = table[part][numbers]
        return found

    def _verdict(self, wish: NumaWish, number: int) -> Verdict:
        known = self._verdicts.setdefault(wish, {})
        verdict = known.get(number)
        if verdict is None:
            verdict = known[number] = self._judge(wish, self._states[number])
        return verdict

    def _judge(self, wish: NumaWish, node: NodeState) -> Verdict:
        if not wish.policy and (not node.known or node.cpu_policy != STATIC or node.policy in ("", "none")):
            return Verdict(0, 0, 0)
        code = self._unusable(wish, node)
        if code or node.hardware is None:
            return Verdict(code, 0, 0)
        found = assign(node.hardware, node.policy, node.free, wish)
        if found.refused:
            return Verdict(self._container[_label(wish, found.refused)], 0, 0)
        return Verdict(0, _span(node.hardware, found), found.cpus)

    def _unusable(self, wish: NumaWish, node: NodeState) -> int:
        """Return the rejection of a node on which processors cannot be assigned; 0 for other nodes."""
        if not node.known:
            return 1 + GENERAL.index(NO_INFO)
        if node.cpu_policy != STATIC:
            return 1 + GENERAL.index(NOT_STATIC)
        if wish.policy and wish.policy != node.policy:
            return self._differ[wish.policy, node.policy]
        if node.hardware is None:
            return 1 + GENERAL.index(NO_TOPOLOGY) if wish.policy else 0
        return 1 + GENERAL.index(NO_CPUS) if wish.policy and not node.free else 0

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        span = self._by_state(shape, nodes, 1)
        most = int(span.max()) if len(span) else 0
        score = 100 - 100 * span // most if most else np.full(len(span), 100, dtype=np.int64)
        return np.asarray(score * self.arguments.weight, dtype=np.float64)

    # --- assigned processors

    def _arrived(self, task: Task, row: int) -> None:
        wish = task.spec.numa
        if wish is None or task.status not in PLACED or not self._session.state.numa:
            return
        number = int(self._state_of[row])
        cpus = self._given[task.key] = self._verdict(wish, number).cpus
        self._set_free(row, self._states[number].free & ~cpus)

    def _left(self, task: Task, row: int) -> None:
        cpus = self._given.pop(task.key, 0)
        if cpus:
            self._set_free(row, self._states[int(self._state_of[row])].free | cpus)

    def _set_free(self, row: int, free: int) -> None:
        state = self._states[int(self._state_of[row])]
        if state.free != free:
            self._state_of[row] = self._number(state._replace(free=free))

    def _decision(self, task: Task) -> Mapping[str, str]:
        """The annotation for a pod that starts."""
        cpus = self._given.get(task.key, 0)
        row = self._session.nodes.row_of[task.node]
        hardware = self._states[int(self._state_of[row])].hardware if cpus else None
        if hardware is None:
            return {}
        shares = {node: (mask & cpus).bit_count() for node, mask in hardware.numa.items() if mask & cpus}
        return {DECISION: decision_text(shares)}


def _label(wish: NumaWish, number: int) -> str:
    """The name of a container for messages; its number if the wish does not have names."""
    return wish.containers[number - 1][0] or str(number)


def _span(hardware: Hardware, found: Assignment) -> int:
    """Return the number of NUMA nodes of an assignment; more than exist if processors are missing."""
    if found.lacking:
        return len(hardware.numa) + 1
    return sum(1 for mask in hardware.numa.values() if mask & found.cpus)
