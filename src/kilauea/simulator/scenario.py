"""A cluster, a scheduler and a time: `kilauea.simulator.planning` plans and explains it.

`kilauea plan`, `explain` and `queues` are scenarios over files or over a snapshot of a live cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kilauea.api import wellknown
from kilauea.api.core import Pod
from kilauea.api.meta import Object
from kilauea.api.unserved import NO_SCHEDULER
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Changed, Measured
from kilauea.engine.explain.group import Change
from kilauea.engine.model.attempts import NO_BACKOFF, AdmissionBackoff
from kilauea.engine.model.kubernetes_groups import named_group
from kilauea.engine.model.loads import NodeLoad
from kilauea.engine.model.shards import Sharding
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.simulator.extensions import BUILT_IN, Extensions

ENDED = ("Succeeded", "Failed")
"""Phases of finished pods."""


class NotCreated(NamedTuple):
    """Pods of a group that the API server would refuse to create.

    Attributes:
        pods: number of pods.
        message: the reason of the server or the controller, and the fix.
        change: the smallest change that lets them be created; None if the message states it.
    """

    pods: int
    message: str
    change: Change | None = None


class Unserved(NamedTuple):
    """The pods of a group that wait for a scheduler that is not simulated.

    Attributes:
        scheduler: the name of the scheduler.
        pods: the number of pods.
        runs: True if the scheduler has processed one of them.
    """

    scheduler: str
    pods: int
    runs: bool


@dataclass(frozen=True)
class Scenario:
    """A cluster at a time, and its scheduler.

    Attributes:
        objects: the objects of the cluster.
        conf: the scheduler's configuration.
        now: the time of the first cycle, in microseconds since 1970.
        seed: breaks ties between equally good nodes; None selects the first in order.
        extensions: plugins and actions.
        schedulers: names of the schedulers that are simulated.
        submitted: pod groups (`namespace/name`) that files add to a live cluster.
        not_created: pods that are not created, by pod group.
        warnings: warnings from reading the objects.
        sharding: the part of the cluster that the scheduler uses.
        loads: the loads of nodes from a monitoring system; empty for those of NodeMetrics.
    """

    objects: Sequence[Object]
    conf: SchedulerConf
    now: int
    seed: int | None = None
    extensions: Extensions = BUILT_IN
    schedulers: Sequence[str] = wellknown.ALL_SCHEDULERS
    submitted: tuple[str, ...] = ()
    not_created: Mapping[str, NotCreated] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    sharding: Sharding = field(default_factory=Sharding)
    loads: Mapping[str, NodeLoad] = field(default_factory=dict)

    def state(self) -> ClusterState:
        """Return the state of the cluster, ready for a cycle."""
        state = build_state(self.objects, self.schedulers, self.sharding)
        if self.loads:
            state.apply(Measured(self.loads))
        return state

    def decide(
        self, state: ClusterState, *, now: int = 0, brief: bool = False, backoff: AdmissionBackoff = NO_BACKOFF
    ) -> Plan:
        """Return the plan of one cycle.

        Args:
            state: the cluster; it is not changed.
            now: time of the cycle; 0 for that of the scenario.
            brief: leave out reasons.
            backoff: groups whose admission is backed off.
        """
        extensions = self.extensions
        with extensions.watched() as watchdog:
            return cycle(
                state,
                self.conf,
                now or self.now,
                self.seed,
                plugins=extensions.plugins,
                actions=extensions.actions,
                watchdog=watchdog,
                brief=brief,
                backoff=backoff,
                outside=extensions.outside,
            )


def build_state(
    objects: Iterable[Object],
    schedulers: Iterable[str] = wellknown.ALL_SCHEDULERS,
    sharding: Sharding | None = None,
) -> ClusterState:
    """Return the state of a cluster, ready for a cycle that serves these scheduler names on its shard."""
    state = ClusterState(scheduler_names=schedulers, sharding=sharding)
    for obj in objects:
        state.apply(Changed(obj))
    state.settle()
    return state


def unserved(objects: Iterable[Object], served: Collection[str]) -> dict[str, Unserved]:
    """Return the pods that wait for a scheduler which is not simulated, by pod group."""
    out: dict[str, Unserved] = {}
    for pod in (obj for obj in objects if isinstance(obj, Pod)):
        scheduler, ended = pod.spec.scheduler_name, pod.status is not None and pod.status.phase in ENDED
        if scheduler and scheduler not in served and not pod.spec.node_name and not ended:
            key = named_group(pod) or pod.key
            before = out.get(key, Unserved(scheduler, 0, runs=False))
            out[key] = Unserved(scheduler, before.pods + 1, before.runs or is_processed(pod))
    return out


def is_processed(pod: Pod) -> bool:
    """Return True if a scheduler has set the condition of a pod."""
    conditions = pod.status.conditions if pod.status is not None else None
    return any(each.type == "PodScheduled" and each.reason != NO_SCHEDULER for each in conditions or ())
