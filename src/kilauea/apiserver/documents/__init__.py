"""Documents of the server: responses other than objects.

`documents.py` routes their paths; `discovery.py` has the served kinds, `openapi.py` their schemas, `health.py` the
checks of the server and their metrics.
"""
