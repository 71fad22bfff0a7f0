"""Queues with the counts of their PodGroups: rows of tables, and data for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kilauea.api.kinds import POD_GROUPS, QUEUES
from kilauea.api.ports import ApiError, Key, Obj
from kilauea.api.wellknown import DEFAULT_QUEUE, ROOT_QUEUE, is_paused
from kilauea.cli.vcctl.cluster import objects
from kilauea.cli.vcctl.command import CommandError
from kilauea.cli.vcctl.tables import Column, fitting, part

if TYPE_CHECKING:
    from kilauea.api.ports import Api

PHASES = ("Inqueue", "Pending", "Running", "Unknown", "Completed")
FIRST = (Column("Name", 25), Column("Weight", 8), Column("State", 8))
COUNTS = tuple(Column(phase, 8) for phase in PHASES)
COLUMNS = (*FIRST, Column("Parent", 8), *COUNTS)
RESOURCES = ("guarantee", "deserved", "capability", "allocated")
WIDE = (*COLUMNS, fitting("", 1, 1), fitting("Priority"), *(fitting(name.capitalize()) for name in RESOURCES))
SHORT = (*FIRST, *COUNTS[:4])
"""The columns of `vqueues`."""

Counts = Mapping[str, int]
"""PodGroups by phase."""


class Entry(NamedTuple):
    """A queue and the PodGroups in it."""

    queue: Obj
    counts: Counts

    @property
    def name(self) -> str:
        """The name."""
        return str(self.queue["metadata"]["name"])

    @property
    def parent(self) -> str:
        """The parent; empty for root."""
        return "" if self.name == ROOT_QUEUE else str(part(self.queue, "spec", "parent") or ROOT_QUEUE)

    @property
    def state(self) -> str:
        """The state; empty before the controller has set it."""
        return str(part(self.queue, "status", "state") or "")

    @property
    def paused(self) -> bool:
        """True if it is paused itself, and with it the queues below it."""
        return is_paused(self.queue["metadata"].get("annotations"))

    def shown_state(self, *, below_paused: bool = False) -> str:
        """The state in tables: `Paused` for an open queue that is paused, or below a paused one as far as is known."""
        return "Paused" if self.state == "Open" and (below_paused or self.paused) else self.state


async def read_queues(api: Api, named: str = "") -> list[Entry]:
    """All queues, or the named one, by name."""
    queues = [await api.get(QUEUES, Key("", named))] if named else await objects(api, QUEUES)
    try:
        groups = (await objects(api, POD_GROUPS)) if queues else []
    except ApiError as error:
        which = f"podgroup for queue {named}" if named else "podgroups"
        raise CommandError(f"failed to list {which} with err: {error}") from error
    counts: dict[str, Counter[str]] = {}
    for group in groups:
        phase = part(group, "status", "phase") or "Pending"
        counts.setdefault(part(group, "spec", "queue") or DEFAULT_QUEUE, Counter())[phase] += 1
    return [Entry(queue, counts.get(queue["metadata"]["name"], {})) for queue in queues]


def queue_row(entry: Entry, form: Sequence[Column] = COLUMNS) -> list[str]:
    """The cells of a queue."""
    spec = entry.queue.get("spec") or {}
    cells = {
        "Name": entry.name,
        "Weight": str(spec.get("weight", 0)),
        "State": entry.shown_state(),
        "Parent": str(spec.get("parent") or ""),
        "Priority": str(spec.get("priority") or 0),
        **{phase: str(entry.counts.get(phase, 0)) for phase in PHASES},
        **{name.capitalize(): amounts_text(amounts) for name, amounts in resources_of(entry.queue).items()},
    }
    return [cells.get(column.title, "") for column in form]


def resources_of(queue: Obj) -> dict[str, Mapping[str, str]]:
    """Guarantee, deserved share, capability and allocation of a queue."""
    return {
        "guarantee": part(queue, "spec", "guarantee", "resource") or {},
        "deserved": part(queue, "spec", "deserved") or {},
        "capability": part(queue, "spec", "capability") or {},
        "allocated": part(queue, "status", "allocated") or {},
    }


def amounts_text(amounts: Mapping[str, Any]) -> str:
    """Amounts in the syntax of options, cpu and memory first."""
    order = sorted(amounts, key=lambda name: (name != "cpu", name != "memory", name))
    return ",".join(f"{name}={amounts[name]}" for name in order) or "-"


def queue_data(entry: Entry) -> dict[str, Any]:
    """A queue as plain data."""
    spec = entry.queue.get("spec") or {}
    return {
        "name": entry.name,
        "state": entry.state,
        "paused": entry.paused,
        "weight": spec.get("weight", 0),
        "priority": spec.get("priority") or 0,
        "parent": entry.parent,
        "counts": {phase.lower(): entry.counts.get(phase, 0) for phase in PHASES},
        "resources": {name: dict(amounts) for name, amounts in resources_of(entry.queue).items()},
    }
