"""One input through everything that `kilauea plan` does, and what must hold of the outcome, whatever the input was.

`run` goes from bytes to all forms of output. `lost` finds objects that are neither in the world of the plan nor named
in a warning; `broken_laws` finds nodes that are overbooked, halves of gangs, and pods without an answer. It counts with
plain integers from the tasks' requests, and asks none of the engine's own tables of sums.
"""

from __future__ import annotations

import json
import math
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

from kilauea.api.decode import GROUPS, KINDS
from kilauea.api.errors import CLUSTER_KINDS
from kilauea.cli.explain_output import render_explanation
from kilauea.cli.plan_output import render
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.cycle import default_conf
from kilauea.engine.model import status
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.runtime.inputs.files import SourceError
from kilauea.runtime.inputs.objects import read_cluster
from kilauea.simulator.planning import Result, plan_cycles

SECONDS = 20
"""How long one input may take."""
OUTPUTS = ("table", "wide", "json", "yaml")
DEFAULT_CONF = default_conf()


class TooSlow(BaseException):
    """An input takes longer than it may. No `Exception`, so that it stops what it finds."""


@contextmanager
def within(seconds: float = SECONDS) -> Iterator[None]:
    """Fail if the block takes so many seconds of computing.

    The time is that of this process, not that of the clock on the wall, so that a busy machine fails no test.
    """
    late: list[str] = []

    def ring(_: int, frame: FrameType | None) -> None:
        late.append(f"still busy after {seconds} s of computing, in {frame.f_code if frame else 'compiled code'}")
        raise TooSlow(late[0])

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        yield
    except TooSlow:
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    # Code that catches everything, as the guard around plugins does, does not hide it.
    assert not late, late[0]


# --- one input


@dataclass
class Run:
    """What came of an input; without a result the sources could not be read at all, and `refused` says why."""

    warnings: list[str] = field(default_factory=list)
    result: Result | None = None
    explained: str = ""
    """The pod group that was explained."""
    refused: str = ""


def run(
    source: Path, conf: SchedulerConf = DEFAULT_CONF, *, seed: int | None = None, cycles: int = 1, explain: bool = True
) -> Run:
    """Everything that the command does with a file, with all forms of output; exceptions come through."""
    try:
        cluster = read_cluster([str(source)])
    except SourceError as error:
        return Run(refused=str(error))
    result = plan_cycles(cluster.scenario(conf, seed=seed), cycles)
    cluster.warnings.extend(result.problems)
    for output in OUTPUTS:
        check_form(render(result, output, 0.5), output, {"binds", "pending", "podGroups", "queues", "timing"})
    out = Run([*cluster.warnings, *map(str, conf.findings), *map(str, result.plan.findings)], result)
    out.explained = group_to_explain(result) if explain else ""
    if out.explained:
        explanation = result.explain(out.explained)
        assert explanation.verdict != "unknown"
        for output in OUTPUTS:
            check_form(render_explanation(explanation, output, (0.5, 0.5, 0.5), {}), output, {"verdict", "blockers"})
    return out


def run_bytes(data: bytes, folder: Path, **options: Any) -> Run:
    """The same for the content of a file."""
    source = folder / "objects"
    source.write_bytes(data)
    return run(source, **options)


def check_form(text: str, output: str, keys: set[str]) -> None:
    """A text is what its form promises: JSON that any reader takes, YAML, lines that can be written as UTF-8."""
    assert text.endswith("\n")
    text.encode()
    if output == "json":
        assert keys <= json.loads(text, parse_constant=_no_number).keys()
    elif output == "yaml":
        assert keys <= yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)).keys()


def _no_number(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


def group_to_explain(result: Result) -> str:
    """A pod group that waits, else any; the first by name."""
    waiting = {p.group for p in result.plan.pending} & result.state.jobs.keys()
    groups = waiting or {key for key, job in result.state.jobs.items() if job.group}
    return min(groups, default="")


# --- nothing is lost


def lines_of(manifests: list[Any]) -> bytes:
    """Manifests as JSON, each on a line of its own, so that warnings can be traced to them."""
    return "".join(json.dumps(m) + "\n" for m in manifests).encode()


def lost(manifests: list[Any], run: Run) -> list[str]:
    """The manifests of a source made by `lines_of` of which no one has heard again."""
    assert run.result is not None
    state = run.result.state
    told = "\n".join(run.warnings)
    return [
        f"line {number}: {json.dumps(manifest)[:300]}"
        for number, manifest in enumerate(manifests, 1)
        if not _is_known(manifest, state, told)
        and f": document {number}" not in told
        and f": line {number}," not in told
    ]


def _is_known(manifest: Any, state: ClusterState, told: str) -> bool:
    if not isinstance(manifest, dict):
        return False
    kind, version = manifest.get("kind"), manifest.get("apiVersion")
    if not isinstance(kind, str):
        kind, version = "", ()
    if kind == "List":
        return not manifest.get("items")
    group = version.rpartition("/")[0] if isinstance(version, str) else ""
    if isinstance(version, str | None) and (kind not in KINDS or (version and group != GROUPS[kind])):
        return f" {group}/{kind}" in told if group else f" {kind}" in told
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str):
        return False
    namespace = metadata.get("namespace") or "default"
    label = name if kind in CLUSTER_KINDS else f"{namespace if isinstance(namespace, str) else 'default'}/{name}"
    return f"{kind} {label}" in told or label in _keys(state, kind) or _says_nothing(kind, manifest)


