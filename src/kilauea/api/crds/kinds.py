"""The Volcano kinds that have a definition: short names, subresources, and the columns of `kubectl get`."""

from __future__ import annotations

from dataclasses import dataclass

from kilauea.api import agents, batch, bus, flow, scheduling, topology
from kilauea.api.kinds import (
    COLOCATIONS,
    COMMANDS,
    HYPER_NODES,
    JOB_FLOWS,
    JOB_TEMPLATES,
    NODE_SHARDS,
    NUMA_TOPOLOGIES,
    POD_GROUPS,
    QUEUES,
    VC_CRON_JOBS,
    VC_JOBS,
)
from kilauea.api.meta import Object
from kilauea.api.ports import Resource


@dataclass(frozen=True)
class PrinterColumn:
    """A column of a table, filled from a path in the object; of priority 1 it is shown with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0


@dataclass(frozen=True)
class CustomKind:
    """The parts of a definition beside its schema.

    Attributes:
        type: wire type of the objects.
        resource: group, the one version, plural, kind and scope.
        short_names: names for `kubectl`.
        status: True if `status` is a subresource, so that other writes leave it alone.
        columns: columns beside the name.
    """

    type: type[Object]
    resource: Resource
    short_names: tuple[str, ...] = ()
    status: bool = True
    columns: tuple[PrinterColumn, ...] = ()

    @property
    def name(self) -> str:
        """Name of the definition."""
        return f"{self.resource.plural}.{self.resource.group}"


_CREATED = ".metadata.creationTimestamp"
_AGE = PrinterColumn("AGE", _CREATED, "date")
_RUNNING = PrinterColumn("RUNNINGS", ".status.running", "integer")
_QUEUE = PrinterColumn("QUEUE", ".spec.queue", priority=1)

KINDS: tuple[CustomKind, ...] = (
    CustomKind(
        batch.Job,
        VC_JOBS,
        ("vcjob", "vj"),
        columns=(
            PrinterColumn("STATUS", ".status.state.phase"),
            PrinterColumn("minAvailable", ".status.minAvailable", "integer"),
            _RUNNING,
            _AGE,
            _QUEUE,
        ),
    ),
    CustomKind(batch.CronJob, VC_CRON_JOBS, ("cronvcjob", "cronvj")),
    CustomKind(bus.Command, COMMANDS, status=False),
    CustomKind(agents.ColocationConfiguration, COLOCATIONS),
    CustomKind(
        flow.JobFlow,
        JOB_FLOWS,
        ("jf",),
        columns=(PrinterColumn("Status", ".status.state.phase"), PrinterColumn("Age", _CREATED, "date")),
    ),
    CustomKind(flow.JobTemplate, JOB_TEMPLATES, ("jt",)),
    CustomKind(
        agents.Numatopology,
        NUMA_TOPOLOGIES,
        ("numatopo",),
        status=False,
    ),
    # Schedulers write the status of a pod group by updating the whole object.
    CustomKind(
        scheduling.PodGroup,
        POD_GROUPS,
        ("pg", "podgroup-v1beta1"),
        status=False,
        columns=(
            PrinterColumn("STATUS", ".status.phase"),
            PrinterColumn("minMember", ".spec.minMember", "integer"),
            _RUNNING,
            _AGE,
            _QUEUE,
        ),
    ),
    CustomKind(
        scheduling.Queue,
        QUEUES,
        ("q", "queue-v1beta1"),
        columns=(PrinterColumn("PARENT", ".spec.parent"),),
    ),
    CustomKind(agents.NodeShard, NODE_SHARDS, ("nsh",), columns=(_AGE,)),
    CustomKind(
        topology.HyperNode,
        HYPER_NODES,
        ("hn",),
        columns=(
            PrinterColumn("Tier", ".spec.tier"),
            PrinterColumn("TierName", ".spec.tierName"),
            PrinterColumn("NodeCount", ".status.nodeCount", "integer"),
            PrinterColumn("Age", _CREATED, "date"),
        ),
    ),
)
"""By group, then by name."""
