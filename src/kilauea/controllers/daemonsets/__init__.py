"""Daemon sets: one pod on each suitable node.

`suiting` says which nodes those are and makes the pod of one, `controller` keeps them and replaces old pods.
"""
