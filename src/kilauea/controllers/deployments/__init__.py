"""Deployments: one replica set per template, scaled so that enough pods remain available during an update.

`controller` decides what is next, `revisions` finds, names and numbers the replica sets, `scaling` says how many pods
each may have, `status` tells how far the rollout is.
"""
