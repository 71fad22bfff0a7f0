"""Who owns whom: what the collector of garbage reads of objects, and the graph that it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec


class Owner(msgspec.Struct, rename="camel"):
    """One entry of ownerReferences."""

    uid: str = ""
    api_version: str = ""
    kind: str = ""
    name: str = ""
    block_owner_deletion: bool | None = None


class Metadata(msgspec.Struct, rename="camel"):
    """What the collector reads of every object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    owner_references: list[Owner] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class Owned(msgspec.Struct, rename="camel"):
    """An object as far as its owners are concerned."""

    metadata: Metadata
    api_version: str = ""
    kind: str = ""


read = msgspec.json.Decoder(Owned).decode
"""An object from its stored bytes."""


@dataclass(slots=True)
class Graph:
    """Who owns whom, by keys of the store and uids."""

    dependents: dict[str, dict[str, None]] = field(default_factory=dict)
    """Keys of the dependents of a uid."""
    owners: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Uids of the owners of a key."""

    def put(self, key: str, metadata: Metadata) -> None:
        """Take in an object as it is now."""
        self.forget(key)
        uids = tuple(each.uid for each in metadata.owner_references or ())
        if uids:
            self.owners[key] = uids
            for uid in uids:
                self.dependents.setdefault(uid, {})[key] = None

    def forget(self, key: str) -> None:
        """Take out an object."""
        for uid in self.owners.pop(key, ()):
            known = self.dependents.get(uid, {})
            known.pop(key, None)
            if not known:
                self.dependents.pop(uid, None)
