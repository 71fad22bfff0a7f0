"""Deployments: replica sets, one for each template there was, scaled up and down so that enough pods serve meanwhile.

`controller` decides what is next, `revisions` finds, names and numbers the replica sets, `scaling` says how many pods
each may have, `status` tells how far the rollout is.
"""
