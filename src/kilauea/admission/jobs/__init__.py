"""Volcano's Job: what it holds where its author was silent, which new ones are refused, and what may change."""

from kilauea.admission.jobs.defaults import mutate
from kilauea.admission.jobs.rules import validate

__all__ = ["mutate", "validate"]
