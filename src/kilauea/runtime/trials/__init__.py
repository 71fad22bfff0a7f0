"""Trials of configurations on traces: the engine, the controllers and admission together, without a cluster.

`running.py` runs one or several trials, `advising.py` searches for changes that would help.
"""
