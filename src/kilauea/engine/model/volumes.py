"""Volumes, the claims on them, and the related objects of a cluster: storage classes, drivers, attachments.

`Storage` remembers these objects by key, as part of the cluster state. It says what is; which volume a claim gets is
decided by the predicates, session by session.
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
"""Access mode of a claim that one pod at a time may use."""
FAILED_NODES = "kilauea.io/failed-nodes"
"""Annotation that the live scheduler assumes on a claim: nodes where it was not bound in time."""
AVAILABLE, BOUND, LOST = "Available", "Bound", "Lost"


class ClaimRef(NamedTuple):
    """The claim that a volume is bound to or kept for; without a uid any claim of that name."""

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
    """CSI driver, also that of a volume of a kind of Kubernetes itself; empty for other sorts of volumes."""
    handle: str
    """The driver's name for it."""
    plugin: str
    """The in-tree plugin of Kubernetes that serves it; empty for others."""
    csi_terms: tuple[NodeTerm, ...] | None
    """The nodes that reach it by its driver, where the plugin was migrated to it; None for all."""

    @property
    def free(self) -> bool:
        """True if any claim may have it."""
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
        """Return True if a volume can hold what is to be stored, whichever claim it is reserved for."""
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
    """Name of the volume that it has, or that its owner wants it to have."""
    bound: bool
    lost: bool
    deleting: bool
    selected_node: str
    """The node that a volume is being made for."""
    failed_nodes: frozenset[str]
    """Nodes where it was not bound in time."""
    controller: str
    """UID of the object that it belongs to."""

    def refers(self, ref: ClaimRef | None) -> bool:
        """Return True if the claim of a volume is this one."""
        return ref is not None and ref.key == self.key and (not ref.uid or ref.uid == self.uid)


@dataclass(frozen=True, slots=True)
class StorageClass:
    """Provisioning of volumes, and when claims are bound."""

    name: str
    provisioner: str
    delayed: bool
    """Claims are bound only once a pod uses them."""
    topologies: tuple[NodeTerm, ...] | None
    """The nodes that new volumes can be made for; None for all."""

    @property
    def provisions(self) -> bool:
        """True if volumes are made on demand."""
        return self.provisioner not in ("", wellknown.NO_PROVISIONER)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Room for new volumes of a class on some nodes."""

    class_name: str
    largest: int
    """Bytes of the largest volume that can be made."""
    capacity: int | None
    """Bytes of all volumes together; None if that is not known."""
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
    """The number of volumes that it takes, by driver with a limit."""
    migrated: frozenset[str]
    """Plugins of Kubernetes itself whose volumes a driver serves there."""


class Decision(NamedTuple):
    """The volume of a claim without one: a volume that exists, or one that will be made for a node."""

    volume: Volume | None
    row: int
    """The row of that node."""
    timeout: int
    """Seconds in which the claim should be bound."""


class ClaimVolume(NamedTuple):
    """A volume claim of a pod that starts, and what it gets."""

    claim: str
    """The claim, as `namespace/name`."""
    uid: str
    """Its UID."""
    volume: str
    """The volume that it is bound to; empty if one is made for the node of the pod."""
    class_name: str
    """Its storage class."""
    timeout: int
    """Seconds in which it should be bound."""


# --- from objects


def _size(q: Scalar | None) -> int:
    return 0 if q is None else parse_size(q)


def volume_of(obj: storage.PersistentVolume) -> Volume:
    """Read a volume; one that says nothing about its phase is available, as in a file written by hand.

    Raises:
        QuantityError: its size cannot be read.
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

    It is bound once it names a volume and binding was completed, by annotation or by phase.

    Raises:
        QuantityError: its size cannot be read.
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
    """Read how much room there is; no capacity means none."""
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
    """The objects seen last, by key."""

    def __init__(self) -> None:
        self.volumes: dict[str, Volume] = {}
        self.claims: dict[str, Claim] = {}
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, NodeDrivers] = {}
        """By node."""
        self.tracking: dict[str, bool] = {}
        """By driver: whether it tells how much room is left."""
        self.capacities: dict[str, Capacity] = {}
        self.attachments: dict[str, Attachment] = {}
        self.decided: dict[str, Decision] = {}
        """By claim without a volume: what the running sessions give it."""
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
        """Kinds that are remembered here."""
        return list(self._kinds)

    def keys(self, kind: str) -> list[str]:
        """Keys of the objects of a kind; none for kinds that are not remembered here."""
        return list(self._kinds[kind][0]) if kind in self._kinds else []

    def is_delayed(self, claim: Claim) -> bool:
        """Return True if the scheduler is to bind a claim: it has no volume yet, and its class waits for a consumer."""
        of = self.classes.get(claim.class_name)
        return not claim.bound and not claim.volume and of is not None and of.delayed

    def decisions(self, uses: Iterable[ClaimUse]) -> tuple[ClaimVolume, ...]:
        """Return the volumes of the claims of a pod that starts, as far as they have none yet."""
        out = []
        for use in uses:
            claim, decision = self.claims.get(use.key), self.decided.get(use.key)
            if claim is not None and decision is not None:
                name = decision.volume.name if decision.volume else ""
                out.append(ClaimVolume(claim.key, claim.uid, name, claim.class_name, decision.timeout))
        return tuple(out)

    def put(self, obj: Object) -> None:
        """Remember an object.

        Raises:
            QuantityError: a size cannot be read.
        """
        table, read = self._kinds[obj.kind]
        table[object_label(obj)] = read(obj)

    def drop(self, kind: str, key: str) -> None:
        """Forget an object."""
        self._kinds[kind][0].pop(key, None)
