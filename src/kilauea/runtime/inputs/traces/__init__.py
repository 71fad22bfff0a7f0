"""Reads traces of jobs, and tables of nodes, in the formats in which they are published.

`tables.py` reads lines and says what is wrong with them; each format is a file beside it, and `reading.py` finds out
which one it is. `kilauea.simulator.replay.trace` describes what comes out.
"""
