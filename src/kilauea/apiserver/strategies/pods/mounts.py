"""Checks of the volumes that a container uses: mounts and raw block devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kilauea.apiserver.fields import forbidden_field, invalid_value, missing_reference, not_supported, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object
from kilauea.apiserver.strategies.local_paths import check_descending

_PROPAGATION = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_RAW = frozenset(("persistentVolumeClaim", "ephemeral"))
_OPTIONS = frozenset(("subPath", "subPathExpr", "mountPropagation", "recursiveReadOnly"))


def check_mounts(path: str, container: Object, volumes: Mapping[str, str]) -> list[Cause]:
    """Check that mounts name volumes of the pod and have unique paths.

    Args:
        path: the path of the list of mounts.
        container: the container with defaults.
        volumes: the kinds of the valid volumes, by name.
    """
    causes: list[Cause] = []
    places: set[str] = set()
    devices = container.get("volumeDevices") or ()
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            causes.append(required(f"{path}[{number}].name"))
        if name not in volumes:
            causes.append(missing_reference(f"{path}[{number}].name", name))
        if not place:
            causes.append(required(f"{path}[{number}].mountPath"))
        if place in places:
            causes.append(invalid_value(f"{path}[{number}].mountPath", place, "must be unique"))
        places.add(place)
        if devices:
            causes += _check_overlap(f"{path}[{number}]", (name, place), "mountPath", _used(devices, "devicePath"))
        if not _OPTIONS.isdisjoint(mount):
            causes += _check_options(path, number, mount, container)
    return causes


def _used(parts: list[Object], place: str) -> tuple[str, set[str], set[str]]:
    """Return the name of the other list, its volumes, and the last path of each volume, as the real server does."""
    paths = {each.get("name", ""): each.get(place, "") for each in parts}
    return "volumeDevices" if place == "devicePath" else "volumeMounts", set(paths), set(paths.values())


def _check_overlap(
    path: str, part: tuple[str, str], field: str, other: tuple[str, set[str], set[str]]
) -> Iterator[Cause]:
    """Check that a volume is either mounted or a device, and that paths are not used for both."""
    used, names, places = other
    if part[0] in names:
        yield invalid_value(f"{path}.name", part[0], f"must not already exist in {used}")
    if part[1] in places:
        yield invalid_value(f"{path}.{field}", part[1], f"must not already exist as a path in {used}")


def _check_options(path: str, number: int, mount: Object, container: Object) -> Iterator[Cause]:
    if mount.get("subPath"):
        yield from check_descending(f"{path}.subPath", mount["subPath"])
    if mount.get("subPathExpr"):
        if mount.get("subPath"):
            message = "subPathExpr and subPath are mutually exclusive"
            yield invalid_value(f"{path}[{number}].subPathExpr", mount["subPathExpr"], message)
        yield from check_descending(f"{path}.subPathExpr", mount["subPathExpr"])
    way = mount.get("mountPropagation")
    if way is not None:
        where = f"{path}.mountPropagation"
        if way not in _PROPAGATION:
            yield not_supported(where, way, _PROPAGATION)
        if way == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            message = "Bidirectional mount propagation is available only to privileged containers"
            yield forbidden_field(where, message)
    yield from _check_recursion(f"{path}.recursiveReadOnly", mount)


def _check_recursion(path: str, mount: Object) -> Iterator[Cause]:
    """Check that recursiveReadOnly is set only in read-only mounts without propagation."""
    rule = mount.get("recursiveReadOnly")
    if rule is None or rule == "Disabled":
        return
    if rule not in _RECURSIVE:
        yield not_supported(path, rule, _RECURSIVE)
        return
    if not mount.get("readOnly"):
        yield forbidden_field(path, "may only be specified when readOnly is true")
    if mount.get("mountPropagation") not in (None, "None"):
        yield forbidden_field(path, "may only be specified when mountPropagation is None or not specified")


def check_devices(path: str, container: Object, volumes: Mapping[str, str]) -> Iterator[Cause]:
    """Check the volumes that a container uses as devices; the arguments are those of `check_mounts`."""
    names: set[str] = set()
    places: set[str] = set()
    mounted = _used(container.get("volumeMounts") or [], "mountPath")
    for number, device in enumerate(container.get("volumeDevices") or ()):
        where, name, place = f"{path}[{number}]", device.get("name", ""), device.get("devicePath", "")
        if not name:
            yield required(f"{where}.name")
        if name in names:
            yield invalid_value(f"{where}.name", name, "must be unique")
        if name not in volumes:
            yield missing_reference(f"{where}.name", name)
        elif volumes[name] not in _RAW:
            message = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid_value(f"{where}.name", name, message)
        if not place:
            yield required(f"{where}.devicePath")
        if place in places:
            yield invalid_value(f"{where}.devicePath", place, "must be unique")
        if ".." in place.split("/"):
            yield invalid_value(f"{where}.devicePath", place, "can not contain backsteps ('..')")
        else:
            places.add(place)
        yield from _check_overlap(where, (name, place), "devicePath", mounted)
        if name:
            names.add(name)
