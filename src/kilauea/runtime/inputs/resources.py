"""The kinds that the scheduler watches, and the identity of the object in an event."""

from __future__ import annotations

import msgspec

from kilauea.api.decode import KINDS
from kilauea.api.kinds import DYNAMIC, KUBERNETES_GROUP, KUBERNETES_POD_GROUPS, SCHEDULING, TAINT_RULES
from kilauea.api.kubernetes_groups import VERSIONS
from kilauea.api.meta import Object
from kilauea.api.ports import Resource

RESOURCES = {kind: SCHEDULING[kind] for kind in KINDS if kind != "ConfigMap"}
"""All kinds that scheduling reads entirely, by kind. Of ConfigMaps, it reads a single one."""
PODS, GROUPS_OF_PODS, QUEUES = RESOURCES["Pod"], RESOURCES["PodGroup"], RESOURCES["Queue"]
PRIORITY_KINDS = frozenset({"PriorityClass"})
SHARD_KINDS = frozenset({"NodeShard"})
STORAGE_KINDS = frozenset({"CSIDriver", "CSIStorageCapacity"})
UNWATCHED = frozenset({"NodeMetrics"})
"""Kinds that can only be listed; they are for plans."""
DYNAMIC_KINDS = frozenset(each.kind for each in DYNAMIC)
"""The kinds of dynamic resource allocation."""
DYNAMIC_VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Their versions, available from Kubernetes 1.34, 1.33 and 1.32 on; the fields that scheduling writes are equal."""
TAINT_RULE_VERSIONS = ("v1beta2", "v1alpha3")
"""Versions of DeviceTaintRules."""
OPTIONAL = (
    DYNAMIC_KINDS
    | frozenset((TAINT_RULES.kind, KUBERNETES_GROUP))
    | frozenset(
        "HyperNode ReplicationController CSIDriver CSINode CSIStorageCapacity VolumeAttachment Numatopology "
        "NodeShard".split()
    )
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


def versions_of(resource: Resource) -> tuple[Resource, ...]:
    """A kind in the versions in which a cluster may serve it, the newest first."""
    if resource == KUBERNETES_POD_GROUPS:
        return tuple(resource._replace(version=version) for version in VERSIONS)
    versions = TAINT_RULE_VERSIONS if resource.kind == TAINT_RULES.kind else DYNAMIC_VERSIONS
    if resource.kind not in DYNAMIC_KINDS and resource.kind != TAINT_RULES.kind:
        return (resource,)
    return tuple(resource._replace(version=version) for version in versions)


def reference(kind: str, key: str, uid: str = "", namespace: str = "") -> dict[str, object]:
    """A reference to an object, for events."""
    resource = RESOURCES[kind]
    metadata = {"name": key.rpartition("/")[2], "uid": uid}
    if resource.namespaced:
        metadata["namespace"] = namespace or key.partition("/")[0]
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
