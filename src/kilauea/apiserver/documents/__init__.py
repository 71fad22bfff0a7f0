"""Documents of the server: what it answers besides objects.

`documents.py` finds them by their path: `discovery.py` the kinds that are served, `openapi.py` their schemas,
`health.py` the checks of the server and their metrics.
"""
