"""Ways to look into a session from a test, and fingerprints that tell whether two states are the same.

`inside` runs a function as an action of a real cycle; `scores_of` reads the scores of nodes at the point where one of
them is picked. Both go through the extension points that users have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from kilauea.engine.action import Action
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.plan import Plan
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState
from support.builders import NAMESPACE, Data, Objects, conf, gang, node, parsed, plan_in, state_of

T = TypeVar("T")

GANG_ONLY = conf("allocate", ["gang"])


# --- inside a session


def plugin_called(called: str, open_session: Callable[[Session], None] = lambda _: None) -> type[Plugin]:
    """A plugin with this name that does so when a session opens."""

    class Named(Plugin):
        name = called

        def on_session_open(self, session: Session) -> None:
            open_session(session)

    return Named


def action_called(called: str, execute: Callable[[Session], None]) -> type[Action]:
    """An action with this name that does so."""

    class Named(Action):
        name = called

        def execute(self, session: Session) -> None:
            execute(session)

    return Named


def inside(
    *objects: Objects,
    do: Callable[[Session], T],
    conf: Data = GANG_ONLY,
    plugins: tuple[type[Plugin], ...] = (),
    state: ClusterState | None = None,
) -> T:
    """What a function finds that runs as the last action of a cycle; its exceptions come through."""
    found: list[T] = []
    failed: list[Exception] = []

    def execute(session: Session) -> None:
        try:
            found.append(do(session))
        except Exception as error:
            failed.append(error)

    probe = action_called("probe", execute)
    actions = ", ".join(part for part in (conf["actions"], "probe") if part)
    plan_in(state or state_of(*objects), {**conf, "actions": actions}, plugins=plugins, actions=[probe])
    if failed:
        raise failed[0]
    return found[0]


def open_points(*tiers: tuple[str | Data, ...]) -> Session:
    """A session over an empty cluster whose tiers name plugins that register nothing themselves."""
    names = {e if isinstance(e, str) else e["name"] for tier in tiers for e in tier}
    usable, _, _ = parsed(conf("allocate", *tiers), [plugin_called(name) for name in sorted(names)])
    return Session(ClusterState(), usable, 0, None)


def choices(*objects: Objects, conf: Data) -> tuple[list[dict[str, float]], Plan]:
    """The scores of the candidates, by node, at each choice among several, and the plan."""
    seen: list[dict[str, float]] = []

    def watch(session: Session) -> None:
        def note(_: Any, nodes: Any, scores: Any) -> int:
            seen.append(dict(zip(nodes.names, (float(s) for s in scores), strict=True)))
            return -1

        session.add_best_node("watch", note)

    watched = {**conf, "tiers": [*conf["tiers"], {"plugins": [{"name": "watch"}]}]}
    plan = plan_in(state_of(*objects), watched, plugins=[plugin_called("watch", watch)])
    return seen, plan


def scores_of(*objects: Objects, conf: Data) -> dict[str, float]:
    """The scores of the candidates, by node, at the first choice; nothing if there was no choice."""
    seen, _ = choices(*objects, conf=conf)
    return seen[0] if seen else {}


NODEORDER_WEIGHTS = (
    "leastrequested.weight",
    "mostrequested.weight",
    "balancedresource.weight",
    "nodeaffinity.weight",
    "podaffinity.weight",
    "tainttoleration.weight",
    "imagelocality.weight",
    "podtopologyspread.weight",
)


def only(weight: str, value: int = 1) -> Data:
    """A configuration in which one scorer of nodeorder counts and no other."""
    return conf(
        "allocate", ["gang"], ["predicates", ("nodeorder", dict.fromkeys(NODEORDER_WEIGHTS, 0) | {weight: value})]
    )


def crowd(count: int, size: int = 1) -> list[Objects]:
    """Nodes `n1`, `n2`, ... and a gang `g` on top; for tests in which the objects do not matter."""
    return [*(node(f"n{i + 1}") for i in range(count)), *gang("g", size)]


# --- fingerprints


NODE_COLUMNS = ("allocatable", "used", "releasing", "pipelined", "viewed", "scored")


def node_columns(nodes: NodeTable) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The columns of the node table, bit for bit."""
    rows = nodes.all()
    return {name: _bits(getattr(rows, name)) for name in NODE_COLUMNS}


