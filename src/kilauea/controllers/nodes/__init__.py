"""The life of nodes: those that are not heard of are tainted, and their pods go when their patience is over.

`health` judges a node and says its taints, `eviction` says which pods go, `controller` joins them.
"""
