"""A replay: jobs of a trace arrive, the engine decides about them, they run and end, in order of virtual time.

    replay = Replay(setting, trace, controllers, admission, Measures(trace))
    outcome = replay.run()

The controllers of the cluster create groups and pods, restart evicted ones and count the retries. Nodes are as simple
as possible: a bound pod runs at once and ends after the run time of its job; an evicted pod is gone after its grace
period, and its work is lost. Cycles run at most once a period, and only after relevant changes. Nothing happens between
events, so idle times cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple

import msgspec

from kilauea.api import wellknown
from kilauea.api.core import Pod
from kilauea.api.kinds import NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, VC_JOBS
from kilauea.api.meta import Object
from kilauea.api.ports import Controller, Key, Obj, View, key_of
from kilauea.api.times import SECOND, format_time, parse_duration
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Changed
from kilauea.engine.model.attempts import AdmissionBackoff
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.simulator.extensions import BUILT_IN, Extensions
from kilauea.simulator.replay.controlling import Controlling
from kilauea.simulator.replay.faults import Fault
from kilauea.simulator.replay.measures import Measures
from kilauea.simulator.replay.objects import Objects
from kilauea.simulator.replay.trace import Trace, TraceJob
from kilauea.simulator.replay.workload import is_over, manifest, phase_of

Admission = Callable[[View], Callable[[dict[str, Any]], dict[str, Any]]]
"""Given the objects, returns a function that sets the defaults of a new Volcano job like admission."""
Progress = Callable[[int, int, int], None]
"""Called with the virtual time since the start, the number of jobs that have ended, and that of all jobs."""

RUN_TIME = "kilauea.dev/run-time"
"""The annotation with the run time of pods in the cluster's own files."""
LOOK_AGAIN = 60 * SECOND
"""Time until a cycle checks again for changes by time alone, such as admission backoff."""
DOUBLINGS = 4
"""Number of times that it is doubled while cycles place nothing."""
STALE = 100
"""Number of cycles without placements after which a cluster without running pods is finished."""
KINDS = {"Pod": PODS, "PodGroup": POD_GROUPS, "Queue": QUEUES, "Node": NODES, "PriorityClass": PRIORITY_CLASSES}
"""Kinds that controllers may read, or that change while the replay runs."""


@dataclass(frozen=True)
class Setting:
    """The cluster and the scheduler of a replay.

    Attributes:
        objects: nodes, queues, priority classes and pods at the beginning.
        conf: the configuration of the scheduler.
        start: the time at which the trace starts, in microseconds since 1970.
        period: shortest time between two cycles, in microseconds.
        seed: breaks ties between equally good nodes; None selects the first in order.
        faults: failures of nodes.
        extensions: plugins and actions.
        limit: virtual time after the start at which the replay stops in any case, in microseconds.
    """

    objects: Sequence[Object]
    conf: SchedulerConf
    start: int
    period: int = SECOND
    seed: int | None = None
    faults: Sequence[Fault] = ()
    extensions: Extensions = BUILT_IN
    limit: int | None = None


class _Event(NamedTuple):
    time: int
    number: int
    action: Callable[..., None]
    about: tuple[Any, ...]


@dataclass(frozen=True)
class Outcome:
    """The result of a replay.

    Attributes:
        measures: all measurements.
        end: the virtual time of the last event, in microseconds since the start.
        cycles: number of cycles.
        looks: number of reconciliations.
        stopped: True if the limit was reached before all jobs had ended.
        waiting: reasons of unfinished jobs, with an example and their number, most frequent first.
    """

    measures: Measures
    end: int
    cycles: int
    looks: int
    stopped: bool
    waiting: tuple[tuple[str, str, int], ...] = field(default=())


