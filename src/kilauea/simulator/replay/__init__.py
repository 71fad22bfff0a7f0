"""Replays: a trace of jobs runs through the engine and the controllers under virtual time.

| file | purpose |
|---|---|
| `trace.py` | jobs of a trace, scaled, cut and drawn again by seed |
| `workload.py` | a job of a trace as a Volcano job |
| `objects.py` | the objects of the cluster: a view for controllers, and events for the engine |
| `controlling.py` | controllers at work on these objects |
| `replay.py` | the entry point: events in order of their time |
| `faults.py` | failures of nodes, by seed |
| `measures.py`, `fragmentation.py`, `fairness.py` | what is measured while it runs |
| `report.py` | the figures of a replay, and of several |
| `comparing.py` | which of two configurations is better by what, with confidence |
"""
