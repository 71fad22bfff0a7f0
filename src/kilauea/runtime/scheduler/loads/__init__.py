"""Loads of nodes from monitoring systems, for the plugins usage and rescheduling.

`reader.py` asks the system that the configuration names, beside the cycles and at its interval, and hands the answers
to the feed. Each of the other modules knows one system.
"""

from kilauea.runtime.scheduler.loads.reader import LoadReader

__all__ = ["LoadReader"]
