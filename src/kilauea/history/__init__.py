"""The history of a cluster: the events of its jobs and pods with times and reasons, even after they are deleted.

`records.py` defines the types, `recording.py` creates records from changes of objects, `store.py` stores them in one
file, and `usage.py`, `timeline.py` and `estimates.py` evaluate them.
"""
