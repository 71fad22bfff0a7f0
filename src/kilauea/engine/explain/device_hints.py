"""The devices that a pod asks for, with how many match, and why those that match cannot be had.

Devices are counted as the plan leaves them: those that claims have, and those that it gives to the pods that start.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kilauea.api.cel import CelError
from kilauea.engine.model.claims.facts import Ask, Grant, grants_of
from kilauea.engine.model.claims.inventory import Inventory, Mask
from kilauea.engine.model.claims.table import ClaimRef, ResourceClaimTable
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Bind

NO_ROOM = "without enough capacity left"
"""Of devices that several claims share, and of partitions: their counters are used up."""


class Holding:
    """Devices that claims have, and the rest of counters beside them.

    Args:
        inventory: the devices.
        grants: the devices of each claim.
    """

    def __init__(self, inventory: Inventory, grants: Iterable[Iterable[Grant]]) -> None:
        self.inventory = inventory
        self.used: Mask = np.zeros(len(inventory), dtype=bool)
        self.left: NDArray[np.int64] = inventory.counters.copy()
        for each in grants:
            use = inventory.use_of(each)
            first = [row for row in dict.fromkeys(use.rows) if not self.used[row]]
            self.used[first] = True
            for counter, amount in (*use.amounts, *(each for row in first for each in inventory.consumes[row])):
                self.left[counter] -= amount

    def state_of(self, row: int, way: Ask) -> str:
        """The reason why a request cannot have a device of its selectors; `free` if it can."""
        several = bool(self.inventory.multiple[row])
        if self.used[row] and not several and not way.admin:
            return "in use"
        taken = list(self.inventory.share(way.capacity, row) or ()) if several else []
        taken += () if self.used[row] else self.inventory.consumes[row]
        return NO_ROOM if not way.admin and any(self.left[counter] < amount for counter, amount in taken) else "free"


def claimed_devices(
    table: ResourceClaimTable, nodes: NodeTable, task: Task, binds: Iterable[Bind] = (), *, special: bool | None = None
) -> list[str]:
    """The devices that the claims of a pod ask for, with how many match and what is the matter with them.

    Args:
        table: claims and classes.
        nodes: the nodes.
        task: the pod.
        binds: pods that start, and the devices that their claims get.
        special: only the claim for its extended resources.
    """
    known = {key: claim.grants for key, claim in table.claims.items() if claim.allocated}
    known |= {c.claim: grants_of(c.allocation) for bind in binds for c in bind.claims if c.allocation is not None}
    holding = Holding(table.inventory(nodes), known.values())
    hints: list[str] = []
    for ref in task.claims:
        claim = table.claims.get(ref.key)
        if claim is None or claim.allocated or (special and not ref.special):
            continue
        for number, request in enumerate(claim.demand.requests):
            counts = [_devices_of(table, holding, way) for way in request.ways]
            text = " or ".join(filter(None, counts))
            hints.append(f"{_asking(table, ref, number, request.name)} {text}")
        for each in claim.demand.constraints:
            which = f"requests {', '.join(each.requests)}" if each.requests else "the devices"
            how = "differ" if each.distinct else "agree"
            hints.append(f"{which} of claim {ref.name} must {how} in {each.attribute}")
    return hints


def _asking(table: ResourceClaimTable, ref: ClaimRef, number: int, name: str) -> str:
    """The part of a pod that asks for devices."""
    content = table.contents.get(ref.key) if ref.special else None
    if content is not None and number < len(content.resources):
        return f"{content.resources[number]} needs"
    return f"request {name} of claim {ref.name} asks for"


def _devices_of(table: ResourceClaimTable, holding: Holding, way: Ask) -> str:
    """One way to satisfy a request, as text; empty if it cannot be judged."""
    of, inventory = table.classes.get(way.class_name), holding.inventory
    if of is None or way.problem:
        return ""
    try:
        selected = inventory.matching(way._replace(admin=True, capacity=()), of)
        untainted = inventory.matching(way._replace(capacity=()), of)
        mask = inventory.matching(way, of)
    except CelError:
        return ""
    states = {int(row): holding.state_of(int(row), way) for row in np.flatnonzero(mask)}
    free = np.zeros(len(inventory), dtype=bool)
    free[[row for row, state in states.items() if state == "free"]] = True
    counts = {state: sum(1 for each in states.values() if each == state) for state in ("in use", NO_ROOM)} | {
        "without enough capacity": int(np.count_nonzero(untainted & ~mask)),
        "with a taint that the request does not tolerate": int(np.count_nonzero(selected & ~untainted)),
        "free": int(np.count_nonzero(free)),
    }
    number = "all devices" if way.all else f"{way.number} device{'s' * (way.number > 1)}"
    most = int(inventory.count(free).max(initial=0))
    spread = f"; at most {most} {_are(most)} free for one node" if counts["free"] >= way.number > most > 0 else ""
    return f"{number} of class {way.class_name} ({_in_words(counts)}{'' if way.all else spread})"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _in_words(counts: dict[str, int]) -> str:
    """The number of devices that match, by their state."""
    total, found = sum(counts.values()), [(number, state) for state, number in counts.items() if number]
    if not found:
        return "no device matches"
    if total == 1:
        return f"1 device matches, {found[0][1]}"
    if len(found) == 1:
        return f"{total} devices match, {'both' if total == 2 else 'all'} {found[0][1]}"
    return f"{total} devices match: {', '.join(f'{number} {state}' for number, state in found)}"
