"""Aggregated API servers, as in kube-aggregator: APIServices specify the group versions that other servers serve.

`services.py` knows them, `proxying.py` proxies requests, `availability.py` asks whether they answer and what they
serve, `discovery.py` and `openapi.py` show that, `registration.py` keeps the APIServices of this server itself.
`authentication.py` tells other servers by which certificate they know this one.
"""
