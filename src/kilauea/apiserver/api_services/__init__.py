"""Controllers of APIServices, the objects that assign group versions to servers.

`registration.py` maintains those of this server, `availability.py` checks that other servers respond and what they
serve. `authentication.py` publishes the certificate authorities with which other servers verify this one. The handling
of requests is in `kilauea.apiserver.aggregator`.
"""
