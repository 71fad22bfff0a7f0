"""Annotations with which users control simulated nodes and their pods.

Times are durations such as `30s` or `1h30m`. Annotations for a pod are in its metadata (in that of the template, for
pods of controllers); `kilauea.dev/run-time.worker` applies only to the container `worker`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kilauea.api.numbers import whole_number
from kilauea.api.ports import Obj
from kilauea.api.quantity import QuantityError, parse_milli
from kilauea.api.times import parse_duration
from kilauea.api.usage import USAGE
from kilauea.api.wellknown import parse_bool

PREFIX = "kilauea.dev/"
"""Prefix of all of them."""
SIMULATED = "kilauea.dev/simulated"
"""On a Node, `true` or `false`: if it is simulated, regardless of its status."""
NODE_RUNTIME, PROCESS = "kilauea.dev/runtime", "process"
"""On a Node: `process` if its pods run as processes of a machine, so that it is not simulated."""
NODE_STATE = "kilauea.dev/node-state"
"""On a Node: with `not-ready` it reports this and starts no pods; with `silent` it does nothing, as if it were dead."""
NOT_READY, SILENT = "not-ready", "silent"
MISSING_IMAGES = "kilauea.dev/missing-images"
"""On a Node: images that it cannot pull, separated by commas."""

RUN_TIME = "kilauea.dev/run-time"
"""Duration of each run of a container."""
EXIT_CODE = "kilauea.dev/exit-code"
"""The code with which a container ends, 0 to 255."""
EXIT_REASON = "kilauea.dev/exit-reason"
"""The reason in its terminated state, e.g. `OOMKilled`."""
START_DELAY = "kilauea.dev/start-delay"
"""Time for the creation of the pod's containers."""
STOP_TIME = "kilauea.dev/stop-time"
"""Time that containers take to end when the pod is deleted; limited by its grace period."""

STOP_SIGNAL = "kilauea.dev/stop-signal"
"""On a pod that runs as processes of a machine, `SIGINT` or another name: the signal that asks all of its processes to
end, as a terminal does, where a kubelet sends SIGTERM to the first process of each container."""

_DURATIONS = (RUN_TIME, START_DELAY, STOP_TIME)


def annotations_of(obj: Obj) -> Mapping[str, str]:
    """The annotations of an object."""
    return obj["metadata"].get("annotations") or {}


def annotation_value(notes: Mapping[str, str], name: str, container: str) -> str | None:
    """Return the value for a container, or else the one for all containers."""
    return notes.get(f"{name}.{container}", notes.get(name))


def read_duration(text: str | None) -> int | None:
    """Microseconds of a duration; None if missing or invalid (see `annotation_errors`)."""
    try:
        length = parse_duration(text) if text else None
    except ValueError:
        return None
    return None if length is None or length < 0 else length


def read_exit_code(text: str | None) -> int | None:
    """An exit code; None if missing or invalid (see `annotation_errors`)."""
    code = whole_number(text or "")
    return code if code is not None and code < 256 else None


def annotation_errors(notes: Mapping[str, str]) -> list[str]:
    """Return the errors in a pod's annotations, each with the fix."""
    errors = []
    for name, text in sorted(notes.items()):
        if name.startswith(_DURATIONS) and read_duration(text) is None:
            errors.append(f'{name}: invalid duration "{text}": use e.g. 30s or 1h30m')
        elif name.startswith(tuple(USAGE.values())) and not _is_amount(text):
            errors.append(f'{name}: invalid quantity "{text}": use e.g. 250m or 64Mi')
        elif name.startswith(EXIT_CODE) and read_exit_code(text) is None:
            errors.append(f'{name}: invalid exit code "{text}": use 0 to 255')
    return errors


def _is_amount(text: str) -> bool:
    try:
        return parse_milli(text) >= 0
    except QuantityError:
        return False


def is_simulated(node: Obj) -> bool:
    """Return True if a Node is simulated: by its annotation, or else if no machine has ever reported a boot id."""
    told = parse_bool(annotations_of(node).get(SIMULATED))
    if told is not None:
        return told
    if annotations_of(node).get(NODE_RUNTIME):
        return False
    return not ((node.get("status") or {}).get("nodeInfo") or {}).get("bootID")


def node_state(node: Obj) -> str:
    """Return the state that a Node is set to; empty for ready."""
    return annotations_of(node).get(NODE_STATE, "")


def missing_images(node: Obj) -> frozenset[str]:
    """The images that a Node cannot pull."""
    text = annotations_of(node).get(MISSING_IMAGES, "")
    return frozenset(each.strip() for each in text.split(",") if each.strip())
