"""`vcctl` and its six small companions: Volcano's commands, with the output that scripts depend on.

Heavy modules are imported only when a command runs, so that help and version are fast.
"""
