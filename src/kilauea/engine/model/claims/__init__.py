"""Dynamic resource allocation: claims, available devices, and the search for devices on a node.

`facts` parses objects, `table` stores them, `inventory` arranges the devices as columns, `search` finds devices for the
claims of one pod on one node.
"""
