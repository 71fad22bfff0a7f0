"""All controllers by name, and those that the user has selected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kilauea.api.kinds import REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS
from kilauea.api.ports import Controller, Key, Obj
from kilauea.controllers.cluster_roles import ClusterRoleAggregation
from kilauea.controllers.colocation import ColocationController
from kilauea.controllers.cronjobs.controller import CronJobController
from kilauea.controllers.daemonsets.controller import DaemonSetController
from kilauea.controllers.deployments.controller import DeploymentController
from kilauea.controllers.device_taints import DeviceTaintEvictionController
from kilauea.controllers.disruption import DisruptionController
from kilauea.controllers.endpoints import EndpointsController
from kilauea.controllers.finished import FinishedJobController
from kilauea.controllers.garbage import GarbageCollector
from kilauea.controllers.hypernodes.counting import HyperNodeController
from kilauea.controllers.hypernodes.discovery import CONFIGURATION, DiscoveryController
from kilauea.controllers.jobflows.controller import JobFlowController
from kilauea.controllers.jobflows.templates import JobTemplateController
from kilauea.controllers.jobs.controller import JobController
from kilauea.controllers.mirrored_endpoints import MirroringController
from kilauea.controllers.namespaces import Discovered, NamespaceController
from kilauea.controllers.nodes.controller import NodeLifecycleController
from kilauea.controllers.numatopologies import NumatopologyController
from kilauea.controllers.podgroup_protection import PodGroupProtectionController
from kilauea.controllers.podgroups import IdleGroupController, PodGroupController
from kilauea.controllers.queues import QueueController
from kilauea.controllers.replicasets import ReplicaSetController
from kilauea.controllers.resource_claims import ResourceClaimController
from kilauea.controllers.root_authority import RootAuthorityController
from kilauea.controllers.sharding.configuration import SharingPlan
from kilauea.controllers.sharding.controller import CONFIGURATION as SHARDING
from kilauea.controllers.sharding.controller import ShardingController
from kilauea.controllers.signing import Sign, SigningController
from kilauea.controllers.statefulsets.controller import StatefulSetController
from kilauea.controllers.vccronjobs.controller import VcCronJobController
from kilauea.controllers.vcjobs.controller import VcJobController
from kilauea.controllers.volumes.claims import ClaimController
from kilauea.controllers.volumes.classes import DefaultClassController
from kilauea.controllers.volumes.consumers import ConsumerController
from kilauea.controllers.volumes.ephemeral import EphemeralVolumeController
from kilauea.controllers.volumes.protection import (
    AttributesClassProtectionController,
    ClaimProtectionController,
    VolumeProtectionController,
)
from kilauea.controllers.volumes.volumes import VolumeController


def volcano_controllers(
    schedulers: Sequence[str] = ("volcano",),
    *,
    inherit: bool = True,
    discovery: Key = CONFIGURATION,
    sharding: Key = SHARDING,
    sharing: SharingPlan | None = None,
) -> list[Controller]:
    """Return the controllers of Volcano's controller manager.

    Args:
        schedulers: names of the schedulers whose plain pods get pod groups.
        inherit: True if pod groups inherit annotations of the pods' owners.
        discovery: the ConfigMap for the discovery of HyperNodes.
        sharding: the ConfigMap for dividing nodes among schedulers.
        sharing: the division without that ConfigMap; None for no division.
    """
    return [
        PodGroupController(schedulers, inherit=inherit),
        IdleGroupController(REPLICA_SETS),
        IdleGroupController(STATEFUL_SETS),
        QueueController(),
        VcJobController(),
        FinishedJobController(),
        JobFlowController(),
        JobTemplateController(),
        VcCronJobController(),
        HyperNodeController(),
        DiscoveryController(discovery),
        ColocationController(),
        ShardingController(sharding, sharing),
        NumatopologyController(),
    ]


def kubernetes_controllers(
    running_since: Callable[[int], int] = lambda now: 0,
    speaks_for: Callable[[Obj], bool] = lambda node: False,
    authority: str = "",
    sign: Sign | None = None,
    discover: Callable[[], Discovered] = Discovered,
) -> list[Controller]:
    """Return the controllers of Kubernetes' own controller manager that are implemented here.

    Args:
        running_since: returns the time since which they have run without a stall, in microseconds since 1970, given the
            current time; earlier silence of nodes does not count.
        speaks_for: returns True for a node that their own process runs, so it is never silent.
        authority: certificates for clients of the API to trust, as PEM; empty if they are published elsewhere.
        sign: signs requests for certificates; None if that happens elsewhere.
        discover: finds the kinds of aggregated API servers.
    """
    return [
        *([RootAuthorityController(authority)] if authority else []),
        *([SigningController(sign)] if sign is not None else []),
        ReplicaSetController(),
        ReplicaSetController(REPLICATION_CONTROLLERS, "replicationcontroller-controller"),
        EndpointsController(),
        MirroringController(),
        DeploymentController(),
        StatefulSetController(),
        DaemonSetController(),
        JobController(),
        CronJobController(),
        DisruptionController(),
        NodeLifecycleController(running_since, speaks_for),
        ClaimController(),
        VolumeController(),
        ConsumerController(),
        EphemeralVolumeController(),
        DefaultClassController(),
        ResourceClaimController(),
        DeviceTaintEvictionController(),
        *server_controllers(discover),
    ]


def server_controllers(discover: Callable[[], Discovered] = Discovered) -> list[Controller]:
    """The controllers that an API server runs itself, without a controller manager.

    They complete deletions, and the first one aggregates the rules of roles.

    Args:
        discover: finds the kinds of aggregated API servers.
    """
    return [
        ClusterRoleAggregation(),
        NamespaceController(discover),
        GarbageCollector(),
        ClaimProtectionController(),
        VolumeProtectionController(),
        AttributesClassProtectionController(),
        PodGroupProtectionController(),
    ]


VOLCANO_NAMES = {"job-controller": "vcjob-controller", "cronjob-controller": "vccronjob-controller"}
"""Names in Volcano's `--controllers` for controllers that are named differently here, as Kubernetes uses the names."""


def chosen(controllers: Iterable[Controller], wanted: Sequence[str]) -> list[Controller]:
    """The controllers that a list such as `*,-queue-controller` selects, in their order.

    The first entry that names a controller decides; for one that no entry names, `*` does.

    Raises:
        ValueError: an entry does not name a controller, or one is both enabled and disabled.
    """
    known = list(controllers)
    names = list(dict.fromkeys(each.name for each in known))
    signs: dict[str, bool] = {}
    for entry in wanted:
        given = entry.lstrip("+-")
        name = given if given in names else VOLCANO_NAMES.get(given, given)
        if name != "*" and name not in names:
            raise ValueError(f'invalid controller "{given}": use * or {", ".join(names)}')
        sign = not entry.startswith("-")
        if signs.setdefault(name, sign) != sign:
            raise ValueError(f"controllers option {given} cannot have both '-' and '+' prefixes")
    return [each for each in known if signs.get(each.name, signs.get("*", False))]
