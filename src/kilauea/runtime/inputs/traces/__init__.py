"""Reads traces of jobs, and tables of nodes, in the formats in which they are published.

`tables.py` reads lines and reports errors in them; each format has a separate file, and `reading.py` detects the
format. `kilauea.simulator.replay.trace` defines the result.
"""
