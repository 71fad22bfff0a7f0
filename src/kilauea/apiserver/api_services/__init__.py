"""APIServices, the objects that say which server serves a group version: the controllers that keep them up to date.

`registration.py` keeps those of this server itself, `availability.py` asks whether other servers answer and what they
serve. `authentication.py` tells other servers by which certificate they know this one. What follows from APIServices
for requests is in `kilauea.apiserver.aggregator`.
"""
