"""The cluster from the scheduler's point of view.

The state changes only by `apply(event)`, and depends only on the latest objects, not on the order or number of the
events. A session works on the state itself and undoes its changes when it closes, so no copy of the cluster is needed
for a cycle.

An object that cannot be read is skipped and reported in `problems`; it does not affect other objects.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kilauea.api import agents, core, device_config, metrics, scheduling, topology, wellknown
from kilauea.api.device_config import DeviceConfig
from kilauea.api.errors import object_label
from kilauea.api.kinds import KUBERNETES_GROUP
from kilauea.api.kubernetes_groups import KubernetesPodGroup
from kilauea.api.meta import Object
from kilauea.api.selectors import Selector, selector_of, selector_of_labels
from kilauea.engine.events import Advanced, Changed, Event, Gone, Listed, Measured, Relisted
from kilauea.engine.model import status
from kilauea.engine.model.asked import AskedTable
from kilauea.engine.model.claims.table import ResourceClaimTable
from kilauea.engine.model.devices import record_of
from kilauea.engine.model.hypernodes import Domain, HyperNodeTree, build_tree, domain_of
from kilauea.engine.model.job_table import JobTable
from kilauea.engine.model.jobs import SERVICE, Job
from kilauea.engine.model.kubernetes_groups import key_from, object_key
from kilauea.engine.model.limits import Budget, Quota, budget_of, quota_of
from kilauea.engine.model.loads import Loads, NodeLoad, NodeUsage, loads_of, usage_of
from kilauea.engine.model.nodes import NodeFacts, NodeTable, facts_of
from kilauea.engine.model.numa import NumaFacts, numa_facts
from kilauea.engine.model.placements import LabelClasses, Placements
from kilauea.engine.model.queues import Queue, settle_pauses
from kilauea.engine.model.resources import MOST, ResourceAxis, within
from kilauea.engine.model.serving import ServedResources
from kilauea.engine.model.shards import Sharding, Shards
from kilauea.engine.model.task_specs import SpecTable, TaskSpec
from kilauea.engine.model.tasks import Stage, Task, stage_of, task_of
from kilauea.engine.model.volumes import Storage


@dataclass(frozen=True, slots=True)
class Problem:
    """A skipped object, with the reason."""

    kind: str
    key: str
    message: str


Handlers = dict[str, tuple[Callable[[Any], None], Callable[[str], None]]]


def _own_priority(job: Job) -> int | None:
    """Return the priority of a job that does not come from its class; None if it does."""
    if job.own_priority is not None or not (job.service or job.of_kubernetes) or job.priority_class:
        return job.own_priority
    return max((task.priority for task in job.tasks.values()), default=None)


class ClusterState:
    """Nodes, tasks, jobs, queues and the objects that they refer to.

    Attributes are read-only, except for `apply` and a session.
    """

    def __init__(
        self,
        *,
        default_queue: str = wellknown.DEFAULT_QUEUE,
        scheduler_names: Iterable[str] = wellknown.SCHEDULER_NAMES,
        sharding: Sharding | None = None,
    ) -> None:
        self.default_queue = default_queue
        self.scheduler_names = frozenset(scheduler_names)
        self.axis = ResourceAxis()
        self.tasks: dict[str, Task] = {}
        self.jobs: dict[str, Job] = {}
        self.job_table = JobTable(self.axis)
        self.queues: dict[str, Queue] = {}
        self.priority_classes: dict[str, scheduling.PriorityClass] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.domains: dict[str, Domain] = {}
        """HyperNodes."""
        self.spreaders: dict[str, dict[str, tuple[str, Selector]]] = {}
        """Services and workloads, by kind and key: their namespace, and the selector by which their pods are spread."""
        self.quotas: dict[str, Quota] = {}
        self.budgets: dict[str, Budget] = {}
        self.problems: dict[tuple[str, str], Problem] = {}
        self.classes = LabelClasses()
        self.placements = Placements()
        self.selecting: dict[str, Task] = {}
        """Tasks whose placement depends on labels of other pods, or that attract or repel others."""
        self.selecting_specs: Counter[TaskSpec] = Counter()
        """Their specs, with the number of tasks."""
        self.unplaced: dict[str, Task] = {}
        """Tasks without a node."""
        self.nominated: dict[str, Task] = {}
        """Tasks without a node that an earlier cycle nominated to one."""
        self.with_ports: dict[str, Task] = {}
        """Tasks that use host ports."""
        self.with_claims: dict[str, Task] = {}
        """Tasks that mount volume claims."""
        self.with_disks: dict[str, Task] = {}
        """Tasks that name cloud or storage volumes without a claim."""
        self.with_cards: dict[str, Task] = {}
        """Tasks that name accelerator cards."""
        self.with_shares: dict[str, Task] = {}
        """Tasks that request parts of cards."""
        self.with_resource_claims: dict[str, Task] = {}
        """Tasks with resource claims."""
        self.resource_claims = ResourceClaimTable()
        self._served = ServedResources(self.resource_claims, self.with_resource_claims)
        self.device_configs: dict[str, DeviceConfig] = {}
        """Configurations of shared devices, by the key of their ConfigMap."""
        self.with_numa: dict[str, Task] = {}
        """Tasks that request whole processors."""
        self.numa: dict[str, NumaFacts] = {}
        """Numatopologies, by node."""
        self.shards = Shards(sharding or Sharding())
        """NodeShards."""
        self.storage = Storage()
        self._measured: Mapping[str, NodeLoad] = {}
        """Loads by node, from the latest `Measured`."""
        self._used: dict[str, NodeUsage] = {}
        """Usage by node, from NodeMetrics."""
        self._loads: Loads | None = None
        self._facts: dict[str, NodeFacts] = {}
        self._on_node: dict[str, dict[str, Task]] = {}
        self._nodes = NodeTable([], self.axis)
        self._nodes_stale = False
        self._tree: HyperNodeTree | None = None
        self._specs = SpecTable()
        self._asked = AskedTable(self._specs)
        self._versions: dict[tuple[str, str], int] = {}
        self._dirty: set[int] = set()
        self._queues_stale = True
        self.queue_version = 0
        """Increases with each change of a queue's object."""
        self.kept: dict[str, tuple[Any, Any]] = {}
        """Cached values of plugins, by plugin: the inputs, and the value.
        """
        self._handlers = self._handlers_by_kind()

    def _handlers_by_kind(self) -> Handlers:
        """Return the functions by kind that set a changed object, and that drop an object by its key."""
        handlers: Handlers = {
            "Pod": (self._set_pod, self._drop_pod),
            "Node": (self._set_node, self._drop_node),
            "PodGroup": (self._set_group, self._drop_group),
            KUBERNETES_GROUP: (self._set_kubernetes_group, lambda key: self._drop_group(key_from(key))),
            "Queue": (self._set_queue, self._drop_queue),
            "PriorityClass": (self._set_class, self._drop_class),
            "HyperNode": (self._set_domain, self._drop_domain),
            "Namespace": (self._set_namespace, self._drop_from(self.namespaces)),
            "ResourceQuota": (self._set_quota, self._drop_from(self.quotas)),
            "PodDisruptionBudget": (self._set_budget, self._drop_from(self.budgets)),
            "NodeMetrics": (self._set_usage, self._drop_usage),
            "Numatopology": (self._set_numa, self._drop_from(self.numa)),
            "NodeShard": (self.shards.put, self.shards.drop),
            "ConfigMap": (self._set_device_config, self._drop_device_config),
        }
        for kind in self.storage.kinds:
            handlers[kind] = (self.storage.put, functools.partial(self.storage.drop, kind))
        for kind in self.resource_claims.kinds:
            handlers[kind] = (self.resource_claims.put, functools.partial(self.resource_claims.drop, kind))
        for kind in ("Service", "ReplicationController", "ReplicaSet", "StatefulSet"):
            self.spreaders[kind] = {}
            handlers[kind] = (self._set_spreader, self._drop_from(self.spreaders[kind]))
        return handlers

    @staticmethod
    def _drop_from(table: dict[str, Any]) -> Callable[[str], None]:
        return lambda key: table.pop(key, None)

    # --- events

    def apply(self, event: Event) -> None:
        """Apply an event. Unknown kinds are ignored; objects that cannot be read are added to `problems`."""
        match event:
            case Changed(obj):
                self._change(obj)
            case Advanced(obj):
                self._advance(obj)
            case Gone(kind, key):
                self._remove(kind, key)
            case Relisted(kind, objects):
                present = {object_label(obj) for obj in objects}
                for key in self._keys(kind):
                    if key not in present:
                        self._remove(kind, key)
                for obj in objects:
                    self._forget_version((kind, object_label(obj)))
                    self._change(obj)
            case Listed(obj):
                self._forget_version((obj.kind, object_label(obj)))
                self._change(obj)
            case Measured(loads):
                self._measured = loads
                self._loads = None

    def _change(self, obj: Object) -> None:
        handler = self._handlers.get(obj.kind)
        if handler is None:
            return
        key = (obj.kind, object_label(obj))
        seen, version = self._seen_version(key), _version(obj)
        if 0 <= version < seen:
            return
        if self.problems:
            self.problems.pop(key, None)
        try:
            handler[0](obj)
        except ValueError as error:
            handler[1](key[1])
            self.problems[key] = Problem(*key, str(error))
        self._note_version(key, max(version, seen))

    def _advance(self, pod: core.Pod) -> None:
        task = self.tasks.get(pod.key)
        if task is None:
            self._change(pod)
            return
        version = _version(pod)
        if 0 <= version < task.version:
            return
        task.version = max(version, task.version)
        if task.spec.device_source is not None:
            task.detail(task.details._replace(record=record_of(pod.annotations)))
        self._move(task, stage_of(pod, task.cooldown))

    def _seen_version(self, key: tuple[str, str]) -> int:
        """Return the newest version of an object that was seen; -1 for none. Tasks store their own."""
        task = self.tasks.get(key[1]) if key[0] == "Pod" else None
        return self._versions.get(key, -1) if task is None else task.version

    def _note_version(self, key: tuple[str, str], version: int) -> None:
        task = self.tasks.get(key[1]) if key[0] == "Pod" else None
        if task is not None:
            task.version = version
            self._versions.pop(key, None)
        elif version >= 0:
            self._versions[key] = version

    def _forget_version(self, key: tuple[str, str]) -> None:
        self._versions.pop(key, None)
        task = self.tasks.get(key[1]) if key[0] == "Pod" else None
        if task is not None:
            task.version = -1

    def _remove(self, kind: str, key: str) -> None:
        handler = self._handlers.get(kind)
        if handler is not None:
            self.problems.pop((kind, key), None)
            self._versions.pop((kind, key), None)
            handler[1](key)

    def _keys(self, kind: str) -> list[str]:
        tables: dict[str, Iterable[str]] = {
            "Pod": self.tasks,
            "Node": self._facts,
            "PodGroup": [k for k, job in self.jobs.items() if job.group and not job.service and not job.of_kubernetes],
            KUBERNETES_GROUP: [object_key(key) for key, job in self.jobs.items() if job.of_kubernetes],
            "Queue": self.queues,
            "PriorityClass": self.priority_classes,
            "HyperNode": self.domains,
            "Namespace": self.namespaces,
            "ResourceQuota": self.quotas,
            "PodDisruptionBudget": self.budgets,
            "NodeMetrics": self._used,
            "Numatopology": self.numa,
            "NodeShard": self.shards.names,
            "ConfigMap": self.device_configs,
        }
        known = tables.get(kind, self.spreaders.get(kind, [*self.storage.keys(kind), *self.resource_claims.keys(kind)]))
        return [*known, *(key for of, key in self.problems if of == kind)]

    def _set_device_config(self, obj: core.ConfigMap) -> None:
        """Of all ConfigMaps, only the configuration of shared devices matters."""
        text = (obj.data or {}).get(device_config.FILE)
        if text is None:
            self._drop_device_config(obj.key)
        else:
            self.device_configs[obj.key] = device_config.device_config(text)
            self._name_cards()

    def _drop_device_config(self, key: str) -> None:
        if self.device_configs.pop(key, None) is not None:
            self._name_cards()

    def _name_cards(self) -> None:
        """Find the tasks that request parts of cards again, if the names of the resources have changed."""
        named = {config.names for config in self.device_configs.values()}
        usual = device_config.VgpuNames()
        npus = {names for config in self.device_configs.values() for names in config.npu_names}
        names = device_config.CardNames((usual, *sorted(named - {usual})), tuple(sorted(npus)))
        if self._specs.name_cards(names):
            self.with_shares = {key: task for key, task in self.tasks.items() if task.spec.devices is not None}

    # --- pods

    def _set_pod(self, pod: core.Pod) -> None:
        task = task_of(pod, self._asked)
        self._drop_pod(task.key)
        ours = task.scheduler in self.scheduler_names
        if not ours and not task.node:
            return
        if not ours:
            task.detail(task.details._replace(foreign=True))
        if not ours and object_key(task.group):
            task.group = ""  # the pods of that group belong to another scheduler
        service = ours and not task.group and pod.spec.scheduler_name == wellknown.DEFAULT_SCHEDULER
        if service:
            task.group = f"{task.namespace}/{SERVICE}{task.name}"
        self.axis.admit(task.spec.requests)
        self.tasks[task.key] = task
        task.label_class = self.classes.id_of(task.namespace, pod.labels)
        task.row = self.placements.admit(task.label_class)
        self.placements.run(task.row, task.started, running=task.status == status.RUNNING)
        if task.spec.selects_pods:
            self.selecting[task.key] = task
            self.selecting_specs[task.spec] += 1
        if task.spec.ports:
            self.with_ports[task.key] = task
        if task.spec.claims:
            self.with_claims[task.key] = task
        if task.spec.disks or task.spec.inline:
            self.with_disks[task.key] = task
        if task.claims:
            self.with_resource_claims[task.key] = task
        if task.spec.cards is not None:
            self.with_cards[task.key] = task
        if task.spec.devices is not None:
            self.with_shares[task.key] = task
        if task.spec.numa is not None:
            self.with_numa[task.key] = task
        self._served.put(task)
        self._put_on_node(task)
        if task.group:
            job = self._job(task.group)
            task.group = job.key  # one string for all tasks of a job
            if service:
                job.set_service(task)
            job.add_task(task, pod.labels)
            self._dirty.add(job.row)

    def _drop_pod(self, key: str) -> None:
        task = self.tasks.pop(key, None)
        if task is None:
            return
        if self.selecting.pop(key, None) is not None:
            self.selecting_specs[task.spec] -= 1
            if not self.selecting_specs[task.spec]:
                del self.selecting_specs[task.spec]
        self.with_ports.pop(key, None)
        self.with_claims.pop(key, None)
        self.with_disks.pop(key, None)
        self.with_resource_claims.pop(key, None)
        self.with_cards.pop(key, None)
        self.with_shares.pop(key, None)
        self.with_numa.pop(key, None)
        self._served.drop(key)
        self._take_off_node(task)
        self.placements.release(task.row)
        if task.group:
            job = self.jobs[task.group]
            job.remove_task(task)
            if job.service:
                job.clear_group()
            self._dirty.add(job.row)
            self._forget_if_empty(job)

    def _move(self, task: Task, stage: Stage) -> None:
        """Move a task to a stage."""
        if stage == task.stage:
            return
        holds = task.status in status.HOLDING and stage.status in status.HOLDING
        stays = holds and stage.node == task.node
        if not stays:
            self._take_off_node(task)
        if task.group:
            job = self.jobs[task.group]
            job.move(task, stage.status)
            self._dirty.add(job.row)
        task.stage = stage
        self.placements.run(task.row, task.started, running=task.status == status.RUNNING)
        if not stays:
            self._put_on_node(task)
        self._served.put(task)

    def _put_on_node(self, task: Task) -> None:
        """Add a task to its node."""
        held = bool(task.node) and task.status not in status.ENDED
        row = self._nodes.row_of.get(task.node, -1) if held and not self._nodes_stale else -1
        self.placements.put(task.row, row, task.status == status.RELEASING)
        if not task.node:
            self.unplaced[task.key] = task
            if task.nominated and task.group:
                self.nominated[task.key] = task
        if held:
            self._on_node.setdefault(task.node, {})[task.key] = task
            if row >= 0:
                self._account(task, row, 1)

    def _take_off_node(self, task: Task) -> None:
        """Remove a task from its node."""
        self.unplaced.pop(task.key, None)
        self.nominated.pop(task.key, None)
        on_node = self._on_node.get(task.node, {})
        if on_node.pop(task.key, None) is not None:
            row = int(self.placements.node[task.row])
            if row >= 0 and not self._nodes_stale:
                self._account(task, row, -1)
            if not on_node:
                del self._on_node[task.node]

    def _account(self, task: Task, row: int, sign: int) -> None:
        nodes = self._nodes
        nodes.widen()
        spec = task.spec
        request = sign * self.axis.vector(spec.requests)
        nodes.used[:, row] += request
        nodes.viewed[:, row] += request
        nodes.scored[0, row] += sign * spec.scored_cpu
        nodes.scored[1, row] += sign * spec.scored_memory
        if task.status == status.RELEASING:
            nodes.releasing[:, row] += request

    # --- nodes

    def _set_node(self, node: core.Node) -> None:
        facts = facts_of(node)
        known = self._facts.get(facts.name)
        if known == facts:
            return
        self._facts[facts.name] = facts
        same = known is not None and dataclasses.replace(known, allocatable=facts.allocatable) == facts
        if same and not self._nodes_stale:
            self.axis.admit(facts.allocatable)
            self._nodes.change_offer(facts)
        else:
            self._nodes_stale = True

    def _drop_node(self, name: str) -> None:
        if self._facts.pop(name, None) is not None:
            self._nodes_stale = True

    def _rebuild_nodes(self) -> None:
        nodes = self._nodes = NodeTable(self._facts.values(), self.axis, self._nodes.row_of)
        self._nodes_stale = False
        self._tree = None
        self._loads = None
        self.placements.node[:] = -1
        held = [(task, row) for name, row in nodes.row_of.items() for task in self._on_node.get(name, {}).values()]
        if not held:
            return
        numbers: dict[TaskSpec, int] = {}
        specs = [task.spec for task, _ in held]
        which = np.array([numbers.setdefault(spec, len(numbers)) for spec in specs])
        requests = np.array([self.axis.vector(spec.requests) for spec in numbers]).T
        scored = np.array([(spec.scored_cpu, spec.scored_memory) for spec in numbers], dtype=np.int64).T
        rows = np.array([row for _, row in held])
        releasing = np.array([task.status == status.RELEASING for task, _ in held])
        self.placements.node[[task.row for task, _ in held]] = rows
        for r in range(len(self.axis)):
            np.add.at(nodes.used[r], rows, requests[r, which])
            np.add.at(nodes.releasing[r], rows[releasing], requests[r, which[releasing]])
        nodes.viewed[:] = nodes.used
        for r in range(2):
            np.add.at(nodes.scored[r], rows, scored[r, which])

    def on_node(self, node: str) -> Iterable[Task]:
        """Return the tasks on a node, including terminating ones."""
        return self._on_node.get(node, {}).values()

    def terminating(self, node: str) -> list[Task]:
        """Return the terminating tasks on a node, which still hold their resources."""
        return [task for task in self._on_node.get(node, {}).values() if task.status == status.RELEASING]

    # --- groups, queues and other kinds

    def _job(self, key: str) -> Job:
        job = self.jobs.get(key)
        if job is None:
            job = self.jobs[key] = Job(key)
            self.job_table.admit(job)
        return job

    def _forget_if_empty(self, job: Job) -> None:
        if not job.group and not job.tasks:
            del self.jobs[job.key]
            self.job_table.release(job)

    def _set_group(self, group: scheduling.PodGroup) -> None:
        job = self._job(group.key)
        try:
            job.set_group(group, self.default_queue, self._labels_of)
        finally:
            self._dirty.add(job.row)
        self.axis.admit(job.min_resources or ())

    def _set_kubernetes_group(self, group: KubernetesPodGroup) -> None:
        job = self._job(key_from(group.key))
        try:
            job.set_kubernetes_group(group, self.default_queue, self._labels_of)
        finally:
            self._dirty.add(job.row)

    def _labels_of(self, task: Task) -> Mapping[str, str]:
        return self.classes.get(task.label_class).labels

    def _drop_group(self, key: str) -> None:
        job = self.jobs.get(key)
        if job is not None:
            job.clear_group()
            self._dirty.add(job.row)
            self._forget_if_empty(job)

    def _set_queue(self, obj: scheduling.Queue) -> None:
        self.queues[obj.name] = Queue(obj)
        self._queues_stale = True
        self.queue_version += 1

    def _drop_queue(self, name: str) -> None:
        self.queues.pop(name, None)
        self._queues_stale = True
        self.queue_version += 1

    def _set_class(self, obj: scheduling.PriorityClass) -> None:
        self.priority_classes[obj.name] = obj
        self._queues_stale = True

    def _drop_class(self, name: str) -> None:
        self.priority_classes.pop(name, None)
        self._queues_stale = True

    def _set_domain(self, obj: topology.HyperNode) -> None:
        self.domains[obj.name] = domain_of(obj)
        self._tree = None

    def _drop_domain(self, name: str) -> None:
        self.domains.pop(name, None)
        self._tree = None

    def _set_namespace(self, obj: core.Namespace) -> None:
        self.namespaces[obj.name] = obj.labels

    def _set_quota(self, obj: core.ResourceQuota) -> None:
        self.quotas[obj.key] = quota_of(obj)

    def _set_budget(self, obj: scheduling.PodDisruptionBudget) -> None:
        self.budgets[obj.key] = budget_of(obj)

    def _set_numa(self, obj: agents.Numatopology) -> None:
        self.numa[obj.name] = numa_facts(obj)

    def _set_usage(self, obj: metrics.NodeMetrics) -> None:
        self._used[obj.name] = usage_of(obj)
        self._loads = None

    def _drop_usage(self, name: str) -> None:
        self._used.pop(name, None)
        self._loads = None

    def _set_spreader(self, obj: core.Service | core.Workload | core.ReplicationController) -> None:
        selector: Selector | None = None
        if isinstance(obj, core.Workload):
            selector = selector_of(obj.spec.selector) if obj.spec else None
        elif obj.spec and obj.spec.selector:
            selector = selector_of_labels(obj.spec.selector)
        self.spreaders[obj.kind].pop(obj.key, None)
        if selector:
            self.spreaders[obj.kind][obj.key] = (obj.namespace, selector)

    # --- derived data

    @property
    def nodes(self) -> NodeTable:
        """The nodes, with all tasks added."""
        if self._nodes_stale:
            self._rebuild_nodes()
        self._nodes.widen()
        return self._nodes

    @property
    def hypernodes(self) -> HyperNodeTree:
        """The tree of network domains over the nodes."""
        nodes = self.nodes
        if self._tree is None:
            self._tree = build_tree(self.domains.values(), nodes)
        return self._tree

    @property
    def loads(self) -> Loads:
        """The loads of the nodes."""
        nodes = self.nodes
        if self._loads is None:
            self._loads = loads_of(nodes, self._measured, self._used)
        return self._loads

    def settle(self) -> None:
        """Update all derived data: nodes, priorities, the job table."""
        self._served.settle(self.nodes)
        self._compact_classes()
        if self._queues_stale:
            for row, name in enumerate(sorted(self.queues)):
                self.queues[name].row = row
            settle_pauses(self.queues)
            self._dirty.update(job.row for job in self.jobs.values())
            self._queues_stale = False
        rows = sorted(self._dirty)
        for row in rows:
            job = self.job_table.jobs[row]
            if job is not None:
                if job.of_kubernetes:
                    job.settle_kubernetes_group()
                own = _own_priority(job)
                value = self.priority_of(job.priority_class) if own is None else own
                job.priority = within(value, -MOST, MOST)
        self.job_table.refresh(rows, self.queues)
        self._dirty.clear()

    def priority_of(self, name: str) -> int:
        """Return the value of a priority class; for an empty or unknown name, that of the global default, or 0."""
        known = self.priority_classes.get(name)
        if known is not None:
            return known.value
        if name in wellknown.SYSTEM_CLASSES:
            return wellknown.SYSTEM_CLASSES[name]
        return max((c.value for c in self.priority_classes.values() if c.global_default), default=0)

    def _compact_classes(self) -> None:
        """Drop unused label classes once they are the majority."""
        if len(self.classes) <= 2 * len(self.tasks) + 1024:
            return
        old, self.classes = self.classes, LabelClasses()
        for task in self.tasks.values():
            task.label_class = self.classes.id_of(*old.get(task.label_class))
            self.placements.label_class[task.row] = task.label_class


def _version(obj: Object) -> int:
    """Return the version of an object; -1 if it is not a number."""
    version = obj.metadata.resource_version or ""
    return int(version) if version.isascii() and version.isdigit() and len(version) <= 20 else -1  # 64 bits
