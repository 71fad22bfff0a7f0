"""API servers of others behind this one, as in kube-aggregator: APIServices say which versions of groups they serve.

`services.py` knows them, `passing_on.py` hands requests on, `availability.py` asks whether they answer and what they
serve, `discovery.py` and `descriptions.py` show that, `registration.py` keeps the APIServices of this server itself.
`authentication.py` tells other servers by which certificate they know this one.
"""
