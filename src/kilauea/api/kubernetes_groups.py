"""Kubernetes' own PodGroup (`scheduling.k8s.io`), the part that scheduling reads; Volcano's is in `scheduling`.

Kubernetes 1.36 serves it as v1alpha2 and 1.37 as v1alpha3, both behind the feature gate GenericWorkload. Controllers
make PodGroups from the templates of a Workload and copy everything that scheduling needs, so Workloads are not read.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.api.meta import Object, ObjectMeta, Wire

VERSIONS = ("v1alpha3", "v1alpha2")
"""Versions that are read, the newest first."""
SCHEDULED = {"v1alpha2": "PodGroupScheduled", "v1alpha3": "PodGroupInitiallyScheduled"}
"""By version: the condition that tells if a group has been scheduled."""


class GangPolicy(Wire):
    """`spec.schedulingPolicy.gang`: at least this many pods, or none."""

    min_count: int = 0


class SchedulingPolicy(Wire):
    """`spec.schedulingPolicy`: `gang`, or `basic` for pods that start one by one."""

    basic: dict[str, Any] | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(Wire):
    """A node label; all pods of the group go to nodes with the same value of it."""

    key: str = ""


class SchedulingConstraints(Wire):
    """`spec.schedulingConstraints`."""

    topology: list[TopologyConstraint] | None = None


class KubernetesPodGroupSpec(Wire):
    """`spec` of a PodGroup."""

    scheduling_policy: SchedulingPolicy = msgspec.field(default_factory=SchedulingPolicy)
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: str | dict[str, Any] | None = None
    """`Pod` or `PodGroup`; in v1alpha3 an object with `single` or `all`."""
    priority_class_name: str | None = None
    priority: int | None = None
    parent_composite_pod_group_name: str | None = None


class GroupCondition(Wire):
    """One entry of `status.conditions`."""

    type: str = ""
    status: str = ""
    observed_generation: int | None = None
    last_transition_time: str | None = None
    reason: str | None = None
    message: str | None = None


class KubernetesPodGroupStatus(Wire):
    """`status` of a PodGroup."""

    conditions: list[GroupCondition] | None = None


class GroupMeta(ObjectMeta):
    """`metadata` with the generation, which conditions name."""

    generation: int | None = None


class KubernetesPodGroup(Object):
    """A set of pods that Kubernetes schedules together."""

    metadata: GroupMeta = msgspec.field(default_factory=GroupMeta)
    spec: KubernetesPodGroupSpec = msgspec.field(default_factory=KubernetesPodGroupSpec)
    status: KubernetesPodGroupStatus | None = None

    @property
    def scheduled(self) -> GroupCondition | None:
        """The condition that tells if the group has been scheduled, if it has one."""
        conditions = (self.status.conditions if self.status else None) or ()
        return next((each for each in conditions if each.type in SCHEDULED.values()), None)

    @property
    def whole(self) -> bool:
        """True if all its pods are to be disrupted together."""
        mode = self.spec.disruption_mode
        return "all" in mode if isinstance(mode, dict) else mode == "PodGroup"
