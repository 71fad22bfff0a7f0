"""The fault of a queue, and the queue plugin whose rules it breaks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kilauea.engine.conf import QUEUE_PLUGINS, Finding, SchedulerConf
from kilauea.engine.model.resources import ALWAYS, Amounts
from kilauea.engine.plan import Condition

DETACHED = "Detached"
"""Type of condition: the queue has no way to the root, or its parent is not looked at."""
HOLDS_JOBS = "HoldsJobs"
"""Type of condition: there are jobs in a queue with children."""
OVER_PROMISED = "OverPromised"
"""Type of condition: its children are promised more than there is."""
OUT_OF_REACH = "OutOfReach"
"""Type of condition: it names an amount that it can never have."""
NOT_OPEN = "NotOpen"
"""Type of condition: it takes no work, and has some."""
UNREADABLE = "Unreadable"
"""Type of condition: an annotation cannot be read."""

IGNORED = "WishIgnored"
"""Type of condition, of groups too: it requests something that only a plugin serves that is not configured."""
IGNORED_REASON = "PluginNotConfigured"

MOST_FINDINGS = 20
"""Findings of one cycle for one reason; the others are counted. Conditions are given to all queues."""


class QueueFault(NamedTuple):
    """Something wrong with a queue, or with one that does not exist.

    Attributes:
        queue: its name.
        type: of the condition, one of those above.
        reason: what it is, for programs.
        message: what it is, with numbers.
        error: jobs wait because of a mistake; a closed queue is not a mistake.
    """

    queue: str
    type: str
    reason: str
    message: str
    error: bool = False


def conditions(faults: Iterable[QueueFault]) -> dict[str, tuple[Condition, ...]]:
    """Conditions by queue; faults of the same type share one, with the first one's reason."""
    found: dict[str, dict[str, Condition]] = {}
    for queue, type_, reason, message, _ in faults:
        of_queue = found.setdefault(queue, {})
        known = of_queue.get(type_)
        whole = Condition(type_, reason, message)
        of_queue[type_] = whole if known is None else Condition(type_, known.reason, f"{known.message}; {message}")
    return {queue: tuple(of_queue.values()) for queue, of_queue in found.items()}


def findings(faults: Iterable[QueueFault]) -> list[Finding]:
    """The faults as findings; of each reason so many, and then how many more there are."""
    found: list[Finding] = []
    counts: dict[str, int] = {}
    for queue, _, reason, message, error in faults:
        counts[reason] = counts.get(reason, 0) + 1
        if counts[reason] <= MOST_FINDINGS:
            found.append(Finding(f"queue {queue}", message, error=error, code=reason))
    for reason, count in counts.items():
        if count > MOST_FINDINGS:
            found.append(Finding("queues", f"{count - MOST_FINDINGS} more with {reason}", code=reason))
    return found


@dataclass(frozen=True)
class Rules:
    """The fields that the queue plugin of a configuration reads.

    Attributes:
        plugin: its name; empty without one.
        tree: parents bind their children.
    """

    plugin: str
    tree: bool

    @property
    def deserves(self) -> bool:
        """True if a queue deserves what its object says."""
        return self.plugin in ("capacity", "capacity-card")

    @property
    def cards(self) -> bool:
        """Queues have quotas of cards, and of other resources only cpu and memory count."""
        return self.plugin == "capacity-card"

    def counted(self, amounts: Amounts | None) -> Amounts:
        """Of the amounts, those that are looked at."""
        return {name: amount for name, amount in (amounts or {}).items() if not self.cards or name in ALWAYS}


def rules_of(conf: SchedulerConf) -> Rules:
    """The rules of the first queue plugin in the tiers."""
    for entry in (entry for tier in conf.tiers for entry in tier):
        if entry.name in QUEUE_PLUGINS:
            return Rules(entry.name, entry.name == "capacity" and entry.is_enabled("hierarchy"))
    return Rules("", tree=False)


def plural(count: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{count} {noun}{'s' * (count != 1)}"
