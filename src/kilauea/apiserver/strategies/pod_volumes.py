"""Checks of the sources of a pod's volumes: fields that are missing, and paths that lead out of the volume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kilauea.apiserver.fields import check_name, invalid_value, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object
from kilauea.apiserver.strategies.volume_sources import check_source, driver_problems

_NEEDED: Mapping[str, str] = {
    "configMap": "name",
    "csi": "driver",
    "ephemeral": "volumeClaimTemplate",
    "persistentVolumeClaim": "claimName",
    "secret": "secretName",
}
_SHARED = frozenset(("hostPath", "nfs"))
CHECKED = _NEEDED.keys() | _SHARED
"""Kinds of volumes whose source is checked."""


def check_pod_source(path: str, kind: str, source: Object) -> Iterator[Cause]:
    """The errors in the source of one volume, of a kind in `CHECKED`."""
    if kind in _SHARED:
        yield from check_source(kind, source, path)
        return
    needed = _NEEDED[kind]
    if not source.get(needed):
        yield required(f"{path}.{needed}")
    elif kind == "csi":
        yield from check_name(f"{path}.driver", source["driver"], driver_problems(source["driver"]))
    for number, item in enumerate(source.get("items") or ()):
        yield from _check_item(f"{path}.items[{number}]", item)


def _check_item(path: str, item: Object) -> Iterator[Cause]:
    place = item.get("path") or ""
    if not item.get("key"):
        yield required(f"{path}.key")
    if not place:
        yield required(f"{path}.path")
    elif place.startswith("/"):
        yield invalid_value(f"{path}.path", place, "must be a relative path")
    elif ".." in place.split("/"):
        yield invalid_value(f"{path}.path", place, "must not contain '..'")
    elif place.startswith(".."):
        yield invalid_value(f"{path}.path", place, "must not start with '..'")
