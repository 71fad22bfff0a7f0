"""The history of a live cluster: `recorder.py` records it, `serving.py` answers requests about it."""
