"""Deletes the Numatopology of a deleted node, even if the agent that wrote it did not set an owner."""

from __future__ import annotations

from kilauea.api.kinds import NODES, NUMA_TOPOLOGIES
from kilauea.api.ports import Delete, Interest, Key, Obj, Outcome, View, no_keys
from kilauea.controllers.objects import NOTHING, is_going, own_key, uid_of


def _ends(old: Obj | None, new: Obj | None) -> bool:
    """Return True if a node was deleted."""
    return old is not None and (new is None or uid_of(old) != uid_of(new))


class NumatopologyController:
    """Deletes Numatopologies of deleted nodes."""

    name = "numatopology-controller"
    interests = (Interest(NODES, own_key, matters=_ends, fields=()), Interest(NUMA_TOPOLOGIES, no_keys))

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Delete the Numatopology of a deleted node; one without a node yet may be early, and stays."""
        topology = view.get(NUMA_TOPOLOGIES, key)
        if topology is None or is_going(topology) or view.get(NODES, key) is not None:
            return NOTHING
        return Outcome([Delete(NUMA_TOPOLOGIES, key, uid_of(topology))])
