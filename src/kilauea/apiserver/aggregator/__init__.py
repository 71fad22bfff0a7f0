"""Aggregated API servers, as in kube-aggregator: APIServices specify the group versions that other servers serve.

`services.py` tracks them, `proxying.py` proxies requests, `discovery.py` and `openapi.py` publish what they serve.
"""