def columns(thing: object) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Every array that an object holds, bit for bit."""
    return {name: _bits(value) for name, value in sorted(vars(thing).items()) if isinstance(value, np.ndarray)}


def _bits(array: Any) -> tuple[str, tuple[int, ...], bytes]:
    return str(array.dtype), array.shape, array.tobytes()


def amounts(given: Mapping[str, float] | None) -> dict[str, float] | None:
    """Amounts without zeros."""
    return None if given is None else {name: value for name, value in sorted(given.items()) if value}


def slots(thing: Any, *left_out: str) -> dict[str, Any]:
    """The attributes of an object with slots, as text where they are not plain values."""
    return {name: _plain(getattr(thing, name)) for name in sorted(type(thing).__slots__) if name not in left_out}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in sorted(value.items(), key=lambda item: str(item[0]))}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else repr(value)


def job_figures(job: Job) -> dict[str, Any]:
    """What a job counts."""
    figures = slots(job, "row", "tasks", "allocated", "role_counts")
    roles = {role: counts for role, counts in sorted((job.role_counts or {}).items()) if any(counts)}
    return figures | {"tasks": sorted(job.tasks), "allocated": amounts(job.allocated), "roles": roles}


def queue_figures(session: Session) -> dict[str, Any]:
    """What the queues of a session count."""
    fields = ("allocated", "request", "elastic", "inqueue")
    return {q.name: {f: amounts(getattr(q, f)) for f in fields} for q in session.queues.values()}


def fingerprint(state: ClusterState) -> dict[str, Any]:
    """What a state knows, by name, so that states in which things stand in other rows compare equal."""
    state.settle()
    return {
        "nodes": _nodes(state),
        "tasks": {key: _task(state, key) for key in sorted(state.tasks)},
        "jobs": {key: job_figures(job) for key, job in sorted(state.jobs.items())},
        "job table": {key: _row(vars(state.job_table), job.row, state) for key, job in sorted(state.jobs.items())},
        "queues": {name: _queue(queue) for name, queue in sorted(state.queues.items())},
        "namespaces": dict(sorted(state.namespaces.items())),
        "problems": sorted(state.problems.values(), key=repr),
        "spreaders": sorted(state.spreaders.items()),
        "lists": [sorted(some) for some in (state.selecting, state.unplaced, state.with_ports)],
    }


def _nodes(state: ClusterState) -> dict[str, Any]:
    rows = state.nodes.all()
    of_table = {name: getattr(rows, name) for name in NODE_COLUMNS}
    return {name: _row(of_table, row, state) for name, row in state.nodes.row_of.items()}


def _row(of_table: Mapping[str, Any], row: int, state: ClusterState) -> dict[str, Any]:
    """One row of every array among some attributes; resources by name."""
    out: dict[str, Any] = {}
    for name, value in sorted(of_table.items()):
        if isinstance(value, np.ndarray) and not name.startswith("_"):
            part = value[..., row]
            by_resource = part.ndim and len(part) == len(state.axis)
            out[name] = amounts(state.axis.amounts(part)) if by_resource else part.tolist()
    return out


def _task(state: ClusterState, key: str) -> dict[str, Any]:
    task = state.tasks[key]
    row = int(state.placements.node[task.row])
    return slots(task, "row", "label_class", "spec", "shape", "no_preemption") | {
        "has a shape": task.shape is not None,
        "labels": state.classes.get(task.label_class),
        "spec": slots(task.spec, "__weakref__"),
        "on": state.nodes.names[row] if row >= 0 else "",
        "terminating": bool(state.placements.terminating[task.row]),
    }


def _queue(queue: Any) -> dict[str, Any]:
    """What a queue's object says; its figures belong to the session."""
    return slots(queue, "row", "figures", "allocated", "request", "elastic", "inqueue")


def full(key: str) -> str:
    """The key of a name in the usual namespace."""
    return f"{NAMESPACE}/{key}"
