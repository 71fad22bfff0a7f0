"""The nodes of a cluster are divided among its schedulers.

`configuration` reads which schedulers there are and what nodes each should have, `policies` chooses the nodes, and
`controller` writes them to NodeShards, which the schedulers read.
"""
