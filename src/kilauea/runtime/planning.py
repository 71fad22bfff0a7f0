"""From sources to a plan: read, fill in what an API server would, build the state, decide, and repeat if asked to."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kilauea.api import wellknown
from kilauea.api.core import Pod
from kilauea.api.defaults import fill_in
from kilauea.api.errors import object_label
from kilauea.api.meta import Object, ObjectMeta
from kilauea.api.ports import Obj
from kilauea.api.scheduling import Queue, QueueSpec, QueueStatus
from kilauea.api.times import SECOND, parse_time
from kilauea.api.validate import check
from kilauea.controllers.unserved import left_to
from kilauea.engine.conf import ConfError, Finding, SchedulerConf, inspect_conf
from kilauea.engine.cycle import cycle, default_conf
from kilauea.engine.events import Changed
from kilauea.engine.explain.group import RULES, Blocker, Change, Explanation, explain
from kilauea.engine.explain.queue_position import ahead
from kilauea.engine.explain.queues import with_queues
from kilauea.engine.explain.replay import replay
from kilauea.engine.extension import PluginFault
from kilauea.engine.extension.guard import UNWATCHED
from kilauea.engine.model.attempts import NO_BACKOFF, AdmissionBackoff
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.runtime.conf_file import ConfFile, read_conf_file
from kilauea.runtime.expanding.states import states_of
from kilauea.runtime.extensions import BUILT_IN, Extensions
from kilauea.runtime.files import SourceError, read_sources
from kilauea.runtime.known_kinds import unknown
from kilauea.runtime.watchdog import watchdog
from kilauea.simulator.cluster import SimulatedCluster
from kilauea.simulator.what_if import WhatIf

if TYPE_CHECKING:
    from kilauea.runtime.expanding.creation import NotCreated
    from kilauea.runtime.snapshot import Snapshot

VOLCANO = "batch.volcano.sh"
"""The group of jobs whose pods are made whether they are stored or not."""

ENDED = ("Succeeded", "Failed")
"""Phases of pods that need no scheduler."""

PLACING = frozenset({"enqueue", "allocate", "backfill"})
"""Actions that evict nobody."""


@dataclass
class Cluster:
    """Objects that were read, and what was found wrong on the way."""

    objects: list[Object] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    newest: int = 0
    """The newest time in the objects, in microseconds since 1970."""
    submitted: tuple[str, ...] = ()
    """Pod groups (`namespace/name`) that files add to a live cluster."""
    groups_of_jobs: dict[str, str] = field(default_factory=dict)
    """By Volcano's job (`namespace/name`): its pod group."""
    phases_of_jobs: dict[str, str] = field(default_factory=dict)
    """By Volcano's job (`namespace/name`) that has ended or was suspended: its phase."""
    states: dict[str, str] = field(default_factory=dict)
    """By `job namespace/name` of Kubernetes or `cronjob namespace/name` without pods that wait: why."""
    refused: dict[str, str] = field(default_factory=dict)
    """By workload (`namespace/name`) that is left out: why."""
    not_created: dict[str, NotCreated] = field(default_factory=dict)
    """By pod group (`namespace/name`): pods of it that are not created, and why."""
    refused_pods: dict[str, str] = field(default_factory=dict)
    """By `Kind namespace/name` of a live workload whose pods the server has refused: why."""
    unusable: int = 0
    """Parts of the files that cannot be used: broken text, invalid objects, unknown kinds, refused workloads."""


@dataclass(frozen=True)
class Step:
    """What one of several cycles decided and brought about.

    Attributes:
        plan: binds, nominations and evictions; without reasons and figures, of which only those of the last are kept.
        quiet: nothing changed, and no pod is terminating: the next cycle finds the same cluster.
    """

    plan: Plan
    quiet: bool


class Elsewhere(NamedTuple):
    """Pods that wait for another scheduler: its name, and how many."""

    scheduler: str
    pods: int


@dataclass(frozen=True)
class Result:
    """A plan, the state that it is about, and how long it took."""

    plan: Plan
    state: ClusterState
    cycle_seconds: float
    objects: Sequence[Object] = ()
    """The objects that the state is made of."""
    submitted: tuple[str, ...] = ()
    """Pod groups that files add to a live cluster."""
    now: int = 0
    """The time of the plan."""
    steps: tuple[Step, ...] = ()
    """All cycles, the last included."""
    not_created: Mapping[str, NotCreated] = field(default_factory=dict)
    """By pod group: pods of it that are not created, and why."""
    elsewhere: Mapping[str, Elsewhere] = field(default_factory=dict)
    """By pod group, or pod without a group: pods that name a scheduler which is not served here."""

    @property
    def at_rest_after(self) -> int | None:
        """The last cycle that changed something, counted from 1; None if the cluster has not come to rest."""
        if not self.steps or not self.steps[-1].quiet:
            return None
        return max((number for number, step in enumerate(self.steps, 1) if not step.quiet), default=0)


