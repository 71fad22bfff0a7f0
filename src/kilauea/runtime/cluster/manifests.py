"""Applies manifests to a cluster, like `kubectl apply --server-side`: namespaces, definitions and the like first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kilauea.api.ports import Api, ApiError, Key, Resource
from kilauea.api.yamltext import TextError, read_documents
from kilauea.runtime.inputs.files import read_bytes

FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass", "StorageClass", "Queue", "Node")
"""Kinds to apply first, in this order, because others may need them."""

NOT_FOUND = 404

ResourceOf = Callable[[str, str], Resource | None]
"""Returns the resource of an `apiVersion` and a `kind`; None if the cluster does not have it."""


class ManifestError(Exception):
    """A manifest cannot be applied; the message names the source, the object and the error."""


class Manifest(NamedTuple):
    """An object in a file."""

    source: str
    body: dict[str, Any]

    @property
    def label(self) -> str:
        """Name of the object in messages."""
        metadata = self.body.get("metadata") or {}
        return f"{self.source}: {self.body.get('kind')} {metadata.get('name', 'without a name')}"


def read_manifests(paths: Sequence[str]) -> list[Manifest]:
    """The objects in files and folders, in the order in which to apply them."""
    found: list[Manifest] = []
    for source, data in read_bytes(paths):
        for part in read_documents(data.removeprefix(b"\xef\xbb\xbf")):
            if isinstance(part, TextError):
                raise ManifestError(f"{source}: line {part.line}, column {part.column}: {part.message}")
            if part.faults:
                fault = part.faults[0]
                raise ManifestError(f"{source}: line {fault.line}, column {fault.column}: {fault.message}")
            found += _objects(source, part.value)
    return sorted(found, key=lambda each: _turn(each.body))


def _turn(body: Mapping[str, Any]) -> int:
    kind = body["kind"]
    return FIRST.index(kind) if kind in FIRST else len(FIRST)


def _objects(source: str, value: Any) -> list[Manifest]:
    """The objects of a document: none, one, or those in a list."""
    if value is None:
        return []
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise ManifestError(f"{source}: a document without a kind: every object needs apiVersion, kind and metadata")
    if value["kind"] == "List" or (value["kind"].endswith("List") and isinstance(value.get("items"), list)):
        items = value.get("items") or []
        if not isinstance(items, list):
            raise ManifestError(f"{source}: {value['kind']}: items is {items!r}: it must be a list of objects")
        return [each for item in items for each in _objects(source, item)]
    _check(source, value)
    return [Manifest(source, value)]


def _check(source: str, body: Mapping[str, Any]) -> None:
    """Check the fields that identify an object."""
    kind, version, metadata = body["kind"], body.get("apiVersion"), body.get("metadata") or {}
    if not isinstance(version, str):
        raise ManifestError(f"{source}: {kind}: apiVersion is {version!r}: it must be text such as v1 or batch/v1")
    if not isinstance(metadata, dict):
        raise ManifestError(f"{source}: {kind}: metadata is {metadata!r}: it must be a map with a name")
    for field in ("name", "namespace"):
        if not isinstance(metadata.get(field, ""), str):
            raise ManifestError(f"{source}: {kind}: metadata.{field} is {metadata[field]!r}: text is needed; quote it")


async def apply_manifests(api: Api, manifests: Sequence[Manifest], resource_of: ResourceOf, manager: str) -> None:
    """Apply objects in order, with their status if they have one.

    Raises:
        ManifestError: an object is rejected; those before it are applied.
    """
    for manifest in manifests:
        body = manifest.body
        resource = resource_of(body["apiVersion"], body["kind"])
        if resource is None:
            raise ManifestError(f"{manifest.label}: the cluster has no {body['kind']} of {body['apiVersion']}")
        metadata = dict(body.get("metadata") or {})
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        key = Key(metadata.get("namespace", ""), metadata.get("name", ""))
        whole = {**body, "metadata": metadata}
        try:
            await _apply(api, resource, key, whole, manager)
        except ApiError as error:
            raise ManifestError(f"{manifest.label}: {error.message}") from error


async def _apply(api: Api, resource: Resource, key: Key, body: dict[str, Any], manager: str) -> None:
    wanted = {name: part for name, part in body.items() if name != "status"}
    if not key.name:
        await api.create(resource, key.namespace, wanted)
        return
    await api.patch(resource, key, wanted, "apply", manager=manager, force=True)
    if body.get("status"):
        status = {"apiVersion": body["apiVersion"], "kind": body["kind"], "status": body["status"]}
        status["metadata"] = {k: v for k, v in body["metadata"].items() if k in ("name", "namespace")}
        try:
            await api.patch(resource, key, status, "apply", "status", manager, force=True)
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            # The object exists, so its kind has no status subresource: the status is a field like others.
            await api.patch(resource, key, {**wanted, "status": body["status"]}, "apply", manager=manager, force=True)