class Replay:
    """One run of a trace.

    Args:
        setting: the cluster and its scheduler.
        trace: the jobs.
        controllers: the controllers, including that of Volcano jobs.
        admission: admission of jobs.
        measures: the measurements.
    """

    def __init__(
        self,
        setting: Setting,
        trace: Trace,
        controllers: Sequence[Controller],
        admission: Admission,
        measures: Measures,
    ) -> None:
        self._setting, self._trace = setting, trace
        self._objects = Objects()
        self._admit = admission(self._objects)
        self._controlling = Controlling(self._objects, controllers, self._delete_pod)
        self._state = ClusterState(scheduler_names=wellknown.ALL_SCHEDULERS)
        self._heap: list[_Event] = []
        self._numbers = 0
        self.now = setting.start
        self._next_cycle = setting.start
        """Time before which no cycle runs."""
        self._wanted: int | None = None
        """Time of the next requested cycle; None for no cycle."""
        self._backoff = AdmissionBackoff(since=0)
        self._cycles = 0
        self._stale = 0
        self._jobs: dict[Key, TraceJob] = {}
        self._running: dict[Key, str] = {}
        """Running pods, with their uid."""
        self._nominated: set[Key] = set()
        self._down: dict[str, Obj] = {}
        """Failed nodes, in their previous state."""
        self._ended = 0
        self._submitted = 0
        self.measures = measures
        self._looks_by_time = self._depends_on_time(setting)
        self._objects.index(QUEUES, "parent", lambda queue: str((queue.get("spec") or {}).get("parent") or ""))
        self._objects.listen(VC_JOBS, self._on_job)
        self._objects.listen(PODS, self._on_new)
        self._objects.listen(POD_GROUPS, self._on_new)
        self._put(setting.objects)

    # --- initial objects

    def _put(self, objects: Iterable[Object]) -> None:
        """Add the objects of the cluster at the start; running pods continue."""
        created = format_time(self.now)
        for obj in sorted(objects, key=lambda obj: obj.kind != "PriorityClass"):  # pods refer to them
            resource = KINDS.get(obj.kind)
            if resource is None:
                self._state.apply(Changed(obj))
                continue
            self._objects.create(resource, msgspec.to_builtins(obj), created)
            if resource == PRIORITY_CLASSES:
                self._state.apply(Changed(obj))
            elif isinstance(obj, Pod) and obj.spec.node_name and (obj.status is None or obj.status.phase == "Running"):
                self._start_clock(Key(obj.namespace or "", obj.name))
        self._tell_engine()
        self._state.settle()
        self.measures.begin(self._state, self.now)

    @staticmethod
    def _depends_on_time(setting: Setting) -> bool:
        conf, extensions = setting.conf, setting.extensions
        return any(extensions.plugins[entry.name].depends_on_time for tier in conf.tiers for entry in tier) or any(
            extensions.actions[name].acts_unprompted for name in conf.actions
        )

    # --- the loop

    def run(self, progress: Progress = lambda _time, _ended, _all: None) -> Outcome:
        """Run the trace to its end, and return the outcome."""
        setting, jobs = self._setting, self._trace.jobs
        for job in jobs:
            self._at(setting.start + job.submit, self._submit, job)
        for fault in setting.faults:
            self._at(setting.start + fault.time, self._fail, fault)
        self._want_cycle()
        end = None if setting.limit is None else setting.start + setting.limit
        stopped = False
        while (now := self._next()) is not None:
            if end is not None and now > end:
                stopped = True
                break
            if self.measures.next_sample <= now:
                self._tell_engine()
            self.measures.advance(now)
            self.now = now
            while self._heap and self._heap[0].time <= now:
                event = heappop(self._heap)
                event.action(*event.about)
            self._controlling.run(now)
            if self._wanted is not None and max(self._wanted, self._next_cycle) <= now:
                self._cycle()
                self._controlling.run(now)
            progress(now - setting.start, self._ended, len(jobs))
            if self._ended == len(jobs) and self._submitted == len(jobs):
                break
        self._tell_engine()
        self.measures.finish(self.now)
        waiting = () if self._ended == len(jobs) else self._reasons()
        end_time = self.now - setting.start
        return Outcome(self.measures, end_time, self._cycles, self._controlling.looks, stopped, waiting)

    def _next(self) -> int | None:
        """The time of the next event; None if there is none."""
        times = [self._heap[0].time] if self._heap else []
        if (due := self._controlling.next_due) is not None:
            times.append(due)
        if self._wanted is not None:
            times.append(max(self._wanted, self._next_cycle))
        return max(min(times), self.now) if times else None

    def _at(self, time: int, action: Callable[..., None], *about: Any) -> None:
        self._numbers += 1
        heappush(self._heap, _Event(time, self._numbers, action, about))

    def _want_cycle(self, time: int = 0) -> None:
        self._wanted = time if self._wanted is None else min(self._wanted, time)

    # --- jobs

    def _submit(self, job: TraceJob) -> None:
        self._submitted += 1
        body = self._admit(manifest(job))
        key = key_of(body)
        self._jobs[key] = job
        self.measures.submitted(key, job, self.now)
        self._objects.create(VC_JOBS, body, format_time(self.now))

    def _on_job(self, before: Obj | None, after: Obj | None) -> None:
        if after is None or before is None:
            return
        phase = phase_of(after)
        if phase == phase_of(before):
            return
        if phase == "Restarting":
            self.measures.restarted(key_of(after))
        if is_over(after):
            self._at(self.now, self._clean_up, key_of(after), after["metadata"]["uid"], phase)

    def _on_new(self, before: Obj | None, after: Obj | None) -> None:
        if before is None and after is not None and not (after.get("spec") or {}).get("nodeName"):
            self._want_cycle(self.now)

    def _clean_up(self, key: Key, uid: str, phase: str) -> None:
        """Delete a job that has ended, with all its dependents."""
        if key not in self._jobs:
            return
        del self._jobs[key]
        self._ended += 1
        self.measures.ended(key, phase, self.now)
        for pod in self._objects.owned(PODS, uid):
            self._remove_pod(key_of(pod))
        for resource in (POD_GROUPS,):
            for obj in self._objects.owned(resource, uid):
                self._objects.remove(resource, key_of(obj))
        self._objects.remove(VC_JOBS, key)

    # --- pods

    def _delete_pod(self, pod: Obj) -> None:
        """Delete a pod like a kubelet: it keeps its resources until its grace period is over."""
        key = key_of(pod)
        grace = max((pod["spec"].get("terminationGracePeriodSeconds") or 0), 0) * SECOND
        if key not in self._running or not grace:
            self._remove_pod(key)
            return
        if "deletionTimestamp" not in pod["metadata"]:
            self._objects.change(PODS, key, {"metadata": {"deletionTimestamp": format_time(self.now + grace)}})
            self._at(self.now + grace, self._gone, key, pod["metadata"]["uid"])

    def _gone(self, key: Key, uid: str) -> None:
        pod = self._objects.get(PODS, key)
        if pod is not None and pod["metadata"]["uid"] == uid:
            self._remove_pod(key)

    def _remove_pod(self, key: Key) -> None:
        if self._running.pop(key, None) is not None:
            self.measures.stopped(key, self.now, done=False)
            self._freed()
        self._nominated.discard(key)
        self._objects.remove(PODS, key)

    def _start(self, key: Key, node: str, annotations: Mapping[str, str]) -> None:
        now = format_time(self.now)
        patch: dict[str, Any] = {
            "spec": {"nodeName": node},
            "status": {
                "phase": "Running",
                "startTime": now,
                "nominatedNodeName": None,
                "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": now}],
            },
        }
        if annotations:
            patch["metadata"] = {"annotations": annotations}
        if self._objects.change(PODS, key, patch):
            self._nominated.discard(key)
            self._start_clock(key)

    def _start_clock(self, key: Key) -> None:
        pod = self._objects.get(PODS, key)
        assert pod is not None
        uid = pod["metadata"]["uid"]
        self._running[key] = uid
        owner = self._owner(pod)
        job = self._jobs.get(owner) if owner is not None else None
        task = self._state.tasks.get(str(key))
        if task is not None:
            self.measures.started(key, task, self.now, owner)
        length = job.duration if job is not None else _own_run_time(pod)
        if length is not None:
            self._at(self.now + length, self._succeed, key, uid)

    @staticmethod
    def _owner(pod: Obj) -> Key | None:
        owner = next(iter(pod["metadata"].get("ownerReferences") or ()), None)
        return None if owner is None else Key(pod["metadata"].get("namespace", ""), owner["name"])

    def _succeed(self, key: Key, uid: str) -> None:
        if self._running.get(key) != uid:
            return
        del self._running[key]
        self._objects.change(PODS, key, {"status": {"phase": "Succeeded"}})
        self.measures.stopped(key, self.now, done=True)
        self._freed()

    def _freed(self) -> None:
        """Handle released resources: a cycle may use them if anything waits."""
        if self._is_anything_waiting():
            self._want_cycle(self.now)

    def _is_anything_waiting(self) -> bool:
        return bool(self._state.unplaced) or len(self._jobs) > len(self.measures.running_jobs)

    # --- cycles

    def _tell_engine(self) -> None:
        for event in self._objects.take_events():
            self._state.apply(event)

    def _cycle(self) -> None:
        setting = self._setting
        self._wanted = None
        self._tell_engine()
        with setting.extensions.watched() as watchdog:
            plan = cycle(
                self._state,
                setting.conf,
                self.now,
                setting.seed,
                plugins=setting.extensions.plugins,
                actions=setting.extensions.actions,
                watchdog=watchdog,
                reasons=False,
                backoff=self._backoff.at(self.now - setting.start),
                outside=setting.extensions.outside,
            )
        self._backoff = plan.backoff or self._backoff
        self._cycles += 1
        self._next_cycle = self.now + setting.period
        changed = self._carry_out(plan)
        self.measures.after_cycle(plan)
        self._stale = 0 if plan.binds or plan.evictions else self._stale + 1
        if self._stale >= STALE and not self._running and self._submitted == len(self._trace.jobs):
            return  # an empty cluster does not place the rest, so nothing ever will
        if changed:
            self._want_cycle(self._next_cycle)
        elif (self._looks_by_time or self._backoff.attempts) and self._is_anything_waiting():
            # Released resources request a cycle themselves; this one is for changes by time alone.
            self._want_cycle(self.now + max(LOOK_AGAIN << min(self._stale, DOUBLINGS), setting.period))

    def _carry_out(self, plan: Plan) -> bool:
        """Carry out a plan; return True if a next cycle may find more to do."""
        for eviction in plan.evictions:
            namespace, _, name = eviction.pod.partition("/")
            pod = self._objects.get(PODS, Key(namespace, name))
            if pod is not None and "deletionTimestamp" not in pod["metadata"]:
                self.measures.evicted(Key(namespace, name), eviction)
                self._delete_pod(pod)
        for bind in plan.binds:
            namespace, _, name = bind.pod.partition("/")
            key = Key(namespace, name)
            self._start(key, bind.node, dict(bind.annotations))
        changed = bool(plan.binds)
        for name, outcome in plan.groups.items():
            key = Key(*name.split("/", 1))
            group = self._objects.get(POD_GROUPS, key)
            if group is not None and (group.get("status") or {}).get("phase") != outcome.phase:
                changed |= self._objects.change(POD_GROUPS, key, {"status": {"phase": outcome.phase}})
        promised = self._nominate(plan) or bool(plan.evictions)
        self._tell_engine()
        return promised or (changed and self._is_anything_waiting())

    def _nominate(self, plan: Plan) -> bool:
        """Write nominations, and clear those of pods that wait without one."""
        nodes = {Key(*each.pod.split("/", 1)): each.node for each in plan.nominations}
        changed = False
        for key in sorted(self._nominated | nodes.keys()):
            pod = self._objects.get(PODS, key)
            if pod is None or pod["spec"].get("nodeName"):
                continue
            changed |= self._objects.change(PODS, key, {"status": {"nominatedNodeName": nodes.get(key)}})
        self._nominated = set(nodes)
        return changed

    def _reasons(self) -> tuple[tuple[str, str, int], ...]:
        """The reasons why jobs still wait at the end."""
        self._tell_engine()
        setting = self._setting
        plan = cycle(
            self._state,
            setting.conf,
            self.now,
            setting.seed,
            plugins=setting.extensions.plugins,
            actions=setting.extensions.actions,
            backoff=self._backoff.at(self.now - setting.start),
            outside=setting.extensions.outside,
        )
        found: dict[str, tuple[str, set[str]]] = {}
        for pending in plan.pending:
            found.setdefault(pending.message, (pending.group, set()))[1].add(pending.group)
        for group, outcome in plan.groups.items():
            if outcome.refusal is not None:
                found.setdefault(outcome.refusal.message, (group, set()))[1].add(group)
        counted = [(message, group, len(groups)) for message, (group, groups) in found.items()]
        return tuple(sorted(counted, key=lambda each: (-each[2], each[0])))

    # --- faults

    def _fail(self, fault: Fault) -> None:
        """Fail a node: its pods are lost at once, and it offers nothing until it returns."""
        node = self._objects.get(NODES, Key("", fault.node))
        if node is None:
            return
        self._down[fault.node] = node
        self.measures.faults += 1
        for key in sorted(self._running):
            pod = self._objects.get(PODS, key)
            if pod is not None and pod["spec"].get("nodeName") == fault.node:
                self.measures.pods_lost += 1
                self._remove_pod(key)
        self._objects.remove(NODES, Key("", fault.node))
        self._change_nodes()
        self._at(self.now + fault.length, self._recover, fault.node)
        self._want_cycle(self.now)

    def _recover(self, name: str) -> None:
        node = self._down.pop(name)
        self._objects.create(NODES, node, format_time(self.now))
        self._change_nodes()
        self._want_cycle(self.now)

    def _change_nodes(self) -> None:
        self._tell_engine()
        self.measures.nodes_changed()


def _own_run_time(pod: Obj) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(RUN_TIME)
    try:
        return max(parse_duration(text), 0) if text else None
    except ValueError:
        return None
