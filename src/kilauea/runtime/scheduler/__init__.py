"""The live scheduler: watches keep the engine's state, cycles decide, and plans are carried out.

    watches -> feed -> ClusterState -> cycle -> Plan -> executor (binds, evictions) and writes (statuses, events)

`loop.py` has the cycle, `feed.py` what comes in, `assumed.py` what was decided and is not seen yet, `executor.py` and
`writes.py` what goes out; `process.py` joins them with a client.
"""
