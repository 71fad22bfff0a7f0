"""Loads of nodes from monitoring systems, for the plugins usage and rescheduling.

`reader.py` queries the configured system, alongside the cycles and at its interval, and passes the results to the feed.
Each of the other modules implements one system.
"""

from kilauea.runtime.scheduler.loads.reader import LoadReader

__all__ = ["LoadReader"]
