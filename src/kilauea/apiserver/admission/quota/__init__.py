"""Resource quotas: limits on the total usage of a namespace.

`usage` tells what one object counts, `scopes` which quota is about it, `account` keeps the sum of one quota, `books`
those of a namespace, and `step` asks them at every write.
"""
