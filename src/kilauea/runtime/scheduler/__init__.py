"""The live scheduler: watches keep the engine's state, cycles decide, and plans are carried out.

    watches -> feed -> ClusterState -> cycle -> Plan -> executor (binds, evictions) and writes (statuses, events)

`loop.py` runs cycles, `feed.py` applies events, `assumed.py` keeps decisions that are not confirmed yet, `executor.py`
and `workers.py` send requests; `process.py` joins them with a client.
"""