def _keys(state: ClusterState, kind: str) -> set[str]:
    """Keys of the objects of a kind that a state knows."""
    tables: dict[str, Any] = {
        "Pod": state.tasks,
        "Node": state.nodes.row_of,
        "PodGroup": [key for key, job in state.jobs.items() if job.group],
        "Queue": state.queues,
        "PriorityClass": state.priority_classes,
        "HyperNode": state.domains,
        "Namespace": state.namespaces,
        "ResourceQuota": state.quotas,
        "PodDisruptionBudget": state.budgets,
    }
    return {*tables.get(kind, state.spreaders.get(kind, state.storage.keys(kind)))}


def _says_nothing(kind: str, manifest: Any) -> bool:
    """Objects that are passed over by design: pods of other schedulers, and selectors that select nothing."""
    spec = manifest.get("spec") or {}
    if not isinstance(spec, dict):
        return False
    if kind == "Pod":
        return not spec.get("nodeName") and (spec.get("schedulerName") or "volcano") != "volcano"
    selector = spec.get("selector") or {}
    if not isinstance(selector, dict):
        return False
    if kind in ("ReplicaSet", "StatefulSet"):
        return not selector.get("matchLabels") and not selector.get("matchExpressions")
    return kind in ("Service", "ReplicationController") and not selector


# --- the laws


def broken_laws(plan: Plan, state: ClusterState, *, room: bool = True, gangs: bool = True) -> list[str]:
    """What is wrong with a plan.

    Args:
        plan: of a cycle over the state.
        state: the cluster.
        room: whether the configuration looks at the room on nodes.
        gangs: whether the configuration keeps gangs whole.
    """
    out = [*_answers(plan, state), *_references(plan, state), *_figures(plan)]
    if room:
        out += _overbooked(plan, state)
    if gangs:
        out += _halves(plan, state)
    return out


def faults(plan: Plan) -> list[str]:
    """Plugins and actions that failed."""
    return [str(f) for f in plan.findings if f.error and f.where.startswith(("plugin ", "action "))]


def _answers(plan: Plan, state: ClusterState) -> Iterator[str]:
    """Every pod that waits has exactly one answer, and no other pod has one."""
    answers = Counter(b.pod for b in plan.binds) + Counter(p.pod for p in plan.pending)
    waiting = {key for key, task in state.tasks.items() if task.status == status.PENDING}
    yield from (f"pod {key!r} waits and is not spoken of" for key in sorted(waiting - answers.keys()))
    yield from (f"pod {key!r} is spoken of and does not wait" for key in sorted(answers.keys() - waiting))
    yield from (f"pod {key!r} is spoken of {count} times" for key, count in answers.items() if count > 1)
    yield from (f"pod {p.pod!r} waits without a reason" for p in plan.pending if not (p.code and p.message))


def _references(plan: Plan, state: ClusterState) -> Iterator[str]:
    """A plan speaks of nothing that is not there."""
    yield from (f"{b.pod!r} starts on {b.node!r}, which does not exist" for b in plan.binds if not _is_node(b, state))
    yield from (f"{n.pod!r} is promised {n.node!r}" for n in plan.nominations if not _is_node(n, state))
    yield from (f"{e.pod!r} is evicted and does not exist" for e in plan.evictions if e.pod not in state.tasks)


def _is_node(entry: Any, state: ClusterState) -> bool:
    return entry.node in state.nodes.row_of


def _figures(plan: Plan) -> Iterator[str]:
    """No figure of a queue is negative or no number."""
    for name, queue in plan.queues.items():
        columns = (queue.deserved, queue.allocated, queue.request, queue.inqueue, queue.elastic, queue.guarantee)
        values = [value for column in columns for value in (column or {}).values()]
        if any(math.isnan(value) or value < 0 for value in values):
            yield f"queue {name!r} has a figure that cannot be: {queue}"


def _overbooked(plan: Plan, state: ClusterState) -> Iterator[str]:
    """No node is given a pod that it has no room for, counted from the requests of all its pods."""
    held: dict[str, Counter[str]] = {}
    for task in state.tasks.values():
        if task.node and task.status not in status.ENDED:
            held.setdefault(task.node, Counter()).update(task.spec.requests)
    for bind in plan.binds:
        held.setdefault(bind.node, Counter()).update(state.tasks[bind.pod].spec.requests)
    offers = {facts.name: facts.allocatable for facts in state.nodes.facts}
    for bind in plan.binds:
        for name, asked in state.tasks[bind.pod].spec.requests.items():
            total, offered = held[bind.node][name], offers[bind.node].get(name, 0)
            if asked and total > offered:
                yield f"node {bind.node!r} gets {bind.pod!r}: {total} of {offered} {name}"


def _halves(plan: Plan, state: ClusterState) -> Iterator[str]:
    """Nothing of a gang starts unless its minimum is placed; pods without requests that wait count as placed."""
    starting = Counter(state.tasks[b.pod].group for b in plan.binds)
    bound = {b.pod for b in plan.binds}
    for key in starting:
        job = state.jobs[key]
        placed = [t for t in job.tasks.values() if t.key in bound or t.status in status.READY]
        free = [
            t for t in job.tasks.values() if t.status == status.PENDING and t.spec.best_effort and t.key not in bound
        ]
        if len(placed) + len(free) < job.min_available:
            yield f"gang {key!r} starts with {len(placed)} + {len(free)} of {job.min_available} pods"
        if not job.group:
            yield f"pods of {key!r} start, which does not exist"