def read_conf(path: str | None, extensions: Extensions = BUILT_IN) -> SchedulerConf:
    """The scheduler configuration in a file; the built-in one without a path. Findings begin with file and line.

    Raises:
        SourceError: the file cannot be read, or is no YAML.
        ConfError: it is no usable configuration.
    """
    if path is None:
        return default_conf()
    return conf_in(read_conf_file(path), extensions)


def conf_in(file: ConfFile, extensions: Extensions = BUILT_IN) -> SchedulerConf:
    """The scheduler configuration in a file that was read.

    Raises:
        SourceError: it is no YAML.
        ConfError: it is no usable configuration.
    """
    path = file.name
    if file.fault is not None:
        raise SourceError(f"{path}: {file.fault}")
    conf = inspect_conf(file.document, extensions.plugins, extensions.actions)
    findings = [_placed(finding, file) for finding in conf.findings]
    if any(finding.error for finding in findings):
        raise ConfError(findings)
    return dataclasses.replace(conf, findings=tuple(findings))


def _placed(finding: Finding, file: ConfFile) -> Finding:
    where = file.at(finding.path)
    return dataclasses.replace(finding, where=f"{where}: {finding.where}" if finding.where else where)


def read_cluster(
    paths: Sequence[str], note: Callable[[str], None] = lambda _: None, live: Snapshot | None = None, now: int = 0
) -> Cluster:
    """Read objects and fill in what an API server would have; jobs become the groups and pods that they would get.

    Objects that cannot be used are left out and named in the warnings.

    Args:
        paths: files, folders, or `-`; what they hold takes the place of what is live.
        note: is told the name of each source before it is read.
        live: what a cluster holds.
        now: when workloads in files are submitted, if they do not say; 0 for after everything else in the files.

    Raises:
        SourceError: a path cannot be read.
    """
    cluster = Cluster()
    known: dict[tuple[str, str], Object] = {}
    workloads: dict[tuple[str, ...], Obj] = {}
    if live is not None:
        cluster.warnings.extend(live.warnings)
        known.update((_label(obj), obj) for obj in live.objects)
        workloads.update(_planned(live.workloads, Counter()))
        cluster.states.update(states_of(live.workloads))
        cluster.refused_pods = live.refused()
    running = frozenset(known)
    times: Counter[tuple[str, str]] = Counter()
    skipped: Counter[str] = Counter()
    written: set[str] = set()
    for source, decoded in read_sources(paths, note):
        cluster.warnings.extend(map(str, decoded.errors))
        skipped.update(decoded.skipped)
        cluster.states.update(states_of(decoded.workloads))
        planned = dict(_planned(decoded.workloads, skipped))
        workloads.update(planned)
        written.update(f"{namespace}/{name}" for _, namespace, name in planned)
        cluster.unusable += len(decoded.errors)
        for obj in decoded.objects:
            errors = check(obj)
            cluster.unusable += bool(errors)
            cluster.warnings.extend(f"{source}: {error}; left out" for error in errors)
            if not errors:
                known[_label(obj)] = obj
                times[_label(obj)] += 1
    for (kind, name), count in times.items():
        if count > 1:
            cluster.warnings.append(f"{kind} {name}: given {count} times; the last one counts")
    skipped.pop("Namespace", None)  # objects name theirs, whether it is there or not
    strange = unknown(+skipped)
    cluster.warnings.extend(f"kind {kind} is unknown: correct kind and apiVersion" for kind in strange)
    cluster.unusable += len(strange)
    for kind in strange:
        del skipped[kind]
    if +skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted((+skipped).items()))
        cluster.warnings.append(f"objects of kinds that scheduling does not read are passed over: {kinds}")
    for name in (wellknown.ROOT_QUEUE, wellknown.DEFAULT_QUEUE):
        known.setdefault(("Queue", name), built_in_queue(name))
    if workloads:
        _expand(cluster, known, list(workloads.values()), now)
        cluster.unusable += len(written & cluster.refused.keys())
    cluster.objects = list(known.values())
    cluster.warnings.extend(fill_in(cluster.objects))
    if live is not None:
        cluster.submitted = _submitted(cluster.objects, running)
    cluster.newest = newest(cluster.objects)
    return cluster


