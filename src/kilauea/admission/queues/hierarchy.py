"""The older format of a tree: a path and a weight for each of its parts, in two annotations."""

from __future__ import annotations

from collections.abc import Sequence

from kilauea.admission.queues.values import ROOT
from kilauea.admission.wording import invalid
from kilauea.api.kinds import QUEUES
from kilauea.api.ports import Obj, View
from kilauea.api.wellknown import HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE

_PATH = f"{ROOT}.metadata.annotations"


def annotation(queue: Obj, name: str) -> str:
    """An annotation of a queue; empty if it has none."""
    return str((queue["metadata"].get("annotations") or {}).get(name) or "")


def is_rooted(path: str) -> bool:
    """Return True if a path starts at the root."""
    return path.split("/", 1)[0] == ROOT_QUEUE


def hierarchy_faults(queue: Obj, view: View) -> Sequence[str]:
    """The first thing that is wrong with the path of a queue, beside those of all other queues."""
    path, weights = annotation(queue, HIERARCHY), annotation(queue, HIERARCHY_WEIGHTS)
    if not path and not weights:
        return []
    why = _form_fault(path, weights) or _place_fault(queue, path, view)
    return [invalid(_PATH, why[0], why[1])] if why else []


def _form_fault(path: str, weights: str) -> tuple[str, str] | None:
    """The value and what is wrong with it: as many weights as parts, all of them numbers above zero."""
    if len(path.split("/")) != len(weights.split("/")):
        return path, f"{HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}"
    for weight in weights.split("/"):
        try:
            number = float(weight)
        except ValueError:
            return weights, f'{weight} in the {weights} is invalid number: strconv.ParseFloat: parsing "{weight}": ' + (
                "invalid syntax"
            )
        if not number > 0:
            return weights, f"{weight} in the {weights} must be larger than 0"
    return None


def _place_fault(queue: Obj, path: str, view: View) -> tuple[str, str] | None:
    """No queue sits where the way to another one leads through."""
    for other in view.list(QUEUES):
        theirs = annotation(other, HIERARCHY)
        name = other["metadata"]["name"]
        if name != queue["metadata"]["name"] and path and theirs.startswith(path + "/"):
            return path, f"{path} is not allowed to be in the sub path of {theirs} of queue {name}"
    return None
