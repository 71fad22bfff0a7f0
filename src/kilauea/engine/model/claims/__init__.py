"""Dynamic resource allocation: claims, available devices, and the search for devices on a node.

`facts` reads objects, `table` remembers them, `inventory` lays the devices out as columns, `search` finds devices for
the claims of one pod on one node.
"""
