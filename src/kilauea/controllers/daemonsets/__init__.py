"""Daemon sets: one pod on each suitable node.

`node_fit` finds these nodes and builds their pods, `controller` maintains the pods and replaces old ones.
"""
