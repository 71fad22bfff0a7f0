"""Sub-gangs: tasks of one job that should be closer together than the rest (spec of the scheduler, 1.5.5).

A pod group's sub-group policies group its tasks by the values of some labels. Tasks that no policy matches form the
default sub-gang, which has the name of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kilauea.api.scheduling import NetworkTopology, SubGroupPolicy
from kilauea.api.selectors import Selector, matches, selector_of
from kilauea.engine.model.counts import TaskCounts
from kilauea.engine.model.resources import MOST_PODS, within
from kilauea.engine.model.tasks import Task

LONGEST_VALUES = 128
"""Longer label values are replaced by their hash in keys."""


@dataclass(frozen=True, slots=True)
class SubGroup:
    """A sub-group policy."""

    name: str
    size: int
    """Number of tasks of a sub-gang that must be placed together."""
    minimum: int
    """Minimum number of sub-gangs."""
    selector: Selector | None
    """None matches any task."""
    keys: tuple[str, ...]
    """Labels whose values distinguish sub-gangs; without any, the policy matches no task."""
    topology: NetworkTopology | None


def sub_group_of(policy: SubGroupPolicy) -> SubGroup:
    """Read a policy."""
    return SubGroup(
        policy.name,
        within(1 if policy.sub_group_size is None else policy.sub_group_size, 0, MOST_PODS),
        within(policy.min_sub_groups or 0, 0, MOST_PODS),
        selector_of(policy.label_selector),
        tuple(policy.match_label_keys or ()),
        policy.network_topology,
    )


class SubJob(TaskCounts):
    """A sub-gang and its tasks."""

    __slots__ = ("group", "key", "match_index", "tasks", "topology")

    def __init__(
        self, key: str, group: SubGroup | None, values: tuple[str, ...], job_topology: NetworkTopology | None
    ) -> None:
        super().__init__()
        self.key = key
        self.group = group.name if group else ""
        """Name of the policy; empty for the default sub-gang."""
        self.min_available = group.size if group else 1
        self.topology = group.topology if group else job_topology
        self.match_index = int(values[0]) if values and values[0].isascii() and values[0].isdigit() else 0
        self.tasks: dict[str, Task] = {}

    @property
    def order(self) -> tuple[int, str]:
        """Fallback for the order of sub-gangs."""
        return (self.match_index, self.key)


def sub_job_of(
    job: str, groups: Iterable[SubGroup], labels: Mapping[str, str]
) -> tuple[str, SubGroup | None, tuple[str, ...]]:
    """Key of the sub-gang of a task with these labels, its policy, and the label values; the first matching policy."""
    for group in groups:
        values = tuple(labels.get(key, "") for key in group.keys)
        fits = group.selector is None or matches(group.selector, labels)
        if fits and values and all(values):
            joined = "-".join(values)
            return f"{job}/{group.name}-{_short(joined)}", group, values
    return job, None, ()


def _short(text: str) -> str:
    """The text, or the FNV-1a hash (32 bits, decimal) of one that is too long."""
    if len(text) <= LONGEST_VALUES:
        return text
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 % (1 << 32)
    return str(value)
