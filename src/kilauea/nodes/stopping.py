"""The time that a deleted simulated pod needs to end.

It comes from annotations, or else from simple `preStop` hooks and commands, as in examples: a hook that sleeps, a shell
script with `trap ... TERM`. All other programs end at once.
"""

from __future__ import annotations

import re

from kilauea.api.ports import Obj
from kilauea.api.remembered import remembered_parts
from kilauea.api.times import SECOND
from kilauea.nodes.annotations import STOP_TIME, annotations_of, read_duration
from kilauea.nodes.script import LONGEST_SCRIPT, inline_script, read_script

FOR_EVER = 1 << 62
"""Microseconds: longer than any grace period."""
_TRAP = re.compile(
    r"(?:^|[;&|\n{]|\bthen\s|\bdo\s)\s*trap\s+(?:--\s+)?(?:'([^']*)'|\"([^\"]*)\"|([A-Za-z_]\w*))\s+([A-Z0-9 ]+)"
)
_FUNCTION = r"(?:^|[;&|\n])\s*(?:function\s+)?{name}\s*(?:\(\s*\))?\s*\{{([^}}]*)\}}"
_TERM = frozenset({"TERM", "SIGTERM", "15"})
_LONG_AFTER = 366 * 24 * 3600
"""Seconds that no handler takes: a program that still runs then has not ended by its handler."""


def stop_time(pod: Obj) -> int:
    """Microseconds that a pod takes to end."""
    said = read_duration(annotations_of(pod).get(STOP_TIME))
    if said is not None:
        return said
    return max(_hook_time(each) + _handler_time(each) for each in pod["spec"]["containers"])


def _hook_time(container: Obj) -> int:
    """Microseconds of its `preStop` hook."""
    hook = (container.get("lifecycle") or {}).get("preStop") or {}
    seconds = int((hook.get("sleep") or {}).get("seconds") or 0)
    command = tuple((hook.get("exec") or {}).get("command") or ())
    if not command:
        return seconds * SECOND
    script = read_script(command, ())
    if not script.tells_time:
        return 0
    return FOR_EVER if script.run_time is None else script.run_time


def _handler_time(container: Obj) -> int:
    """Microseconds between the signal and the end of its command."""
    command, args = tuple(container.get("command") or ()), tuple(container.get("args") or ())
    return _trap_time(command, args) if any("trap" in word for word in command + args) else 0


@remembered_parts(1024)
def _trap_time(command: tuple[str, ...], args: tuple[str, ...]) -> int:
    if sum(map(len, command + args)) > LONGEST_SCRIPT:
        return 0
    text = inline_script(command + args)
    handler = next((found for found in map(_handler, _TRAP.finditer(text)) if found is not None), None)
    if handler is None:
        return 0
    action, name = handler
    if name:
        body = re.search(_FUNCTION.format(name=re.escape(name)), text)
        if body is None:
            return 0
        action = body[1]
    script = read_script(("sh", "-c", f"{action.strip().rstrip(';')}\nsleep {_LONG_AFTER}"), ())
    if not script.tells_time:
        return 0
    # A program whose handler does not exit continues, as does one that ignores the signal.
    ends = script.run_time is not None and script.run_time < _LONG_AFTER * SECOND
    return script.run_time if ends and script.run_time is not None else FOR_EVER


def _handler(found: re.Match[str]) -> tuple[str, str] | None:
    """The action of a `trap` for termination: a text or the name of a function; None without one."""
    if not _TERM.intersection(found[4].split()):
        return None
    if found[3]:
        return "", found[3]
    return found[1] if found[1] is not None else found[2], ""
