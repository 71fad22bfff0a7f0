"""Volumes, the claims on them, and the related objects of a cluster: storage classes, drivers, attachments.

`Storage` stores these objects by key, as part of the cluster state. The predicates assign volumes to claims, in each
session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kilauea.api import storage, wellknown
from kilauea.api.errors import object_label
from kilauea.api.meta import Object
from kilauea.api.quantity import Scalar, parse_size
from kilauea.api.selectors import NodeTerm, Requirement, Selector, matches, node_terms_of, selector_of
from kilauea.engine.model.in_tree import csi_terms_of, in_tree_of
from kilauea.engine.model.resources import MOST_PODS, within
from kilauea.engine.model.task_specs import ClaimUse

FILESYSTEM = "Filesystem"
WAIT_FOR_CONSUMER = "WaitForFirstConsumer"
ONE_POD = "ReadWriteOncePod"
"""Access mode of a claim that only one pod can use at a time."""
FAILED_NODES = "kilauea.io/failed-nodes"
"""Annotation that the live scheduler adds to its view of a claim: nodes where it was not bound in time."""
AVAILABLE, BOUND, LOST = "Available", "Bound", "Lost"


class ClaimRef(NamedTuple):
    """The claim that a volume is bound to or reserved for; without a UID, any claim of that name."""

    key: str
    uid: str


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume."""

    name: str
    size: int
    """Bytes."""
    modes: frozenset[str]
    class_name: str
    mode: str
    """Filesystem or Block."""
    terms: tuple[NodeTerm, ...] | None
    """The nodes that reach it; None for all."""
    labels: dict[str, str]
    claim: ClaimRef | None
    phase: str
    deleting: bool
    driver: str
    """CSI driver, also for in-tree volumes; empty for other volumes."""
    handle: str
    """The driver's name for it."""
    plugin: str
    """The in-tree plugin that serves it; empty for other volumes."""
    csi_terms: tuple[NodeTerm, ...] | None
    """The nodes that reach it through its driver, where the plugin was migrated to it; None for all."""

    @property
    def free(self) -> bool:
        """True if any claim may get it."""
        return self.claim is None and self.phase == AVAILABLE and not self.deleting


