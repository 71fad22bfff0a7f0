"""Priority and fairness: which requests are executed concurrently, and which others wait or are rejected.

`objects.py` names what every cluster has, `classes.py` finds the FlowSchema and the level of a request, `seats.py` lets
requests of a level in, and `configuration.py` keeps the objects as they should be.
"""
