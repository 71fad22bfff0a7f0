"""Chooses how to isolate containers, by testing what this machine permits."""

from __future__ import annotations

import os
from pathlib import Path

from kilauea.kubelet.processes.supervisor import cgroups, linux
from kilauea.kubelet.processes.supervisor.loop import Loop
from kilauea.kubelet.processes.supervisor.namespaces import Namespaces
from kilauea.kubelet.processes.supervisor.plain import Plain


def choose(wanted: str, loop: Loop, scratch: Path) -> Plain:
    """Return the best isolation that works here.

    Args:
        wanted: `plain` for no namespaces; otherwise they are used if they work.
        loop: the event loop, which knows the supervisor's child processes.
        scratch: folder for temporary files of containers.
    """
    # The same name for each supervisor of a folder, so that the next one finds the groups of the previous one.
    folder = os.stat(scratch)
    groups = cgroups.find(f"kilauea-{folder.st_dev:x}-{folder.st_ino:x}")
    groups.clean()
    if wanted == "plain":
        return Plain(loop, scratch, groups)
    if not linux.has_namespaces:
        return Plain(loop, scratch, groups, "this architecture is not supported")
    found = Namespaces(loop, scratch, groups)
    failure = found.works()
    if not failure:
        return found
    found.has_overlay = False
    if not found.works():
        return found
    return Plain(loop, scratch, groups, failure)
