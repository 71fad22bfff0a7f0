"""HyperNodes: the number of their members, and their discovery.

`counting` updates `status.nodeCount`; `configuration` reads the sources, `labels` builds HyperNodes from labels of
nodes and `ufm` from the ports of a fabric, and `discovery` writes them to the cluster.
"""
