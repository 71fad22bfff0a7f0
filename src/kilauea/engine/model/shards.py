"""Nodes divided among schedulers, by their NodeShards.

`spec.nodesDesired` of the NodeShard with a scheduler's name lists the nodes that it should use, `status.nodesInUse`
those that it uses. A scheduler uses a desired node once no other shard has it in use.

The live scheduler (`claims`) also waits until the API server shows the node in its own status. All NodeShards arrive
over one watch, in order, so if two schedulers take a node at the same time, at least one sees both and leaves the node
alone. If each sees the other's, the scheduler whose name is first keeps the node, and the other one releases it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.agents import NodeShard
from kilauea.engine.model.nodes import NodeTable

NONE, SOFT, HARD = "none", "soft", "hard"
MODES = (NONE, HARD, SOFT)
"""Modes of sharding: pods run on any node; on no node outside the shard; or outside only if no node inside fits."""
OUTSIDE = "node isn't in scheduler node shard"
"""The reason why a node outside is rejected, in Volcano's words."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """The part of the cluster that a scheduler uses.

    Attributes:
        mode: one of `MODES`.
        name: name of its NodeShard.
        claims: a node counts only once it is in use in the status of the NodeShard.
    """

    mode: str = NONE
    name: str = "volcano"
    claims: bool = False


class Shard(NamedTuple):
    """A NodeShard: the nodes that its scheduler should use, and those that it uses."""

    desired: frozenset[str]
    in_use: frozenset[str]


_EMPTY = Shard(frozenset(), frozenset())


class Shards:
    """The NodeShards of a cluster, from the point of view of one scheduler."""

    def __init__(self, sharding: Sharding) -> None:
        self.sharding = sharding
        self._shards: dict[str, Shard] = {}
        self._usable: frozenset[str] | None = None
        self._mask: tuple[NodeTable, frozenset[str], NDArray[np.bool_]] | None = None

    @property
    def names(self) -> Iterable[str]:
        """Names of all NodeShards."""
        return self._shards.keys()

    @property
    def active(self) -> bool:
        """True if sharding has an effect."""
        return self.sharding.mode != NONE

    @property
    def known(self) -> bool:
        """True if the scheduler has a NodeShard."""
        return self.sharding.name in self._shards

    @property
    def own(self) -> Shard:
        """The scheduler's own shard, empty if it does not exist."""
        return self._shards.get(self.sharding.name, _EMPTY)

    def put(self, obj: NodeShard) -> None:
        """Add or replace a NodeShard."""
        status = obj.status
        in_use = frozenset((status.nodes_in_use if status else None) or ())
        self._shards[obj.name] = Shard(frozenset(obj.spec.nodes_desired or ()), in_use)
        self._usable = None

    def drop(self, name: str) -> None:
        """Remove a NodeShard."""
        self._shards.pop(name, None)
        self._usable = None

    def usable(self) -> frozenset[str]:
        """Return the nodes on which the scheduler may place pods."""
        if self._usable is None:
            desired, in_use = self.own
            usable = desired & in_use if self.sharding.claims else desired
            self._usable = usable.difference(*(shard.in_use for shard in self._others().values()))
        return self._usable

    def wanted(self) -> frozenset[str]:
        """Return the nodes that the scheduler should have in use.

        A node in use by several schedulers stays with the one whose name is first.
        """
        desired, in_use = self.own
        others = self._others()
        taken = frozenset[str]().union(*(shard.in_use for shard in others.values()))
        before = [shard.in_use for name, shard in others.items() if name < self.sharding.name]
        kept = (desired & in_use).difference(*before)
        return (desired - taken) | kept

    def _others(self) -> dict[str, Shard]:
        return {name: shard for name, shard in self._shards.items() if name != self.sharding.name}

    def mask(self, nodes: NodeTable) -> NDArray[np.bool_]:
        """(N,) True for nodes that the scheduler may use."""
        usable = self.usable()
        if self._mask is None or self._mask[0] is not nodes or self._mask[1] is not usable:
            mask = np.zeros(len(nodes), dtype=bool)
            mask[[nodes.row_of[name] for name in usable if name in nodes.row_of]] = True
            self._mask = (nodes, usable, mask)
        return self._mask[2]
