"""Controllers: each keeps one kind of objects in the desired state, one key at a time.

They are pure (see `kilauea.api.ports`): the runtime shows them a view and carries out what they want. Those of Volcano
are `podgroups` and `queues`; the others do for the embedded cluster what Kubernetes' controller manager does elsewhere.
Three parts of that stay in the API server, where deletions and new namespaces are at hand: garbage collection by owner,
the emptying of namespaces, and the service account `default`.
"""