def _submitted(objects: Iterable[Object], running: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """Groups that are not in the cluster, or have pods that are not."""
    added = [obj for obj in objects if _label(obj) not in running]
    named = {f"{obj.namespace}/{obj.annotations.get(wellknown.GROUP_NAME)}" for obj in added if isinstance(obj, Pod)}
    return tuple(sorted(named | {obj.key for obj in added if obj.kind == "PodGroup"}))


def _planned(workloads: Iterable[Obj], skipped: Counter[str]) -> Iterator[tuple[tuple[str, ...], Obj]]:
    """Workloads whose pods are yet to be made, by what tells them apart; what is made of them is not passed over.

    Of Kubernetes' own workloads that a server has stored, the pods are there.
    """
    for workload in workloads:
        metadata, group = workload["metadata"], str(workload.get("apiVersion")).rpartition("/")[0]
        if workload["kind"] != "CronJob" and (group == VOLCANO or "uid" not in metadata):
            kind = f"{group}/{workload['kind']}"
            skipped[kind] -= 1
            yield (kind, metadata.get("namespace") or "default", metadata["name"]), workload


def _expand(cluster: Cluster, known: dict[tuple[str, str], Object], workloads: Sequence[Obj], now: int) -> None:
    """Add what workloads become."""
    from kilauea.runtime.expanding import expand  # noqa: PLC0415 - most plans have none, and begin sooner without

    last = max(newest(known.values()), *(_creation(workload) for workload in workloads))
    expansion = expand(workloads, list(known.values()), now or (last + SECOND if last else 0))
    cluster.groups_of_jobs, cluster.phases_of_jobs = expansion.groups, expansion.phases
    cluster.refused, cluster.not_created = expansion.refused, expansion.not_created
    cluster.warnings.extend(expansion.warnings)
    for obj in expansion.objects:
        known.setdefault(_label(obj), obj)


def _creation(workload: Obj) -> int:
    """When a workload was made, in microseconds since 1970; 0 if it does not say, or nothing that can be read."""
    try:
        return parse_time(workload["metadata"].get("creationTimestamp") or "")
    except (TypeError, ValueError, AttributeError):
        return 0


def _label(obj: Object) -> tuple[str, str]:
    return obj.kind, object_label(obj)


def built_in_queue(name: str) -> Queue:
    """A queue as the scheduler makes it at its first start."""
    spec = QueueSpec(weight=1, reclaimable=name != wellknown.ROOT_QUEUE)
    return Queue("scheduling.volcano.sh/v1beta1", "Queue", ObjectMeta(name=name), spec, QueueStatus("Open"))


def newest(objects: Iterable[Object]) -> int:
    """The newest creation time, in microseconds since 1970; 0 if there is none."""
    times = {obj.metadata.creation_timestamp for obj in objects}
    return max((parse_time(text) for text in times if text), default=0)


def build_state(objects: Iterable[Object], schedulers: Iterable[str] = wellknown.ALL_SCHEDULERS) -> ClusterState:
    """The state of a cluster with these objects, ready for a cycle that serves these scheduler names."""
    state = ClusterState(scheduler_names=schedulers)
    for obj in objects:
        state.apply(Changed(obj))
    state.settle()
    return state


def decide(
    state: ClusterState,
    conf: SchedulerConf,
    now: int,
    seed: int | None,
    extensions: Extensions = BUILT_IN,
    *,
    brief: bool = False,
    backoff: AdmissionBackoff = NO_BACKOFF,
) -> Plan:
    """The plan of one cycle; plugins and actions of the user are under a watchdog. The rest is as for the cycle."""
    if not extensions.bring_any:
        return cycle(state, conf, now, seed, brief=brief, backoff=backoff)
    plugins, actions = extensions.plugins, extensions.actions
    with watchdog() as dog:
        return cycle(
            state, conf, now, seed, plugins=plugins, actions=actions, watchdog=dog, brief=brief, backoff=backoff
        )


def plan_cycles(
    cluster: Cluster,
    conf: SchedulerConf,
    now: int,
    seed: int | None,
    cycles: int,
    extensions: Extensions = BUILT_IN,
    schedulers: Iterable[str] = wellknown.ALL_SCHEDULERS,
) -> Result:
    """The plan of the last of some cycles, a second apart; `SimulatedCluster` says what happens between them."""
    state = build_state(cluster.objects, schedulers)
    cluster.warnings.extend(f"{p.kind} {p.key}: {p.message}; left out" for p in state.problems.values())
    simulated = SimulatedCluster(cluster.objects, now)
    backoff = NO_BACKOFF
    steps: list[Step] = []
    while True:
        at, objects = simulated.now, simulated.objects
        started = time.perf_counter()
        plan = decide(state, conf, at, seed, extensions, backoff=backoff.at(at - now))
        seconds = time.perf_counter() - started
        backoff = plan.backoff or backoff
        events = simulated.carry_out(plan)
        decided = Plan(plan.binds, plan.nominations, plan.evictions)
        steps.append(Step(decided, quiet=not events and simulated.settled))
        if len(steps) == cycles:
            submitted, missing = cluster.submitted, cluster.not_created
            elsewhere = _elsewhere(objects, state.scheduler_names)
            return Result(plan, state, seconds, objects, submitted, at, tuple(steps), missing, elsewhere)
        for event in events:
            state.apply(event)


def explain_group(
    result: Result, conf: SchedulerConf, now: int, seed: int | None, key: str, extensions: Extensions = BUILT_IN
) -> tuple[Explanation, float]:
    """Why a pod group (`namespace/name`) waits and the smallest change that would admit it; and the seconds it took.

    Of a service only why it waits: it is in no queue.
    """
    started = time.perf_counter()
    explanation = explain(result.plan, result.state, key)
    if explanation.verdict in ("waits", "starts in part") and not result.state.jobs[key].service:
        # What failed once would fail again at each trial, and may take its time.
        for finding in result.plan.findings:
            kind, _, name = finding.where.partition(" ")
            if finding.error and kind in ("plugin", "action"):
                conf = conf.without(**{kind: name})
        explanation = _with_turn(explanation, result, conf, now, seed, extensions)
        explanation = _with_queues(explanation, result, conf, now, seed, extensions)
    if key in result.elsewhere:
        return _unserved(explanation, result), time.perf_counter() - started
    missing = result.not_created.get(key)
    if missing is not None:
        return without_pods(explanation, missing), time.perf_counter() - started
    if explanation.verdict == "waits" and not explanation.nominated and not result.state.jobs[key].service:
        trial = functools.partial(decide, conf=conf, now=now, seed=seed, extensions=extensions, brief=True)
        evicting = not PLACING.issuperset(conf.actions)
        what_if = WhatIf(result.objects, result.state, trial, key, result.plan, evicting=evicting)
        explanation = dataclasses.replace(explanation, change=what_if.smallest(explanation))
    return explanation, time.perf_counter() - started


def _elsewhere(objects: Iterable[Object], served: Collection[str]) -> dict[str, Elsewhere]:
    """The pods that wait for a scheduler which is not served, by their groups."""
    out: dict[str, Elsewhere] = {}
    for pod in (obj for obj in objects if isinstance(obj, Pod)):
        scheduler, ended = pod.spec.scheduler_name, pod.status is not None and pod.status.phase in ENDED
        if scheduler and scheduler not in served and not pod.spec.node_name and not ended:
            named = pod.annotations.get(wellknown.GROUP_NAME)
            key = f"{pod.namespace}/{named}" if named else pod.key
            out[key] = Elsewhere(scheduler, out[key].pods + 1 if key in out else 1)
    return out


def _unserved(explanation: Explanation, result: Result) -> Explanation:
    """The explanation of a group whose pods are left to another scheduler."""
    scheduler, count = result.elsewhere[explanation.group]
    code, message = "NoScheduler", left_to(scheduler, result.state.scheduler_names)
    blocker = Blocker(code, RULES[code], "", "", "", 0, 0, message, count)
    change = Change("scheduler", scheduler, "", 1)
    return dataclasses.replace(explanation, verdict="waits", blockers=(blocker,), change=change)


def without_pods(explanation: Explanation, missing: NotCreated) -> Explanation:
    """The explanation of a group of which pods cannot be created: that comes before everything else."""
    code, message = "PodsNotCreated", missing.message
    blocker = Blocker(code, RULES[code], "", "", "", 0, 0, message, missing.pods)
    others = tuple(b for b in explanation.blockers if not b.code.startswith("NotEnough"))
    verdict = "waits" if explanation.verdict == "waits" else "starts in part"
    return dataclasses.replace(
        explanation, verdict=verdict, blockers=(blocker, *others), change=missing.change, stated=not missing.change
    )


def _with_turn(
    explanation: Explanation, result: Result, conf: SchedulerConf, now: int, seed: int | None, extensions: Extensions
) -> Explanation:
    """The explanation with the groups whose turn came first; as it is, if a plugin fails at that."""
    job = result.state.jobs[explanation.group]
    try:
        with (
            watchdog() if extensions.bring_any else nullcontext(UNWATCHED) as dog,
            replay(result.state, conf, now, seed, Plan(), plugins=extensions.plugins, watchdog=dog) as session,
        ):
            return dataclasses.replace(explanation, ahead=ahead(session, result.plan, job))
    except PluginFault:
        return explanation


def _with_queues(
    explanation: Explanation, result: Result, conf: SchedulerConf, now: int, seed: int | None, extensions: Extensions
) -> Explanation:
    """The explanation with what queues and evictions have to do with it; as it is, if a plugin fails at that."""
    try:
        with (
            watchdog() if extensions.bring_any else nullcontext(UNWATCHED) as dog,
            replay(result.state, conf, now, seed, result.plan, plugins=extensions.plugins, watchdog=dog) as session,
        ):
            return with_queues(explanation, result.plan, session)
    except PluginFault:
        return explanation
