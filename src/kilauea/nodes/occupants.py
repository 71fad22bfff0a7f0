"""The pods that have the resources and ports of a node, or get them before a certain pod.

A node starts few pods, as it checks their number. But thousands can wait to be started, or be rejected: users who may
create pods can name a node in them. So a node does not look at pods that have ended, and of those that it has not
started, it keeps the requests and ports in the order of their turns.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, cast

from kilauea.api.kinds import PODS
from kilauea.api.ports import Aggregation, Key, Obj, View, key_of
from kilauea.nodes.devices import comes_first, turn_of
from kilauea.nodes.host_ports import HostPort, host_ports
from kilauea.nodes.lifecycle import active, started
from kilauea.nodes.requests import requests_of

NODE_NAME = "spec.nodeName"
"""Name of an index of all pods."""
STARTED, WAITING = "spec.nodeName, if started", "spec.nodeName, if not started"
"""Names of an index and of an aggregate of pods that have not ended."""
Turn = tuple[str, str, str]


class Occupant(NamedTuple):
    """A pod that has not started.

    Attributes:
        turn: its place among the pods of the node.
        requests: what it requests, from `requests_of`.
        limited: resources that its containers have limits for, such as cards.
        ports: its host ports.
    """

    turn: Turn
    requests: Mapping[str, int]
    limited: frozenset[str]
    ports: Sequence[HostPort]


def occupant_of(pod: Obj) -> Occupant:
    """Return what a pod occupies."""
    limits = ((each.get("resources") or {}).get("limits") or () for each in pod["spec"]["containers"])
    limited = frozenset(name for names in limits for name in names)
    return Occupant(turn_of(pod), requests_of(pod), limited, host_ports(pod))


class Waiting:
    """The pods of a node that have not started."""

    def __init__(self) -> None:
        self._pods: dict[Key, Occupant] = {}
        self._line: list[tuple[Turn, Key]] = []
        """All of them in the order of their turns."""

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, key: Key) -> Occupant | None:
        """Return one of them."""
        return self._pods.get(key)

    def put(self, key: Key, obj: Obj) -> None:
        """Add a pod, or update it."""
        self.drop(key)
        made = self._pods[key] = occupant_of(obj)
        insort(self._line, (made.turn, key))

    def drop(self, key: Key) -> None:
        """Remove a pod that has started, has ended, or was deleted."""
        known = self._pods.pop(key, None)
        if known is not None:
            del self._line[bisect_left(self._line, (known.turn, key))]

    def count_before(self, pod: Obj) -> int:
        """Return the number of pods that start before this one."""
        return bisect_left(self._line, (turn_of(pod),))

    def before(self, pod: Obj) -> Iterator[tuple[Key, Occupant]]:
        """Yield the pods that start before this one."""
        return ((key, self._pods[key]) for _, key in islice(self._line, self.count_before(pod)))


def _node_if(pod: Obj, *, is_started: bool) -> str:
    name = pod["spec"].get("nodeName")
    return str(name) if name and active(pod) and started(pod) == is_started else ""


INDEXES = {
    NODE_NAME: lambda pod: str(pod["spec"].get("nodeName") or ""),
    STARTED: lambda pod: _node_if(pod, is_started=True),
}
AGGREGATES = {WAITING: Aggregation(lambda pod: _node_if(pod, is_started=False), Waiting)}


class Occupants:
    """The requests of the pods that come before a pod on its node. Their number is known without a look at each.

    Args:
        view: has the index and the aggregate.
        pod: the pod, which has not started.
    """

    def __init__(self, view: View, pod: Obj) -> None:
        self._view, self._pod, self._node = view, pod, pod["spec"]["nodeName"]
        self._waiting = cast(Waiting | None, view.aggregate(PODS, WAITING, self._node))
        known = None if self._waiting is None else self._waiting.get(key_of(pod))
        self.own = occupant_of(pod) if known is None else known
        """The requests and ports of the pod itself."""

    def __len__(self) -> int:
        waiting = 0 if self._waiting is None else self._waiting.count_before(self._pod)
        return self._view.count_indexed(PODS, STARTED, self._node) + waiting

    def __iter__(self) -> Iterator[Mapping[str, int]]:
        yield from map(requests_of, self._started())
        yield from (other.requests for _, other in self._before())

    @property
    def ports(self) -> Iterator[HostPort]:
        """Their host ports."""
        yield from (port for each in self._started() for port in host_ports(each))
        yield from (port for _, other in self._before() for port in other.ports)

    def requesting(self, names: Sequence[str]) -> list[Obj]:
        """Return the pods that have started, and of the others those that request one of these resources."""
        waiting = (
            key for key, other in self._before() if any(n in other.requests or n in other.limited for n in names)
        )
        return [*self._started(), *(found for key in waiting if (found := self._view.get(PODS, key)) is not None)]

    def _started(self) -> Iterator[Obj]:
        return (each for each in self._view.indexed(PODS, STARTED, self._node) if comes_first(each, self._pod))

    def _before(self) -> Iterator[tuple[Key, Occupant]]:
        return iter(()) if self._waiting is None else self._waiting.before(self._pod)
