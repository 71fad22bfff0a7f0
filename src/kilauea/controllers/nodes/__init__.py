"""The life cycle of nodes: silent nodes are tainted, and their pods are evicted after their toleration time.

`health` determines the readiness and taints of a node, `eviction` the pods to evict, `controller` combines them.
"""
