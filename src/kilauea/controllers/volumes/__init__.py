"""Binds claims to volumes: to existing ones, or to new ones that are provisioned for them.

`claims` is the controller of claims, `volumes` that of volumes, `matching` finds matching volumes, `binding` writes
both sides of a binding, `consumers` helps schedulers that do not bind claims, and `ephemeral` creates the claims of
ephemeral volumes. No data is stored: a provisioned volume represents one that a cluster's driver would create.
"""
