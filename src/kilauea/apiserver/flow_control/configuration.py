"""Maintains the default FlowSchemas and levels, and the condition of FlowSchemas that their level is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kilauea.api.kinds import FLOW_SCHEMAS, PRIORITY_LEVELS
from kilauea.api.ports import Create, Interest, Key, Obj, Operation, Outcome, Patch, Resource, View, key_of
from kilauea.api.times import SECOND, format_time
from kilauea.apiserver.flow_control.objects import AUTOUPDATE, LEVELS, MANDATORY, SCHEMAS

_ALL = Key("", "")
DANGLING = "Dangling"


def _everything(obj: Obj) -> Iterable[Key]:
    return (_ALL,)


class FlowConfiguration:
    """Creates missing objects, restores maintained ones, and writes the condition `Dangling`.

    There is one key for everything, as the condition depends on the objects of both kinds, which are few.
    """

    name = "priority-and-fairness-controller"
    interests = (Interest(FLOW_SCHEMAS, _everything), Interest(PRIORITY_LEVELS, _everything))

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Bring all objects up to date."""
        operations = [
            *_kept(PRIORITY_LEVELS, LEVELS, view.list(PRIORITY_LEVELS)),
            *_kept(FLOW_SCHEMAS, SCHEMAS, view.list(FLOW_SCHEMAS)),
        ]
        levels = {each["metadata"]["name"] for each in view.list(PRIORITY_LEVELS)}
        for schema in view.list(FLOW_SCHEMAS):
            operations += _told(schema, levels, now)
        return Outcome(operations)


def _kept(resource: Resource, wanted: Sequence[dict[str, Any]], found: Iterable[Obj]) -> list[Operation]:
    """Create missing objects, and restore the specifications that the server maintains."""
    there = {each["metadata"]["name"]: each for each in found}
    operations: list[Operation] = []
    for each in wanted:
        name = each["metadata"]["name"]
        now = there.get(name)
        if now is None:
            operations.append(Create(resource, each))
        elif now["spec"] != each["spec"] and _is_ours(now):
            kept = {"metadata": {"annotations": {AUTOUPDATE: "true"}}, "spec": _put_back(now["spec"], each["spec"])}
            operations.append(Patch(resource, key_of(now), kept, version=now["metadata"]["resourceVersion"]))
    return operations


def _is_ours(obj: Obj) -> bool:
    """Return True if the server maintains the specification: of a mandatory object, or as annotated."""
    metadata = obj["metadata"]
    return metadata["name"] in MANDATORY or (metadata.get("annotations") or {}).get(AUTOUPDATE) == "true"


def _put_back(now: Any, wanted: Any) -> Any:
    """Return the merge patch that changes one value into the other."""
    if not isinstance(now, dict) or not isinstance(wanted, dict):
        return wanted
    gone = {name: None for name in now if name not in wanted}
    return gone | {name: _put_back(now.get(name), value) for name, value in wanted.items() if now.get(name) != value}


def _told(schema: Obj, levels: set[str], now: int) -> list[Operation]:
    """Return the write of the condition if it has changed; other conditions stay."""
    level = schema["spec"]["priorityLevelConfiguration"]["name"]
    exists = level in levels
    before = (schema.get("status") or {}).get("conditions") or ()
    known: Obj = next((each for each in before if each.get("type") == DANGLING), {})
    condition = {
        "type": DANGLING,
        "status": "False" if exists else "True",
        "reason": "Found" if exists else "NotFound",
        "message": f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" '
        + ("and it exists" if exists else "but there is no such object"),
    }
    if all(known.get(field) == value for field, value in condition.items()):
        return []
    same = known.get("status") == condition["status"] and known.get("lastTransitionTime")
    condition["lastTransitionTime"] = same or format_time(now - now % SECOND)
    others = [each for each in before if each.get("type") != DANGLING]
    patch = {"status": {"conditions": [*others, condition]}}
    version = schema["metadata"]["resourceVersion"]
    return [Patch(FLOW_SCHEMAS, key_of(schema), patch, subresource="status", version=version)]
