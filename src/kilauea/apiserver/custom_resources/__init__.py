"""Custom resources: the kinds that definitions add at run time, and their removal.

`serving` synchronizes the served kinds with the definitions, `custom` handles objects of such a kind, `conversion`
converts them between versions, `stored_defaults` completes objects that are older than a default. `controllers` has the
controllers of definitions, `bundled` installs those of the Volcano kinds. The rules of the definitions themselves are
in `kilauea.apiserver.crd`.
"""
