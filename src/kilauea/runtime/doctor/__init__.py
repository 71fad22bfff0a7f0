"""Checks of a cluster: does it have everything that Kilauea needs, and do the installed parts work?

`facts` reads the cluster once, over any client. Each module of checks is a pure function from the facts to a `Check`;
`examination` lists them in the order in which they are shown.
"""
