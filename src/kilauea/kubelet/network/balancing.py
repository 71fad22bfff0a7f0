"""`Balancer`: the endpoint of a service for the next connection."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from kilauea.api.times import SECOND
from kilauea.kubelet.network.routes import Route

MOST_CLIENTS = 10_000
"""Maximum number of clients of a route to remember."""
Target = tuple[str, int]


class Balancer:
    """Selects endpoints in turn; with affinity, a client keeps its endpoint as long as that is ready.

    Attributes:
        route: the endpoints; may be replaced.
    """

    def __init__(self, route: Route) -> None:
        self.route = route
        self._turn = 0
        self._kept: OrderedDict[str, tuple[Target, int]] = OrderedDict()
        """The endpoint of a client, and the time of its last use; the oldest first."""

    def order(self, client: str, now: int) -> Sequence[Target]:
        """Return the endpoints in the order in which to try them.

        Args:
            client: address of the client.
            now: microseconds of a monotonic clock.
        """
        targets = self.route.targets
        self._turn += 1
        turn = self._turn % len(targets)
        order = [*targets[turn:], *targets[:turn]]
        kept, used = self._kept.get(client, (None, 0))
        if self.route.affinity and kept in targets and now - used < self.route.affinity * SECOND:
            order.sort(key=lambda target: target != kept)
        return order

    def used(self, client: str, target: Target, now: int) -> None:
        """Record that a client has reached an endpoint."""
        if self.route.affinity:
            self._kept[client] = target, now
            self._kept.move_to_end(client)
            if len(self._kept) > MOST_CLIENTS:
                self._kept.popitem(last=False)
