"""API priority and fairness: limits concurrent requests, and queues or rejects others.

`objects.py` has the default objects, `classes.py` finds the FlowSchema and the level of a request, `seats.py` admits
requests of a level, and `configuration.py` maintains the default objects.
"""
