"""The decision: events in, ClusterState, Plan out.

Pure: it does not use files, sockets, clocks or randomness. `cycle.py` is the entry point, `state.py` the cluster state,
`session.py` one cycle, `plan.py` the result.
"""
