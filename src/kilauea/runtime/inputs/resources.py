"""The kinds that the scheduler watches, and the identity of the object in an event."""

from __future__ import annotations

import msgspec

from kilauea.api.decode import KINDS
from kilauea.api.kinds import DYNAMIC, SCHEDULING
from kilauea.api.meta import Object

RESOURCES = {kind: SCHEDULING[kind] for kind in KINDS if kind != "ConfigMap"}
"""All kinds that scheduling reads as a whole, by kind. Of ConfigMaps it reads a single one."""
PODS, GROUPS_OF_PODS, QUEUES = RESOURCES["Pod"], RESOURCES["PodGroup"], RESOURCES["Queue"]
PRIORITY_KINDS = frozenset({"PriorityClass"})
STORAGE_KINDS = frozenset({"CSIDriver", "CSIStorageCapacity"})
UNWATCHED = frozenset({"NodeMetrics"})
"""Kinds that can be listed only; they are for plans."""
DYNAMIC_KINDS = frozenset(each.kind for each in DYNAMIC)
"""The kinds of dynamic resource allocation, which Kubernetes serves from version 1.34 on."""
OPTIONAL = DYNAMIC_KINDS | frozenset(
    "HyperNode ReplicationController CSIDriver CSINode CSIStorageCapacity VolumeAttachment Numatopology".split()
)
"""Kinds that a cluster may lack: small servers leave them out, and older releases of Volcano have no HyperNodes."""


class Identity(msgspec.Struct, rename="camel"):
    """Identity and version of the object of an event."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Head(msgspec.Struct):
    """The identity of an object, without the rest."""

    metadata: Identity = msgspec.field(default_factory=Identity)

    @property
    def key(self) -> str:
        """`namespace/name`, or the name."""
        metadata = self.metadata
        return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


head_of = msgspec.json.Decoder(Head).decode
DECODERS: dict[str, msgspec.json.Decoder[Object]] = {kind: msgspec.json.Decoder(type_) for kind, type_ in KINDS.items()}


def reference(kind: str, key: str, uid: str = "", namespace: str = "") -> dict[str, object]:
    """A reference to an object, for events."""
    resource = RESOURCES[kind]
    metadata = {"name": key.rpartition("/")[2], "uid": uid}
    if resource.namespaced:
        metadata["namespace"] = namespace or key.partition("/")[0]
    return {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata}
