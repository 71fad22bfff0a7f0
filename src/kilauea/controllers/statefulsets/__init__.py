"""Stateful sets: numbered pods, each with its own volumes, created and deleted in order.

`controller` decides the next step, `identity` creates the pod and the claims of an ordinal, `revisions` keeps previous
templates.
"""
