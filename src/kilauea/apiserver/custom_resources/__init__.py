"""Custom resources: the kinds that definitions add while the server runs, and their removal.

`serving` keeps the served kinds in step with the definitions, `custom` is what the server does with objects of such a
kind, `conversion` brings them from one version into another, `stored_defaults` completes objects that are older than a
default. `controllers` has the controllers of definitions, `bundled` installs those of the Volcano kinds. The rules of
the definitions themselves are in `kilauea.apiserver.crd`.
"""
