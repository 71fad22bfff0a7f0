"""Trials of configurations on traces: the engine, the controllers and admission together, without a cluster.

`running.py` runs one trial or several side by side, `advising.py` looks for changes that would help.
"""
