"""Simulated nodes: the API calls of kubelets, without machines.

It consists of three controllers: `registration` creates Nodes, `heartbeats` renews their Leases and statuses, `pods`
runs the life cycle of pods on simulated nodes. They are pure, and their whole state is in the objects, so a new process
continues where the last one ended.

Annotations (`annotations`) define which Nodes are simulated, and how their pods behave; without any, every Node without
a machine is.
"""
