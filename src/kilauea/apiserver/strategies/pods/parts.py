"""Changes of a pod through its subresources, which leave everything else unchanged.

`resize` changes the CPU and memory of containers, `ephemeralcontainers` adds containers for debugging.
"""

from __future__ import annotations

from kilauea.apiserver.fields import forbidden_field, invalid_value
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, spec_of

_RESIZED = frozenset({"cpu", "memory"})
_GROUPS = ("containers", "initContainers")
_KEPT = ("resourceVersion", "uid", "managedFields")
"""Metadata that belongs to the write and not to the pod."""


def keep_all_but(obj: Object, old: Object, part: str) -> None:
    """Restore everything that a subresource does not change."""
    spec, before = spec_of(obj), spec_of(old)
    obj["metadata"] = {**old["metadata"], **{key: obj["metadata"][key] for key in _KEPT if key in obj["metadata"]}}
    if part == "ephemeralcontainers":
        obj["spec"] = {**before, "ephemeralContainers": spec.get("ephemeralContainers") or []}
        return
    if any(len(spec.get(group) or []) != len(before.get(group) or []) for group in _GROUPS):
        return  # rejected later
    kept = {**before, **{group: _all_resized(spec[group], before[group]) for group in _GROUPS if before.get(group)}}
    kept.pop("resources", None)
    if spec.get("resources") is not None:
        kept["resources"] = spec["resources"]
    obj["spec"] = kept


def _all_resized(now: list[Object], then: list[Object]) -> list[Object]:
    """Return the old containers with new amounts; the new ones if a name differs, which is rejected later."""
    if any(one["name"] != other["name"] for one, other in zip(now, then, strict=True)):
        return now
    return [_resized(one, other) for one, other in zip(now, then, strict=True)]


def _resized(now: Object, then: Object) -> Object:
    out = {**then, "resources": now.get("resources") or {}}
    if now.get("resizePolicy") != then.get("resizePolicy"):
        out["resizePolicy"] = now.get("resizePolicy")
    return out


def check_resize(obj: Object, old: Object, qos: tuple[str, str]) -> list[Cause]:
    """Return the errors in a resize, in the order of the real server.

    Args:
        obj: the new pod.
        old: the old pod.
        qos: the QoS classes of both, which must be equal.
    """
    spec, before = spec_of(obj), spec_of(old)
    causes: list[Cause] = []
    if qos[0] != qos[1]:
        causes.append(invalid_value("spec", qos[1], "Pod QOS Class may not change as a result of resizing"))
    if _is_without_resize(old):
        causes.append(forbidden_field("spec", "Pod running on node without support for resize"))
    causes += _check_whole(spec.get("resources"), before.get("resources"))
    others = [cause for group in _GROUPS for cause in _check_same(group, spec.get(group), before.get(group))]
    if others:
        return causes + others
    pairs = {group: list(zip(spec.get(group) or [], before.get(group) or [], strict=True)) for group in _GROUPS}
    for group in ("initContainers", "containers"):
        for number, (one, other) in enumerate(pairs[group]):
            causes += _check_removed(f"spec.{group}[{number}].resources", one, other)
    for one, other in pairs["containers"]:
        if _other_parts(one) != _other_parts(other):
            causes.append(forbidden_field("spec", "only cpu and memory resources are mutable"))
    for number, (one, other) in enumerate(pairs["initContainers"]):
        causes += _check_initial(f"spec.initContainers[{number}]", one, other)
    return causes


def _is_without_resize(old: Object) -> bool:
    """Return True if the kubelet does not report the first running container's resources, as those with resize do."""
    statuses = (old.get("status") or {}).get("containerStatuses") or ()
    running = [each for each in statuses if (each.get("state") or {}).get("running") is not None]
    return bool(running) and running[0].get("resources") is None


def _check_whole(now: Object | None, then: Object | None) -> list[Cause]:
    """Return the errors in the pod-level amounts."""
    if then is not None and now is None:
        return (
            [forbidden_field("spec.resources", "pod-level resources cannot be removed")] if any(then.values()) else []
        )
    if not any((now or {}).values()) and not any((then or {}).values()):
        return []
    causes = []
    for side in _removed(now or {}, then or {}):
        causes.append(forbidden_field(f"spec.resources.{side}", f"pod-level resource {side} cannot be removed"))
    if _other_parts({"resources": now or {}}) != _other_parts({"resources": then or {}}):
        causes.append(forbidden_field("spec", "only cpu and memory resources are mutable at pod-level"))
    return causes


def _check_same(group: str, now: list[Object] | None, then: list[Object] | None) -> list[Cause]:
    """Check that containers were not added, removed, renamed or reordered."""
    path = f"spec.{group}"
    if len(now or ()) != len(then or ()):
        return [forbidden_field(path, f"{group} may not be added or removed on resize")]
    message = f"{group} may not be renamed or reordered on resize"
    return [
        forbidden_field(f"{path}[{number}].name", message)
        for number, (one, other) in enumerate(zip(now or (), then or (), strict=True))
        if one["name"] != other["name"]
    ]


def _check_initial(path: str, now: Object, then: Object) -> list[Cause]:
    """Return the errors in the change of an init container."""
    causes = []
    if _other_parts(now) != _other_parts(then):
        message = "only cpu and memory resources for init or sidecar containers are mutable"
        causes.append(forbidden_field(path, message))
    if now != then and now.get("restartPolicy") != "Always":
        message = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        policies = now.get("resizePolicy") or ()
        causes += [
            forbidden_field(path, message) for each in policies if each.get("restartPolicy") == "RestartContainer"
        ]
    return causes


def _check_removed(path: str, now: Object, then: Object) -> list[Cause]:
    sides = _removed(now.get("resources") or {}, then.get("resources") or {})
    return [forbidden_field(f"{path}.{side}", f"resource {side} cannot be removed") for side in sides]


def _removed(now: Object, then: Object) -> list[str]:
    """Return `requests` and `limits` if amounts were removed from them."""
    return [side for side in ("requests", "limits") if (then.get(side) or {}).keys() - (now.get(side) or {}).keys()]


def _other_parts(container: Object) -> Object:
    """Return the parts of a container that a resize may not change."""
    resources = container.get("resources") or {}
    amounts = {
        side: {name: each for name, each in (resources.get(side) or {}).items() if name not in _RESIZED}
        for side in ("requests", "limits")
    }
    return {**container, "resources": {**resources, **amounts}}


def check_ephemeral(obj: Object, old: Object) -> list[Cause]:
    """Return the errors in a change of ephemeral containers, each valid by itself: existing ones must not change."""
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
