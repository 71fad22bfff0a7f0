"""Checks of the volumes of a pod, by kind: missing fields, and paths outside of the volume."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kilauea.api.names import label_problems
from kilauea.apiserver.fields import (
    check_name,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, spec_of
from kilauea.apiserver.strategies.local_paths import check_descending, check_mode, check_unreserved
from kilauea.apiserver.strategies.pods.containers import PULL_POLICIES
from kilauea.apiserver.strategies.pods.environment import SHOWN_BY_VOLUMES, check_field, check_shown_resource
from kilauea.apiserver.strategies.quantities import amount
from kilauea.apiserver.strategies.volume_sources import check_driver, check_shared_disk, check_source
from kilauea.apiserver.strategies.volumes import check_claim, check_claim_metadata

_SHORTEST_TOKEN, _LONGEST_TOKEN = 10 * 60, 2**32


def check_volumes(path: str, volumes: list[Object], *, in_pod: bool) -> tuple[list[Cause], dict[str, str]]:
    """Return the errors in the volumes of a pod, and the kinds of the valid ones by name.

    Args:
        path: the path of the list of volumes.
        volumes: the volumes with defaults.
        in_pod: False in a template, which may omit some fields.
    """
    causes: list[Cause] = []
    kinds: dict[str, str] = {}
    for number, volume in enumerate(volumes):
        name, where = volume.get("name", ""), f"{path}[{number}]"
        given = [kind for kind in volume if kind in _KINDS and volume[kind] is not None]
        if len(given) > 1:
            given = [kind for kind in _KINDS if kind in given]
        found = [] if _is_known(volume, given) else [*_check_kinds(where, volume, given, in_pod=in_pod)]
        if not name:
            found.append(required(f"{where}.name"))
        else:
            found += check_name(f"{where}.name", name, label_problems(name))
        if name in kinds:
            found.append(duplicate(f"{where}.name", name))
        if found:
            causes += found
        else:
            kinds[name] = given[0]
    return causes, kinds


_KNOWN: list[Object] = [{}]
"""The last valid projected volume: most pods have the same one, with the token of their account."""


def _is_known(volume: Object, given: list[str]) -> bool:
    """Return True if a projected volume is valid; one that equals the last valid one needs no check."""
    if given == ["projected"]:
        source = volume["projected"]
        if source == _KNOWN[0]:
            return True
        if not any(_projected("", source)):
            _KNOWN[0] = source
            return True
    return False


def _check_kinds(path: str, volume: Object, given: list[str], *, in_pod: bool) -> Iterator[Cause]:
    """Check that a volume has a source of one kind."""
    if not given:
        yield required(path, "must specify a volume type")
        return
    kind = given[0]
    check = _KINDS[kind]
    if check is not None:
        yield from check(f"{path}.{kind}", volume[kind])
    if kind == "image":
        yield from _image(f"{path}.image", volume[kind], in_pod=in_pod)
    for other in given[1:]:
        yield forbidden_field(f"{path}.{_TOLD.get(other, other)}", "may not specify more than 1 volume type")


_TOLD = {"downwardAPI": "downwarAPI", "cephfs": "cephFS"}
"""Kinds of volumes that the real server names differently."""


def _empty(path: str, source: Object) -> Iterator[Cause]:
    size = amount(str(source.get("sizeLimit") or "0"))
    if size is not None and size < 0:
        yield forbidden_field(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _repository(path: str, source: Object) -> Iterator[Cause]:
    if not source.get("repository"):
        yield required(f"{path}.repository")
    yield from check_descending(f"{path}.directory", source.get("directory") or "")


def _as_of_volumes(path: str, source: Object) -> Iterator[Cause]:
    """Check a kind with the same fields as in persistent volumes."""
    yield from check_source(path.rpartition(".")[2], source, path)


def _shared_disk(path: str, source: Object) -> Iterator[Cause]:
    for field in ("targetPortal", "iqn"):
        if not source.get(field):
            yield required(f"{path}.{field}")
    yield from check_shared_disk(source, path, in_pod=True)


def _with_secret(path: str, source: Object) -> Iterator[Cause]:
    """Check such a kind whose secret is in the namespace of the pod."""
    without = {field: value for field, value in source.items() if field != "secretRef"}
    yield from _as_of_volumes(path, without)
    if source.get("secretRef") is not None and not source["secretRef"].get("name"):
        yield required(f"{path}.secretRef.name")


def _files(name: str) -> Callable[[str, Object], Iterator[Cause]]:
    """Return the check of a volume whose files are the keys of an object, named by the field `name`."""

    def check(path: str, source: Object) -> Iterator[Cause]:
        if not source.get(name):
            yield required(f"{path}.{name}")
        yield from check_mode(f"{path}.defaultMode", source.get("defaultMode"))
        for number, item in enumerate(source.get("items") or ()):
            yield from _check_item(f"{path}.items[{number}]", item)

    return check


def _check_item(path: str, item: Object) -> Iterator[Cause]:
    if not item.get("key"):
        yield required(f"{path}.key")
    if not item.get("path"):
        yield required(f"{path}.path")
    yield from check_unreserved(f"{path}.path", item.get("path") or "")
    yield from check_mode(f"{path}.mode", item.get("mode"))


def _downward(path: str, source: Object) -> Iterator[Cause]:
    yield from check_mode(f"{path}.defaultMode", source.get("defaultMode"))
    for item in source.get("items") or ():
        yield from _check_shown(path, item)


def _check_shown(path: str, item: Object) -> Iterator[Cause]:
    """Check a file that exposes a pod field; `path` is that of the volume, as in messages of the real server."""
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if not item.get("path"):
        yield required(f"{path}.path")
    yield from check_unreserved(f"{path}.path", item.get("path") or "")
    if field is not None:
        yield from check_field(f"{path}.fieldRef", field, SHOWN_BY_VOLUMES)
        if resource is not None:
            message = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid_value(path, "resource", message)
    elif resource is not None:
        yield from check_shown_resource(f"{path}.resourceFieldRef", resource, in_volume=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from check_mode(f"{path}.mode", item.get("mode"))


def _claim(path: str, source: Object) -> Iterator[Cause]:
    if not source.get("claimName"):
        yield required(f"{path}.claimName")


def _azure_file(path: str, source: Object) -> Iterator[Cause]:
    for field in ("secretName", "shareName"):
        if not source.get(field):
            yield required(f"{path}.{field}")


def _object_storage(path: str, source: Object) -> Iterator[Cause]:
    name, namespace, secret = (source.get(field) for field in ("volumeName", "volumeNamespace", "secretRef"))
    if not name:
        yield required(f"{path}.volumeName")
    else:
        yield from check_name(f"{path}.volumeName", name, label_problems(name))
    if namespace:
        yield from check_name(f"{path}.volumeNamespace", namespace, label_problems(namespace))
    if secret is not None and not secret.get("name"):
        yield required(f"{path}.secretRef.name")


def _driver(path: str, source: Object) -> Iterator[Cause]:
    secret = source.get("nodePublishSecretRef")
    yield from check_driver(f"{path}.driver", source.get("driver") or "")
    if secret is not None and not secret.get("name"):
        yield required(f"{path}.nodePublishSecretRef.name")


def _ephemeral(path: str, source: Object) -> Iterator[Cause]:
    template, where = source.get("volumeClaimTemplate"), f"{path}.volumeClaimTemplate"
    if template is None:
        yield required(where)
        return
    yield from check_claim_metadata(f"{where}.metadata", template.get("metadata") or {})
    yield from check_claim(f"{where}.spec", spec_of(template))


def _image(path: str, source: Object, *, in_pod: bool) -> Iterator[Cause]:
    """Check an image volume; a template may omit the reference."""
    if in_pod and not source.get("reference"):
        yield required(f"{path}.reference")
    policy = source.get("pullPolicy", "Always")
    if policy not in PULL_POLICIES:
        yield not_supported(f"{path}.pullPolicy", policy, PULL_POLICIES)


def _projected(path: str, source: Object) -> Iterator[Cause]:
    yield from check_mode(f"{path}.defaultMode", source.get("defaultMode"))
    taken: set[str] = set()
    for number, part in enumerate(source.get("sources") or ()):
        where = f"{path}.sources[{number}]"
        given = [kind for kind in _PROJECTED if part.get(kind) is not None]
        for kind in given[:1]:
            yield from _PROJECTED[kind](path, f"{where}.{kind}", part[kind], taken)
        for _ in given[1:]:
            yield forbidden_field(where, "may not specify more than 1 volume type per source")


def _projected_files(path: str, where: str, source: Object, taken: set[str]) -> Iterator[Cause]:
    name = source.get("name") or ""
    if not name:
        yield required(f"{where}.name")
    for number, item in enumerate(source.get("items") or ()):
        yield from _check_item(f"{where}.items[{number}]", item)
        yield from _take(path, item.get("path") or "", name, taken)


def _take(path: str, place: str, told: str, taken: set[str]) -> Iterator[Cause]:
    """Check that no other file of the volume has this path."""
    if place in taken:
        yield invalid_value(path, told, "conflicting duplicate paths")
    if place:
        taken.add(place)


def _projected_fields(path: str, where: str, source: Object, taken: set[str]) -> Iterator[Cause]:
    for item in source.get("items") or ():
        yield from _check_shown(where, item)
        yield from _take(path, item.get("path") or "", item.get("path") or "", taken)


def _projected_token(path: str, where: str, source: Object, taken: set[str]) -> Iterator[Cause]:
    seconds, place = source.get("expirationSeconds", _SHORTEST_TOKEN), source.get("path") or ""
    if seconds < _SHORTEST_TOKEN:
        yield invalid_value(f"{where}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > _LONGEST_TOKEN:
        message = "may not specify a duration larger than 2^32 seconds"
        yield invalid_value(f"{where}.expirationSeconds", seconds, message)
    if not place:
        yield required(f"{path}.path")
    else:
        yield from check_unreserved(f"{path}.path", place)


_PROJECTED: Mapping[str, Callable[[str, str, Object, set[str]], Iterator[Cause]]] = {
    "secret": _projected_files,
    "configMap": _projected_files,
    "downwardAPI": _projected_fields,
    "serviceAccountToken": _projected_token,
}
_KINDS: Mapping[str, Callable[[str, Object], Iterator[Cause]] | None] = {
    "emptyDir": _empty,
    "hostPath": _as_of_volumes,
    "gitRepo": _repository,
    "gcePersistentDisk": _as_of_volumes,
    "awsElasticBlockStore": _as_of_volumes,
    "secret": _files("secretName"),
    "nfs": _as_of_volumes,
    "iscsi": _shared_disk,
    "glusterfs": _as_of_volumes,
    "flocker": _as_of_volumes,
    "persistentVolumeClaim": _claim,
    "rbd": _as_of_volumes,
    "cinder": _with_secret,
    "cephfs": _as_of_volumes,
    "quobyte": _as_of_volumes,
    "downwardAPI": _downward,
    "fc": _as_of_volumes,
    "flexVolume": _as_of_volumes,
    "configMap": _files("name"),
    "azureFile": _azure_file,
    "vsphereVolume": _as_of_volumes,
    "photonPersistentDisk": _as_of_volumes,
    "portworxVolume": _as_of_volumes,
    "azureDisk": _as_of_volumes,
    "storageos": _object_storage,
    "projected": _projected,
    "scaleIO": _as_of_volumes,
    "csi": _driver,
    "ephemeral": _ephemeral,
    "image": None,
}
"""Checks of the source by kind of volume, in the order of the real server."""
