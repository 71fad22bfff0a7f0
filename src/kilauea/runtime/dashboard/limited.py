"""Become another program with limits: `python -m kilauea.runtime.dashboard.limited SECONDS BYTES PROGRAM ARGUMENT ...`.

It limits processor time and address space, and lowers the priority. The program replaces this process, so that the
parent process can end it.
"""

from __future__ import annotations

import os
import resource
import sys


def main(seconds: str, size: str, *command: str) -> None:
    """Set the limits and become the program."""
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
    resource.setrlimit(resource.RLIMIT_AS, (int(size), int(size)))
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
