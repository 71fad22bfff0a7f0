"""Claims are bound to volumes: to existing ones, or to new ones that are provisioned for them.

`claims` is the controller of claims, `volumes` that of volumes, `matching` says which volume suits, `binding` writes it
down on both sides, `consumers` helps schedulers that do not bind claims, and `ephemeral` makes the claims of ephemeral
volumes. Nothing is ever stored: a volume that is made stands for one that a cluster's driver would make.
"""
