"""The live scheduler: watches keep the engine's state, cycles decide, and plans are carried out.

    watches -> feed -> ClusterState -> cycle -> Plan -> deeds (binds, evictions) and writes (statuses, events)

`loop.py` has the cycle, `feed.py` what comes in, `assumed.py` what was decided and is not seen yet, `deeds.py` and
`writes.py` what goes out; `process.py` joins them with a client.
"""
