"""The history of a live cluster: `recorder.py` keeps it, `serving.py` answers requests about it."""
