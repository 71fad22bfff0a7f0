"""Stateful sets: pods with numbers, each with volumes of its own, made and ended one after the other.

`controller` decides what is next, `identity` makes the pod and the claims of a number, `revisions` keeps the templates
there have been.
"""
