"""Controllers: each keeps one kind of objects in the desired state, one key at a time.

They are pure (see `kilauea.api.ports`): the runtime passes them a view and carries out their operations. Some are those
of Volcano, such as `podgroups` and `queues`; the others replace Kubernetes' controller manager in the embedded cluster.
"""
