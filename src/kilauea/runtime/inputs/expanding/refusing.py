"""The reason why a workload is left out of a plan."""

from __future__ import annotations


class Refused(Exception):
    """A cluster would refuse the workload; the message gives the reason."""
