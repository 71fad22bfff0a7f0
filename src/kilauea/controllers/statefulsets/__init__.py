"""Stateful sets: numbered pods, each with its own volumes, created and deleted in order.

`controller` decides what is next, `identity` makes the pod and the claims of a number, `revisions` keeps the templates
there have been.
"""
