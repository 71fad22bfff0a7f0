"""Annotations with which users control simulated nodes and their pods.

Times are durations such as `30s` or `1h30m`. What is said about a pod goes in its metadata (in that of the template,
for those that controllers make); `kilauea.dev/run-time.worker` says it for the container `worker` alone.
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
"""With which all of them begin."""
SIMULATED = "kilauea.dev/simulated"
"""On a Node, `true` or `false`: whether it is simulated, whatever it looks like."""
NODE_RUNTIME, PROCESS = "kilauea.dev/runtime", "process"
"""On a Node: `process` if its pods run as processes of a machine, so that it is not simulated."""
NODE_STATE = "kilauea.dev/node-state"
"""On a Node: `not-ready` makes it say so and start no pods; `silent` makes it do nothing at all, as if it were dead."""
NOT_READY, SILENT = "not-ready", "silent"
MISSING_IMAGES = "kilauea.dev/missing-images"
"""On a Node: images that it cannot pull, separated by commas."""

RUN_TIME = "kilauea.dev/run-time"
"""Duration of each run of a container."""
EXIT_CODE = "kilauea.dev/exit-code"
"""The code with which a container ends, 0 to 255."""
EXIT_REASON = "kilauea.dev/exit-reason"
"""The reason that its terminated state has, e.g. `OOMKilled`."""
START_DELAY = "kilauea.dev/start-delay"
"""Time for which the pod's containers are being created."""
STOP_TIME = "kilauea.dev/stop-time"
"""Time that containers take to end when the pod is deleted; its grace period cuts this short."""

STOP_SIGNAL = "kilauea.dev/stop-signal"
"""On a pod that runs as processes of a machine, `SIGINT` or another name: the signal that asks all of its processes to
end, as a terminal does, where a kubelet sends SIGTERM to the first process of each container."""

_DURATIONS = (RUN_TIME, START_DELAY, STOP_TIME)


def annotations_of(obj: Obj) -> Mapping[str, str]:
    """The annotations of an object."""
    return obj["metadata"].get("annotations") or {}


def annotation_value(notes: Mapping[str, str], name: str, container: str) -> str | None:
    """Return the value for a container, or else the one for all of them."""
    return notes.get(f"{name}.{container}", notes.get(name))


def read_duration(text: str | None) -> int | None:
    """Microseconds of a duration; None where nothing is said or it makes no sense (`annotation_errors` tells)."""
    try:
        length = parse_duration(text) if text else None
    except ValueError:
        return None
    return None if length is None or length < 0 else length


def read_exit_code(text: str | None) -> int | None:
    """An exit code; None where nothing is said or it makes no sense (`annotation_errors` tells)."""
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
    """Return True if a Node is simulated: unless it says so itself, if no machine has ever reported its boot to it."""
    told = parse_bool(annotations_of(node).get(SIMULATED))
    if told is not None:
        return told
    if annotations_of(node).get(NODE_RUNTIME):
        return False
    return not ((node.get("status") or {}).get("nodeInfo") or {}).get("bootID")


def node_state(node: Obj) -> str:
    """Return the state that a Node is set to; empty if it is to be ready."""
    return annotations_of(node).get(NODE_STATE, "")


def missing_images(node: Obj) -> frozenset[str]:
    """The images that a Node cannot pull."""
    text = annotations_of(node).get(MISSING_IMAGES, "")
    return frozenset(each.strip() for each in text.split(",") if each.strip())
