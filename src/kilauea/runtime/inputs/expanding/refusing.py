"""The reason why a plan excludes a workload."""

from __future__ import annotations


class Refused(Exception):
    """A cluster would refuse the workload; the message gives the reason."""
