"""Volcano's Job: its defaults, the rules for new jobs, and the changes that are allowed."""

from kilauea.admission.jobs.defaults import mutate
from kilauea.admission.jobs.rules import validate

__all__ = ["mutate", "validate"]
