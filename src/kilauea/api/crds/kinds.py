"""The Volcano kinds that have a definition: names, scope, subresources, and the columns of `kubectl get`."""

from __future__ import annotations

from dataclasses import dataclass

from kilauea.api import agents, batch, bus, flow, scheduling, topology
from kilauea.api.meta import Object


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
        type: wire type of the objects; its name is the kind.
        api_version: group and version.
        plural: name in paths.
        short_names: names for `kubectl`.
        namespaced: whether objects are in a namespace.
        status: whether `status` is a subresource, so that other writes leave it alone.
        columns: columns beside the name.
    """

    type: type[Object]
    api_version: str
    plural: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    status: bool = True
    columns: tuple[PrinterColumn, ...] = ()

    @property
    def group(self) -> str:
        """The API group."""
        return self.api_version.partition("/")[0]

    @property
    def version(self) -> str:
        """The one version."""
        return self.api_version.partition("/")[2]

    @property
    def kind(self) -> str:
        """Kind of the objects."""
        return self.type.__name__

    @property
    def name(self) -> str:
        """Name of the definition."""
        return f"{self.plural}.{self.group}"


_CREATED = ".metadata.creationTimestamp"
_AGE = PrinterColumn("AGE", _CREATED, "date")
_RUNNING = PrinterColumn("RUNNINGS", ".status.running", "integer")
_QUEUE = PrinterColumn("QUEUE", ".spec.queue", priority=1)

KINDS: tuple[CustomKind, ...] = (
    CustomKind(
        batch.Job,
        "batch.volcano.sh/v1alpha1",
        "jobs",
        ("vcjob", "vj"),
        columns=(
            PrinterColumn("STATUS", ".status.state.phase"),
            PrinterColumn("minAvailable", ".status.minAvailable", "integer"),
            _RUNNING,
            _AGE,
            _QUEUE,
        ),
    ),
    CustomKind(batch.CronJob, "batch.volcano.sh/v1alpha1", "cronjobs", ("cronvcjob", "cronvj")),
    CustomKind(bus.Command, "bus.volcano.sh/v1alpha1", "commands", status=False),
    CustomKind(agents.ColocationConfiguration, "config.volcano.sh/v1alpha1", "colocationconfigurations"),
    CustomKind(
        flow.JobFlow,
        "flow.volcano.sh/v1alpha1",
        "jobflows",
        ("jf",),
        columns=(PrinterColumn("Status", ".status.state.phase"), PrinterColumn("Age", _CREATED, "date")),
    ),
    CustomKind(flow.JobTemplate, "flow.volcano.sh/v1alpha1", "jobtemplates", ("jt",)),
    CustomKind(
        agents.Numatopology,
        "nodeinfo.volcano.sh/v1alpha1",
        "numatopologies",
        ("numatopo",),
        namespaced=False,
        status=False,
    ),
    # Schedulers write the status of a pod group by updating the whole object.
    CustomKind(
        scheduling.PodGroup,
        "scheduling.volcano.sh/v1beta1",
        "podgroups",
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
        "scheduling.volcano.sh/v1beta1",
        "queues",
        ("q", "queue-v1beta1"),
        namespaced=False,
        columns=(PrinterColumn("PARENT", ".spec.parent"),),
    ),
    CustomKind(
        agents.NodeShard, "shard.volcano.sh/v1alpha1", "nodeshards", ("nsh",), namespaced=False, columns=(_AGE,)
    ),
    CustomKind(
        topology.HyperNode,
        "topology.volcano.sh/v1alpha1",
        "hypernodes",
        ("hn",),
        namespaced=False,
        columns=(
            PrinterColumn("Tier", ".spec.tier"),
            PrinterColumn("TierName", ".spec.tierName"),
            PrinterColumn("NodeCount", ".status.nodeCount", "integer"),
            PrinterColumn("Age", _CREATED, "date"),
        ),
    ),
)
"""By group, then by name."""
