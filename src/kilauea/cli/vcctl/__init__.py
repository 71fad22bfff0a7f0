"""`vcctl` and its six small siblings: the commands of Volcano's users, with the output that their scripts read.

Nothing heavy is imported before a command runs, so that help and version come at once.
"""
