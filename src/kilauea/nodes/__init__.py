"""Simulated nodes: the API calls of kubelets, without machines.

Three controllers do it: `registration` creates Nodes, `heartbeats` keeps them and their Leases alive, `pods` takes the
pods that are bound to simulated nodes through their lives. They are pure, and all that they know is in the objects, so
a process that ends in the middle of everything is followed by one that goes on from there.

Which Nodes are simulated, and how their pods behave, is said by annotations (`annotations`); without any, every Node
that no machine stands behind is.
"""
