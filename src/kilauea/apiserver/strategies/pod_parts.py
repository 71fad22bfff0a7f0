"""Changes of a pod through its subresources; all else stays as it was.

`resize` gives containers other amounts of cpu and memory, `ephemeralcontainers` adds containers to look into the pod.
"""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.fields import forbidden_field, invalid_value
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, spec_of

_RESIZED = frozenset({"cpu", "memory"})
_GROUPS = ("containers", "initContainers")
_KEPT = ("resourceVersion", "uid", "managedFields")
"""Metadata that goes with the write and not with the pod."""


def keep_all_but(obj: Object, old: Object, part: str) -> None:
    """Put back everything that a subresource does not change."""
    spec, before = spec_of(obj), spec_of(old)
    obj["metadata"] = {**old["metadata"], **{key: obj["metadata"][key] for key in _KEPT if key in obj["metadata"]}}
    if part == "ephemeralcontainers":
        obj["spec"] = {**before, "ephemeralContainers": spec.get("ephemeralContainers") or []}
        return
    kept = dict(before)
    for group in _GROUPS:
        now, then = spec.get(group) or [], before.get(group) or []
        if len(now) != len(then):
            kept[group] = now
        elif now:
            kept[group] = [_resized(one, other) for one, other in zip(now, then, strict=True)]
    obj["spec"] = kept


def _resized(now: Object, then: Object) -> Object:
    out = {**then, "resources": now.get("resources") or {}}
    if now.get("resizePolicy") != then.get("resizePolicy"):
        out["resizePolicy"] = now.get("resizePolicy")
    return out


def check_resize(obj: Object, old: Object, qos: tuple[str, str]) -> list[Cause]:
    """Return the errors in a resize.

    Args:
        obj: the pod as it shall be.
        old: as it is.
        qos: the quality of service of both, which must be one.
    """
    spec, before = spec_of(obj), spec_of(old)
    causes: list[Cause] = []
    for group in _GROUPS:
        now, then = spec.get(group) or [], before.get(group) or []
        if len(now) != len(then):
            return [forbidden_field(f"spec.{group}", "containers may not be added or removed on resize")]
        for number, (one, other) in enumerate(zip(now, then, strict=True)):
            causes += _check_removed(f"spec.{group}[{number}].resources", one, other)
    if any(_other_parts(spec, group) != _other_parts(before, group) for group in _GROUPS):
        causes.append(forbidden_field("spec", "only cpu and memory resources are mutable"))
    if qos[0] != qos[1]:
        causes.append(invalid_value("spec", qos[1], "Pod QOS Class may not change as a result of resizing"))
    return causes


def _check_removed(path: str, now: Object, then: Object) -> list[Cause]:
    causes = []
    for side in ("requests", "limits"):
        amounts, before = ((each.get("resources") or {}).get(side) or {} for each in (now, then))
        if any(name in _RESIZED and name not in amounts for name in before):
            causes.append(forbidden_field(f"{path}.{side}", f"resource {side} cannot be removed"))
    return causes


def _other_parts(spec: Object, group: str) -> list[Any]:
    """The parts of containers that a resize may not change."""
    found = []
    for container in spec.get(group) or []:
        resources = container.get("resources") or {}
        amounts = {
            side: {name: each for name, each in (resources.get(side) or {}).items() if name not in _RESIZED}
            for side in ("requests", "limits")
        }
        found.append({**container, "resources": {**resources, **amounts}})
    return found


def check_ephemeral(obj: Object, old: Object) -> list[Cause]:
    """Return the errors in a change of ephemeral containers, each valid by itself: existing ones stay as they are."""
    now, then = (spec_of(each).get("ephemeralContainers") or [] for each in (obj, old))
    named = {each["name"]: each for each in now if each.get("name")}
    causes: list[Cause] = []
    for container in then:
        name = container["name"]
        if name not in named or named[name] != container:
            what = "changed" if name in named else "removed"
            message = f'existing ephemeral containers "{name}" may not be {what}\n'
            causes.append(forbidden_field("spec.ephemeralContainers", message))
    return causes
