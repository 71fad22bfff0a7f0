"""Commands of containers: with preceding shell commands, and protected from Kubernetes' variable expansion."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)", re.ASCII)


def after(commands: str, command: Sequence[str]) -> list[str]:
    """A command that runs after some shell commands, which end with `; `."""
    if not commands:
        return list(command)
    if len(command) > 2 and command[0].rpartition("/")[2] in SHELLS and command[1] == "-c":
        return [command[0], "-c", commands + command[2], *command[3:]]
    return ["sh", "-c", f'{commands}exec "$@"', "sh", *command]


def literal(text: str, names: Collection[str]) -> str:
    """Escape a text so that Kubernetes does not change it: it replaces `$$`, and `$(NAME)` for known variables."""
    if any(found[1] is None or found[1] in names for found in _REFERENCE.finditer(text)):
        return text.replace("$", "$$")
    return text
