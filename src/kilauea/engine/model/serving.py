"""Extended resources that devices serve: offers of nodes through their devices, and claims of pods for them.

The amount that the devices of a node serve is written to the node's columns, as if the node offered it. So it counts
wherever resources of nodes count: in queues, sums of the cluster, scores and evictions.
"""

from __future__ import annotations

from kilauea.engine.model.claims.extended import IMPLICIT
from kilauea.engine.model.claims.table import ResourceClaimTable
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.tasks import Task


class ServedResources:
    """The tasks that request extended resources, and the classes that serve these.

    Args:
        table: classes, slices and claims.
        with_claims: tasks with resource claims, by key; kept up to date.
    """

    def __init__(self, table: ResourceClaimTable, with_claims: dict[str, Task]) -> None:
        self._table = table
        self._with_claims = with_claims
        self._tasks: dict[str, Task] = {}
        self._changed: dict[str, None] = {}
        """Tasks that were added or moved since their claims were last set."""
        self._served: tuple[tuple[str, str], ...] = ()
        """Extended resources, and the classes that serve them; implicit ones only if requested."""
        self._offered_by: tuple[object, ...] = ()

    def put(self, task: Task) -> None:
        """Record a task that was added or moved."""
        if task.spec.extended:
            self._tasks[task.key] = task
            self._changed[task.key] = None

    def drop(self, key: str) -> None:
        """Remove a task."""
        task = self._tasks.pop(key, None)
        if task is not None:
            self._changed.pop(key, None)
            self._table.release_extended(key, task.uid)

    def settle(self, nodes: NodeTable) -> None:
        """Update the resources that devices serve, and the claims of tasks for them."""
        table, names = self._table, self._table.served
        # These count even before a pod requests them, like resources that nodes offer: queues may deserve them.
        nodes.axis.admit(name for name in names if not name.startswith(IMPLICIT))
        served = tuple((name, names[name]) for name in sorted(names.keys() & nodes.axis.rows.keys()))
        if not (served or self._served or table.special or table.stale_pods):
            return
        if served != self._served:
            self._changed.update(dict.fromkeys(self._tasks))
            self._served = served
        self._offer(nodes)
        for key in [*self._changed, *table.stale_pods]:
            if key in self._tasks:
                self._claim(self._tasks[key])
        self._changed.clear()
        table.stale_pods.clear()

    def _offer(self, nodes: NodeTable) -> None:
        """Update the amounts that devices serve on each node."""
        table = self._table
        selectors = tuple(table.classes[of].selectors for _, of in self._served)
        offered_by = (table.inventory(nodes), nodes, nodes.changes, self._served, selectors)
        if offered_by != self._offered_by:
            nodes.offer_by_class(table.offers(nodes, self._served))
            self._offered_by = offered_by

    def _claim(self, task: Task) -> None:
        """Set or remove the claim of a task for its extended resources."""
        ref = self._table.claim_extended(task.key, task.uid, task.spec.extended, self._served, waits=not task.node)
        claims = (*(each for each in task.claims if not each.special), *([ref] if ref is not None else []))
        task.detail(task.details._replace(claims=claims))
        self._with_claims.pop(task.key, None)
        if task.claims:
            self._with_claims[task.key] = task
