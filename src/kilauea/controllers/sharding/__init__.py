"""Divides the nodes of a cluster among its schedulers.

`configuration` reads the schedulers and their policies, `policies` chooses the nodes, and `controller` writes them to
NodeShards, which the schedulers read.
"""
