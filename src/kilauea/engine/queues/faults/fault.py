"""The fault of a queue, and the queue plugin whose rules it breaks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kilauea.engine.conf import QUEUE_PLUGINS, Finding, SchedulerConf
from kilauea.engine.model.resources import ALWAYS, Amounts
from kilauea.engine.plan import Condition

DETACHED = "Detached"
"""Type of condition: the queue has no path to the root, or its parent is ignored."""
HOLDS_JOBS = "HoldsJobs"
"""Type of condition: a queue with children contains jobs."""
OVER_PROMISED = "OverPromised"
"""Type of condition: its children are promised more than is available."""
OUT_OF_REACH = "OutOfReach"
"""Type of condition: it names an amount that is never available."""
NOT_OPEN = "NotOpen"
"""Type of condition: it does not accept work, but has some."""
UNREADABLE = "Unreadable"
"""Type of condition: an annotation is invalid."""

IGNORED = "WishIgnored"
"""Type of condition, also of groups: a field needs a plugin that is not configured."""
IGNORED_REASON = "PluginNotConfigured"

MOST_FINDINGS = 20
"""Maximum number of findings per reason in a cycle; the others are counted. All queues get conditions."""


class QueueFault(NamedTuple):
    """A fault of a queue, or of one that does not exist.

    Attributes:
        queue: its name.
        type: type of the condition, one of those above.
        reason: the reason, for programs.
        message: the message, with numbers.
        error: jobs wait because of a mistake; a closed queue is not a mistake.
    """

    queue: str
    type: str
    reason: str
    message: str
    error: bool = False


def conditions(faults: Iterable[QueueFault]) -> dict[str, tuple[Condition, ...]]:
    """Conditions by queue; faults of the same type share one, with the reason of the first."""
    found: dict[str, dict[str, Condition]] = {}
    for queue, type_, reason, message, _ in faults:
        of_queue = found.setdefault(queue, {})
        known = of_queue.get(type_)
        whole = Condition(type_, reason, message)
        of_queue[type_] = whole if known is None else Condition(type_, known.reason, f"{known.message}; {message}")
    return {queue: tuple(of_queue.values()) for queue, of_queue in found.items()}


def findings(faults: Iterable[QueueFault]) -> list[Finding]:
    """The faults as findings; up to a maximum for each reason, then the number of further ones."""
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
        tree: True if parents limit their children.
    """

    plugin: str
    tree: bool

    @property
    def deserves(self) -> bool:
        """True if a queue deserves the amounts in its object."""
        return self.plugin in ("capacity", "capacity-card")

    @property
    def cards(self) -> bool:
        """True if queues have card quotas, and only cpu and memory count otherwise."""
        return self.plugin == "capacity-card"

    def counted(self, amounts: Amounts | None) -> Amounts:
        """The amounts that count."""
        return {name: amount for name, amount in (amounts or {}).items() if not self.cards or name in ALWAYS}


def rules_of(conf: SchedulerConf) -> Rules:
    """The rules of the first queue plugin in the tiers."""
    for entry in (entry for tier in conf.tiers for entry in tier):
        if entry.name in QUEUE_PLUGINS:
            return Rules(entry.name, entry.name == "capacity" and entry.is_enabled("hierarchy"))
    return Rules("", tree=False)
