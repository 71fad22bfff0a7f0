"""Daemon sets: one pod on each node that suits.

`suiting` says which nodes those are and makes the pod of one, `controller` keeps them and replaces old pods.
"""
