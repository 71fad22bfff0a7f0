"""Phases of jobs, as commands tell them apart."""

from __future__ import annotations

ENDED = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
"""Phases of a job in which nothing of it runs, or will without an order."""
