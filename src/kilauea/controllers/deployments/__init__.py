"""Deployments: one replica set per template, scaled so that enough pods remain available during an update.

`controller` decides the next step, `revisions` finds, names and numbers the replica sets, `scaling` computes their
sizes, `status` reports the progress of the rollout.
"""
