"""The program of a container: its run time, its output, and its result.

Nothing is executed. They come from annotations, or from the command if it is simple, as in examples: `sleep 5`, `sh -c
"echo hello; sleep 5; exit 3"`. Other commands next to a `sleep` take no time. If the time is unknown, a command that
should end runs briefly, an init container not at all, anything else forever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from kilauea.api.ports import Obj
from kilauea.api.remembered import remembered_parts
from kilauea.api.times import SECOND
from kilauea.nodes.annotations import (
    EXIT_CODE,
    EXIT_REASON,
    PREFIX,
    RUN_TIME,
    annotation_value,
    annotations_of,
    read_duration,
    read_exit_code,
)
from kilauea.nodes.environment import expand
from kilauea.nodes.identity import Identity, identity_of
from kilauea.nodes.script import Environment, Line, Script, read_script

JOB_RUN_TIME = 5 * SECOND
"""Default run time of a container that should end and has no known duration, unless a command line sets it."""

NOTHING = Script(False, 0, 0)
"""The script of a container without a command."""
_KEYED_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_PLAIN_FIELDS = frozenset(
    {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"}
)
_Notes = tuple[tuple[str, str], ...]
"""Annotations that define the behavior of pods."""


@dataclass(frozen=True, slots=True)
class Program:
    """One run of a container.

    Attributes:
        run_time: microseconds; None for no end.
        exit_code: its exit code.
        reason: the reason of its end in its status.
        script: its command, for its output.
        guessed: True if its run time is unknown, so that the default applies.
    """

    run_time: int | None
    exit_code: int
    reason: str
    script: Script = NOTHING
    guessed: bool = False

    @property
    def output(self) -> Iterator[Line]:
        """The lines that it prints, each with its time after the start."""
        return self.script.output


def program_of(pod: Obj, container: Obj, init: bool = False, default: int = JOB_RUN_TIME) -> Program:
    """The program of one of a pod's containers.

    Args:
        pod: its pod.
        container: the container in the pod's specification.
        init: True if it must end before others start.
        default: default microseconds if it should end; 0 for no end.
    """
    command, args = tuple(container.get("command") or ()), tuple(container.get("args") or ())
    notes = tuple(each for each in annotations_of(pod).items() if each[0].startswith(PREFIX))
    environment = _environment(pod, container) if any("$" in word for word in command + args) else ()
    identity, ends = identity_of(pod, container), _is_to_end(pod, container)
    return _program(command, args, environment, identity, container["name"], notes, init, ends, default)


def _environment(pod: Obj, container: Obj) -> Environment:
    """The environment variables of a container that depend on its pod alone; the others are empty."""
    found: dict[str, str] = {}
    for each in container.get("env") or ():
        source = each.get("valueFrom")
        found[each["name"]] = _field(pod, source) if source else expand(str(each.get("value") or ""), found)
    return tuple(found.items())


def _field(pod: Obj, source: Obj) -> str:
    """The value of a constant field of the pod; empty for other sources."""
    path = (source.get("fieldRef") or {}).get("fieldPath", "")
    if found := _KEYED_FIELD.fullmatch(path):
        return str((pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    part, _, name = path.partition(".")
    return str(pod[part].get(name, "")) if path in _PLAIN_FIELDS else ""


@remembered_parts(4096)
def _program(
    command: tuple[str, ...],
    args: tuple[str, ...],
    environment: Environment,
    identity: Identity,
    name: str,
    said_of_pod: _Notes,
    init: bool,
    ends: bool,
    default: int,
) -> Program:
    """The program of a container; pods of one template have the same."""
    notes, script = dict(said_of_pod), read_script(command, args, environment, identity)
    # Annotations for all containers of a pod do not apply to init containers.
    if init:
        notes = {key: text for key, text in notes.items() if key.endswith(f".{name}")}
    code = read_exit_code(annotation_value(notes, EXIT_CODE, name))
    run_time = read_duration(annotation_value(notes, RUN_TIME, name))
    if run_time is None:
        run_time = script.run_time if script.tells_time else _usual_time(init, code is not None or ends, default)
    guessed = (
        not init and not script.tells_time and run_time is not None and not annotation_value(notes, RUN_TIME, name)
    )
    code = script.exit_code if code is None else code
    reason = annotation_value(notes, EXIT_REASON, name) or ("Error" if code else "Completed")
    return Program(run_time, code, reason, script, guessed)


def _usual_time(init: bool, ends: bool, default: int) -> int | None:
    """The run time of a container with no known duration; `ends` if it is known to end."""
    if init:
        return 0
    return default or None if ends else None


def _is_to_end(pod: Obj, container: Obj) -> bool:
    """Return True if a container should end although its run time is unknown.

    This applies to containers of a batch Job, and to those with a command in a pod that is not always restarted; a pod
    with only an image may be anything and keeps running.
    """
    has_command = bool(container.get("command") or container.get("args"))
    return _of_batch_job(pod) or (has_command and pod["spec"].get("restartPolicy", "Always") != "Always")


def _of_batch_job(pod: Obj) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(each.get("kind") == "Job" and _group(each.get("apiVersion", "")) == "batch" for each in owners)


@lru_cache(maxsize=64)
def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
