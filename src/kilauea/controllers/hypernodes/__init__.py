"""HyperNodes: the number of their members, and those that are discovered.

`counting` keeps `status.nodeCount`; `configuration` reads which sources there are, `labels` makes HyperNodes of labels
of nodes and `ufm` of the ports of a fabric, and `discovery` brings them to the cluster.
"""
