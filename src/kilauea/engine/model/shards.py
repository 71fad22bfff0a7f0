"""Nodes that schedulers divide among themselves, by their NodeShards.

`spec.nodesDesired` of the NodeShard with a scheduler's name are the nodes that it should work on, `status.nodesInUse`
those that it works on. A scheduler works on a node that it desires once no other shard has it in use.

The live scheduler (`claims`) also waits until the API server shows the node in its own status. All NodeShards come over
one watch, in order, so of two schedulers that took a node at the same time at least one sees both and leaves it alone.
If each sees the other's, the one whose name is first keeps it in use, and the other one gives it up.
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
"""Modes of sharding: pods go to any node; to no node outside the shard; or there only if none inside takes them."""
OUTSIDE = "node isn't in scheduler node shard"
"""The reason why a node outside is rejected, in Volcano's words."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """The part of the cluster that a scheduler works on.

    Attributes:
        mode: one of `MODES`.
        name: name of its NodeShard.
        claims: a node counts only once the NodeShard's own status has it in use.
    """

    mode: str = NONE
    name: str = "volcano"
    claims: bool = False


class Shard(NamedTuple):
    """A NodeShard: the nodes that its scheduler should work on, and those that it works on."""

    desired: frozenset[str]
    in_use: frozenset[str]


_EMPTY = Shard(frozenset(), frozenset())


class Shards:
    """The NodeShards of a cluster, as the scheduler of one of them sees them."""

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
        """Take in a NodeShard."""
        status = obj.status
        in_use = frozenset((status.nodes_in_use if status else None) or ())
        self._shards[obj.name] = Shard(frozenset(obj.spec.nodes_desired or ()), in_use)
        self._usable = None

    def drop(self, name: str) -> None:
        """Forget a NodeShard."""
        self._shards.pop(name, None)
        self._usable = None

    def usable(self) -> frozenset[str]:
        """Return the nodes to which the scheduler may bring pods of its own."""
        if self._usable is None:
            desired, in_use = self.own
            usable = desired & in_use if self.sharding.claims else desired
            self._usable = usable.difference(*(shard.in_use for shard in self._others().values()))
        return self._usable

    def wanted(self) -> frozenset[str]:
        """Return the nodes that the scheduler should have in use.

        A node that several schedulers have in use stays with the one whose name is first.
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
