"""Podman containers, behind the same interface as processes.

`runtime.py` starts and watches them, `arguments.py` builds the command line for one, `images.py` finds and pulls
images, `command.py` runs podman. Podman's own monitor (conmon) keeps a container running when this process ends.
"""