@dataclass(frozen=True, slots=True)
class Wish:
    """Requirements of an unbound claim on a volume."""

    size: int
    modes: tuple[str, ...]
    mode: str
    selector: Selector | None
    """None for any."""

    def holds(self, volume: Volume) -> bool:
        """Return True if a volume satisfies the requirements, regardless of its reservation."""
        return volume.size >= self.size and volume.mode == self.mode and not volume.deleting

    def accepts(self, volume: Volume) -> bool:
        """Return True if a free volume of the right class is acceptable."""
        fits = self.holds(volume) and volume.modes.issuperset(self.modes)
        return fits and (self.selector is None or matches(self.selector, volume.labels))


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim."""

    key: str
    name: str
    uid: str
    class_name: str
    wish: Wish
    volume: str
    """Name of its volume, or of the volume that its owner requests."""
    bound: bool
    lost: bool
    deleting: bool
    selected_node: str
    """The node for which a volume is being provisioned."""
    failed_nodes: frozenset[str]
    """Nodes where it was not bound in time."""
    controller: str
    """UID of its controller."""

    def refers(self, ref: ClaimRef | None) -> bool:
        """Return True if this claim is the one that a volume refers to."""
        return ref is not None and ref.key == self.key and (not ref.uid or ref.uid == self.uid)


@dataclass(frozen=True, slots=True)
class StorageClass:
    """Provisioning of volumes, and the time at which claims are bound."""

    name: str
    provisioner: str
    delayed: bool
    """True if claims are bound only once a pod uses them."""
    topologies: tuple[NodeTerm, ...] | None
    """The nodes for which new volumes can be provisioned; None for all."""

    @property
    def provisions(self) -> bool:
        """True if volumes are provisioned on demand."""
        return self.provisioner not in ("", wellknown.NO_PROVISIONER)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Capacity for new volumes of a class on some nodes."""

    class_name: str
    largest: int
    """Maximum size of a new volume in bytes."""
    capacity: int | None
    """Bytes of all new volumes together; None if unknown."""
    nodes: Selector | None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A volume that is attached to a node."""

    volume: str
    node: str
    driver: str


class NodeDrivers(NamedTuple):
    """The drivers of a node."""

    limits: dict[str, int]
    """Maximum number of volumes, by driver with a limit."""
    migrated: frozenset[str]
    """In-tree plugins whose volumes a driver serves there."""


class Decision(NamedTuple):
    """The volume for an unbound claim: an existing one, or one that will be provisioned for a node."""

    volume: Volume | None
    row: int
    """Row of the node."""
    timeout: int
    """Seconds until the claim should be bound."""


class ClaimVolume(NamedTuple):
    """A volume claim of a pod that starts, and its volume."""

    claim: str
    """The claim, as `namespace/name`."""
    uid: str
    """Its UID."""
    volume: str
    """The volume to bind; empty if one is provisioned for the node of the pod."""
    class_name: str
    """Its storage class."""
    timeout: int
    """Seconds until it should be bound."""


# --- parsing of objects


def _size(q: Scalar | None) -> int:
    return 0 if q is None else parse_size(q)


def volume_of(obj: storage.PersistentVolume) -> Volume:
    """Read a volume; one without a phase is available, as in hand-written files.

    Raises:
        QuantityError: its size is invalid.
    """
    spec, ref = obj.spec, obj.spec.claim_ref
    affinity = spec.node_affinity
    terms = node_terms_of(affinity.required) if affinity and affinity.required else None
    in_tree = in_tree_of(spec, obj.labels) if spec.csi is None else None
    csi = spec.csi or in_tree
    return Volume(
        name=obj.name,
        size=_size((spec.capacity or {}).get("storage")),
        modes=frozenset(spec.access_modes or ()),
        class_name=obj.annotations.get(wellknown.BETA_STORAGE_CLASS, spec.storage_class_name or ""),
        mode=spec.volume_mode or FILESYSTEM,
        terms=terms,
        labels=obj.labels,
        claim=ClaimRef(f"{ref.namespace or 'default'}/{ref.name}", ref.uid or "") if ref else None,
        phase=(obj.status and obj.status.phase) or AVAILABLE,
        deleting=bool(obj.metadata.deletion_timestamp),
        driver=csi.driver if csi else "",
        handle=(spec.csi.volume_handle if spec.csi else in_tree.handle if in_tree else ""),
        plugin=in_tree.plugin if in_tree else "",
        csi_terms=csi_terms_of(in_tree.plugin, terms, obj.labels) if in_tree else terms,
    )


def claim_of(obj: storage.PersistentVolumeClaim) -> Claim:
    """Read a claim.

    It is bound if it names a volume and binding was completed, according to its annotation or phase.

    Raises:
        QuantityError: its size is invalid.
    """
    spec, annotations = obj.spec, obj.annotations
    asked = (spec.resources.requests if spec.resources else None) or {}
    phase = (obj.status and obj.status.phase) or ""
    owners = [o.uid for o in obj.metadata.owner_references or () if o.controller]
    return Claim(
        key=obj.key,
        name=obj.name,
        uid=obj.metadata.uid or "",
        class_name=annotations.get(wellknown.BETA_STORAGE_CLASS, spec.storage_class_name or ""),
        wish=Wish(
            size=_size(asked.get("storage")),
            modes=tuple(sorted(spec.access_modes or ())),
            mode=spec.volume_mode or FILESYSTEM,
            selector=selector_of(spec.selector),
        ),
        volume=spec.volume_name or "",
        bound=bool(spec.volume_name) and (wellknown.BIND_COMPLETED in annotations or phase == BOUND),
        lost=phase == LOST,
        deleting=bool(obj.metadata.deletion_timestamp),
        selected_node=annotations.get(wellknown.SELECTED_NODE, ""),
        failed_nodes=frozenset(filter(None, annotations.get(FAILED_NODES, "").split(","))),
        controller=owners[0] if owners else "",
    )


def class_of(obj: storage.StorageClass) -> StorageClass:
    """Read a storage class."""
    terms = tuple(
        NodeTerm(
            tuple(
                Requirement(r.key, "In", tuple(sorted(set(r.values or ())))) for r in term.match_label_expressions or ()
            ),
            (),
        )
        for term in obj.allowed_topologies or ()
    )
    delayed = obj.volume_binding_mode == WAIT_FOR_CONSUMER
    return StorageClass(obj.name, obj.provisioner, delayed, terms or None)


def node_drivers_of(obj: storage.CSINode) -> NodeDrivers:
    """Read the drivers of a node."""
    drivers = obj.spec.drivers or ()
    counts = {d.name: d.allocatable.count for d in drivers if d.allocatable}
    limits = {name: within(count, 0, MOST_PODS) for name, count in counts.items() if count is not None}
    migrated = obj.annotations.get(wellknown.MIGRATED_PLUGINS, "")
    return NodeDrivers(limits, frozenset(filter(None, migrated.split(","))))


def capacity_of(obj: storage.CSIStorageCapacity) -> Capacity:
    """Read a capacity; without a value it is zero."""
    largest = obj.capacity if obj.maximum_volume_size is None else obj.maximum_volume_size
    return Capacity(
        class_name=obj.storage_class_name,
        largest=-1 if largest is None else parse_size(largest),
        capacity=None if obj.capacity is None else parse_size(obj.capacity),
        nodes=selector_of(obj.node_topology),
    )


def attachment_of(obj: storage.VolumeAttachment) -> Attachment:
    """Read an attachment."""
    return Attachment(obj.spec.source.persistent_volume_name or "", obj.spec.node_name, obj.spec.attacher)


class Storage:
    """The latest objects, by key."""

    def __init__(self) -> None:
        self.volumes: dict[str, Volume] = {}
        self.claims: dict[str, Claim] = {}
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, NodeDrivers] = {}
        """By node."""
        self.tracking: dict[str, bool] = {}
        """By driver: True if it reports its capacity."""
        self.capacities: dict[str, Capacity] = {}
        self.attachments: dict[str, Attachment] = {}
        self.decided: dict[str, Decision] = {}
        """By unbound claim: the volume that the running sessions assign."""
        self._kinds: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
            "PersistentVolume": (self.volumes, volume_of),
            "PersistentVolumeClaim": (self.claims, claim_of),
            "StorageClass": (self.classes, class_of),
            "CSINode": (self.drivers, node_drivers_of),
            "CSIDriver": (self.tracking, lambda obj: bool(obj.spec.storage_capacity)),
            "CSIStorageCapacity": (self.capacities, capacity_of),
            "VolumeAttachment": (self.attachments, attachment_of),
        }

    @property
    def kinds(self) -> list[str]:
        """Kinds that are stored here."""
        return list(self._kinds)

    def keys(self, kind: str) -> list[str]:
        """Keys of the objects of a kind; empty for kinds that are not stored here."""
        return list(self._kinds[kind][0]) if kind in self._kinds else []

    def is_delayed(self, claim: Claim) -> bool:
        """Return True if the scheduler should bind a claim: it is unbound, and its class waits for a consumer."""
        of = self.classes.get(claim.class_name)
        return not claim.bound and not claim.volume and of is not None and of.delayed

    def decisions(self, uses: Iterable[ClaimUse]) -> tuple[ClaimVolume, ...]:
        """Return the volumes for the unbound claims of a pod that starts."""
        out = []
        for use in uses:
            claim, decision = self.claims.get(use.key), self.decided.get(use.key)
            if claim is not None and decision is not None:
                name = decision.volume.name if decision.volume else ""
                out.append(ClaimVolume(claim.key, claim.uid, name, claim.class_name, decision.timeout))
        return tuple(out)

    def put(self, obj: Object) -> None:
        """Store an object.

        Raises:
            QuantityError: a size is invalid.
        """
        table, read = self._kinds[obj.kind]
        table[object_label(obj)] = read(obj)

    def drop(self, kind: str, key: str) -> None:
        """Remove an object."""
        self._kinds[kind][0].pop(key, None)
