"""Admission webhooks: one module per kind sets defaults (mutate) and rejects invalid objects (validate).

All of it is pure: a review and a view of the cluster in; JSON Patch operations, warnings or a denial out. `HOOKS` in
`registry.py` names them all. Whether they run in the API server's own process or behind `kilauea webhooks` is the
runtime's business.
"""
