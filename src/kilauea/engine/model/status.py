"""The states of a task, and the sets of states that the rules use (spec of the scheduler, 1.2)."""

from __future__ import annotations

PENDING, ALLOCATED, PIPELINED, BINDING, BOUND, RUNNING, RELEASING, SUCCEEDED, FAILED, UNKNOWN = range(10)

NAMES = (
    "Pending",
    "Allocated",
    "Pipelined",
    "Binding",
    "Bound",
    "Running",
    "Releasing",
    "Succeeded",
    "Failed",
    "Unknown",
)
"""Names of the states, by number."""

HOLDING = frozenset({BOUND, BINDING, RUNNING, ALLOCATED})
"""States in which a task holds its share of the queue (AllocatedStatus)."""

CHARGED = HOLDING | {PIPELINED}
"""States in which a task's requests count for its job and queue: it holds them, or is nominated."""

READY = (BOUND, BINDING, RUNNING, ALLOCATED, SUCCEEDED)
"""States that count towards a gang's minimum."""

SCHEDULED = (RUNNING, BOUND, SUCCEEDED, FAILED)
"""States of tasks that are placed according to the cluster."""

VALID = (*READY, PIPELINED, PENDING)
"""States of tasks that can still take part in a gang."""

ENDED = frozenset({SUCCEEDED, FAILED})
"""States of tasks that no longer hold resources on their node."""


def of_pod(phase: str | None, deleting: bool, node: str | None) -> int:
    """The state of a pod in the API."""
    if phase == "Running":
        return RELEASING if deleting else RUNNING
    if phase in (None, "", "Pending"):
        if deleting:
            return RELEASING
        return BOUND if node else PENDING
    if phase == "Succeeded":
        return SUCCEEDED
    return FAILED if phase == "Failed" else UNKNOWN
