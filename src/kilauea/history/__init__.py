"""The history of a cluster: what happened to its jobs and pods, when and why, even after they are deleted.

`records.py` has the types, `recording.py` makes records of objects as they change, `store.py` keeps them in one file,
and `usage.py`, `timeline.py` and `estimates.py` answer questions about them.
"""
