"""The decision: events in, ClusterState, Plan out.

Pure: no file, socket, clock or randomness of its own. `cycle.py` is the door, `state.py` the memory, `session.py` one
cycle, `plan.py` what comes out.
"""
