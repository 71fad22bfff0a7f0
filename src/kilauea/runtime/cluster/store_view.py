"""The objects of the embedded API server for its admission: the store, and queues with writes in progress.

Two queues that are created at the same time must not both take the last resources of their parent. The store does not
show a write until it ends, so this view shows the future versions of queues with writes in progress.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kilauea.admission.lookups import INTERESTS
from kilauea.api.kinds import QUEUES
from kilauea.api.ports import Key, Obj, Resource, says
from kilauea.api.remembered import remembered
from kilauea.apiserver.storage import Store, Stored

_REMEMBERED, _LARGEST = 2048, 8 * 1024
"""Number of decoded objects to cache, and their maximum size in bytes: queues, namespaces, recent jobs and groups."""


@remembered(_REMEMBERED, _LARGEST)
def _decoded(value: bytes) -> Obj:
    return msgspec.json.decode(value)  # type: ignore[no-any-return]


class StoreView:
    """Implements `kilauea.api.ports.View`; searches without a key go through all objects of the kind.

    Args:
        store: the server's store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._indexes = {
            (interest.resource, name): function for interest in INTERESTS for name, function in interest.indexes.items()
        }
        self._ahead: dict[str, list[QueueWrite]] = {}

    def ahead(self, name: str, queue: Obj | None) -> QueueWrite:
        """Show the future version of a queue (None if it is deleted) until its write has ended."""
        write = QueueWrite(self._ahead, name, queue)
        self._ahead.setdefault(name, []).append(write)
        return write

    def get(self, resource: Resource, key: Key) -> Obj | None:
        """One object."""
        if resource == QUEUES and key.name in self._ahead:
            return self._ahead[key.name][-1].queue
        stored = self._store.get(f"/{resource.group or 'core'}/{resource.plural}/{key}")
        return None if stored is None else _decoded(stored.value)

    def head(self, resource: Resource, key: Key) -> Obj | None:
        """One object, whole."""
        return self.get(resource, key)

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Obj]:
        """All objects of a kind, or those of a namespace, in the order of their keys."""
        prefix = f"/{resource.group or 'core'}/{resource.plural}/" + (f"{namespace}/" if namespace else "")
        found = [_decoded(stored.value) for stored in self._store.list(prefix).items]
        if resource != QUEUES or not self._ahead:
            return found
        queues: dict[str, Obj | None] = {queue["metadata"]["name"]: queue for queue in found}
        queues.update({name: writes[-1].queue for name, writes in self._ahead.items()})
        return [queue for name in sorted(queues) if (queue := queues[name]) is not None]

    def owned(self, resource: Resource, uid: str, namespace: str = "", most: int | None = None) -> Sequence[Obj]:
        """Objects of a kind that the object with this uid owns."""
        found = [obj for obj in self.list(resource, namespace) if any(each.get("uid") == uid for each in _owners(obj))]
        return found[:most]

    def labelled(self, resource: Resource, label: str, value: str) -> Sequence[Obj]:
        """Objects of a kind with a label."""
        return [obj for obj in self.list(resource) if (obj["metadata"].get("labels") or {}).get(label) == value]

    def indexed(self, resource: Resource, index: str, value: str) -> Sequence[Obj]:
        """Objects of a kind with this value in an index of the hooks' interests."""
        texts = self._indexes[resource, index]
        return [obj for obj in self.list(resource) if says(texts, obj, value)]

    def count_indexed(self, resource: Resource, index: str, value: str) -> int:
        """Return the number of these objects."""
        return len(self.indexed(resource, index, value))

    def aggregate(self, resource: Resource, name: str, value: str) -> None:
        """None: nothing is aggregated."""


def _owners(obj: Obj) -> Sequence[Obj]:
    return obj["metadata"].get("ownerReferences") or ()


class QueueWrite:
    """A write of a queue that is in flight; implements `kilauea.apiserver.admission.Effect`."""

    def __init__(self, ahead: dict[str, list[QueueWrite]], name: str, queue: Obj | None) -> None:
        self.queue = queue
        self._ahead = ahead
        self._name = name

    def cancel(self) -> None:
        """Show the queue as stored again."""
        writes = self._ahead[self._name]
        writes.remove(self)
        if not writes:
            del self._ahead[self._name]

    async def settle(self, stored: Stored) -> None:
        """Drop the overlay: the store shows the write."""
        self.cancel()
