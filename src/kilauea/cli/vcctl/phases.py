"""Sets of job phases that commands distinguish."""

from __future__ import annotations

ENDED = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
"""Phases in which a job has no running pods, and starts none without a command."""
