"""Contents of volumes that come from objects: ConfigMaps, Secrets, and pod fields. All functions are pure."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kilauea.api.kinds import CONFIG_MAPS, SECRETS
from kilauea.api.ports import Key, Obj, Resource

DEFAULT_MODE = 0o644
_NO_KEY = {
    CONFIG_MAPS: "configmap references non-existent config key",
    SECRETS: "references non-existent secret key",
}
Lookup = Callable[[Resource, Key], Obj | None]
"""Returns an object; None if there is none."""
FieldValue = Callable[[Obj], str]
"""Returns the text of an item of a downward API volume; raises `VolumeError`."""


class VolumeError(Exception):
    """A volume cannot be mounted; the message is that of kubelets, or contains the fix."""


class File(NamedTuple):
    """A file of a volume.

    Attributes:
        data: its content.
        mode: its mode.
        user: its owner; None for the user of this process.
    """

    data: bytes
    mode: int = DEFAULT_MODE
    user: int | None = None


Files = Mapping[str, File]
"""Files by their path in the volume."""


def object_files(
    resource: Resource, source: Obj, namespace: str, lookup: Lookup, mode: int = DEFAULT_MODE
) -> dict[str, File]:
    """Return the files of a ConfigMap or a Secret.

    Args:
        resource: which of the two.
        source: the source of the volume, or of a part of a projected volume.
        namespace: of the pod.
        lookup: returns the object.
        mode: of files for which the source does not say another.

    Raises:
        VolumeError: it does not exist, or lacks a key, and is not optional.
    """
    name = source.get("secretName") or source.get("name") or ""
    mode, optional = source.get("defaultMode", mode), bool(source.get("optional"))
    found = lookup(resource, Key(namespace, name))
    if found is None:
        if optional:
            return {}
        raise VolumeError(f'{resource.kind.lower()} "{name}" not found')
    return selected(contents(found), source.get("items") or (), mode, None if optional else _NO_KEY[resource])


def contents(found: Obj) -> dict[str, bytes]:
    """The entries of a ConfigMap or a Secret."""
    data = found.get("data") or {}
    if found.get("kind") == SECRETS.kind:
        return {key: base64.b64decode(text) for key, text in data.items()}
    binary = {key: base64.b64decode(text) for key, text in (found.get("binaryData") or {}).items()}
    return {**{key: text.encode() for key, text in data.items()}, **binary}


def selected(entries: Mapping[str, bytes], items: Sequence[Obj], mode: int, fault: str | None) -> dict[str, File]:
    """Return the files for entries: all, or those that items name.

    Args:
        entries: of a ConfigMap or a Secret.
        items: names of entries, with their paths; empty for all.
        mode: of files for which the item does not say another.
        fault: the message for a missing entry; None if entries are optional.

    Raises:
        VolumeError: a required entry is missing.
    """
    if not items:
        return {key: File(data, mode) for key, data in sorted(entries.items())}
    files = {}
    for item in items:
        if item["key"] in entries:
            files[safe_path(item["path"])] = File(entries[item["key"]], item.get("mode", mode))
        elif fault is not None:
            raise VolumeError(f"{fault}: {item['key']}")
    return files


def safe_path(path: str) -> str:
    """Return a path in a volume unchanged.

    Raises:
        VolumeError: it is outside of the volume.
    """
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or path.startswith(".."):
        raise VolumeError(f'invalid path "{path}": it must be relative and must not contain ".."')
    return path


def field_files(source: Obj, value: FieldValue, mode: int = DEFAULT_MODE) -> dict[str, File]:
    """Return the files of a downward API volume.

    Raises:
        VolumeError: a field does not exist.
    """
    mode = source.get("defaultMode", mode)
    return {
        safe_path(item["path"]): File(value(item).encode(), item.get("mode", mode))
        for item in source.get("items") or ()
    }


def projected_files(
    source: Obj, namespace: str, lookup: Lookup, value: FieldValue, tokens: Mapping[str, File]
) -> dict[str, File]:
    """Return the files of a projected volume; later sources take precedence.

    Args:
        source: the volume's source.
        namespace: of the pod.
        lookup: returns ConfigMaps and Secrets.
        value: returns the text of fields.
        tokens: of the service account, by their path in the volume.

    Raises:
        VolumeError: a required object is missing, or a source is of an unknown kind.
    """
    mode, files = source.get("defaultMode", DEFAULT_MODE), dict[str, File]()
    for part in source.get("sources") or ():
        if "configMap" in part:
            files |= object_files(CONFIG_MAPS, part["configMap"], namespace, lookup, mode)
        elif "secret" in part:
            files |= object_files(SECRETS, part["secret"], namespace, lookup, mode)
        elif "downwardAPI" in part:
            files |= field_files(part["downwardAPI"], value, mode)
        elif "serviceAccountToken" in part:
            path = safe_path(part["serviceAccountToken"]["path"])
            files[path] = tokens[path]
        else:
            kinds = "configMap, secret, downwardAPI or serviceAccountToken"
            raise VolumeError(f"projected source {', '.join(part)} is not supported: use {kinds}")
    return files
