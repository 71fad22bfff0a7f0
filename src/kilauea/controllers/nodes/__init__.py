"""The life cycle of nodes: silent nodes are tainted, and their pods are evicted after their toleration time.

`health` judges a node and says its taints, `eviction` says which pods go, `controller` joins them.
"""
