"""The built-in kinds of Kubernetes: schemas and discovery facts, read from the data files beside this module.

The files are made from a real API server by `tests/kubernetes/generate_schemas.py`; `kubernetes_version`
tells its version. They are read when a kind is first asked for.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from kilauea.apiserver.schema.coded import CODED_DEFAULTS
from kilauea.apiserver.schema.nodes import Schema

_FOLDER = Path(__file__).parent

OPEN_DEFINITIONS = {
    f"io.k8s.{name}": {"x-kubernetes-preserve-unknown-fields": True}
    for name in (
        "apimachinery.pkg.runtime.RawExtension",
        "apimachinery.pkg.apis.meta.v1.FieldsV1",
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
    )
}
"""Definitions without fields that hold anything; the real ones read JSON by code of their own."""

INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"


@cache
def _data() -> Mapping[str, Any]:
    packed = (_FOLDER / "builtin.json.gz").read_bytes()
    data: dict[str, Any] = msgspec.json.decode(zlib.decompress(packed, wbits=31))
    return data


def kubernetes_version() -> str:
    """The version of Kubernetes that the schemas are of, such as `v1.36.3`."""
    return str(_data()["version"])


def openapi_definitions() -> Mapping[str, Mapping[str, Any]]:
    """All definitions as OpenAPI v3 has them, by name; not to be changed."""
    definitions: dict[str, dict[str, Any]] = _data()["definitions"]
    return definitions


@cache
def descriptions() -> Mapping[str, Mapping[str, str]]:
    """The descriptions of the fields of each definition, by name; its own is under the empty name.

    They are made by `tests/kubernetes/generate_descriptions.py`.
    """
    packed = (_FOLDER / "descriptions.json.gz").read_bytes()
    found: dict[str, dict[str, str]] = msgspec.json.decode(zlib.decompress(packed, wbits=31))
    return found


def definition_name(group: str, version: str, kind: str) -> str:
    """The name of a kind's definition, such as `io.k8s.api.core.v1.Pod`; the core group is empty.

    Raises:
        LookupError: no such kind is built in.
    """
    name: str | None = _data()["kinds"].get(f"{group}/{version}/{kind}")
    if name is None:
        raise LookupError(f"{kind} of {group or 'the core group'}/{version} is not built in")
    return name


_OF_ALL_VERSIONS = frozenset(f"{verb}Options" for verb in ("Create", "Delete", "Get", "List", "Patch", "Update")) | {
    "WatchEvent"
}
_OF_THE_CORE = frozenset({"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "List", "Status"})


def is_known_kind(group: str, version: str, kind: str) -> bool:
    """Return True if Kubernetes has a kind of this name, or a list of such."""
    kinds: Mapping[str, str] = _data()["kinds"]
    prefix = f"{group}/{version}/"
    if f"{prefix}{kind}" in kinds or f"{prefix}{kind.removesuffix('List')}" in kinds:
        return True
    if kind in _OF_THE_CORE and prefix == "/v1/":
        return True
    return kind in _OF_ALL_VERSIONS and any(each.startswith(prefix) for each in kinds)


@cache
def definition(name: str) -> Schema:
    """The schema of a definition, with the defaults that the real server's code applies."""
    raw = dict(openapi_definitions()[name])
    raw |= OPEN_DEFINITIONS.get(name, {})
    if name == INT_OR_STRING:
        raw["x-kubernetes-int-or-string"] = True
    coded = CODED_DEFAULTS.get(name)
    if coded:
        fields = raw["properties"]
        raw["properties"] = {**fields, **{key: {**fields[key], "default": value} for key, value in coded.items()}}
    return Schema(raw, definition, name, _data()["layout"].get(name))


def builtin_schema(group: str, version: str, kind: str) -> Schema:
    """The schema of a built-in kind; the core group is empty.

    Raises:
        LookupError: no such kind is built in.
    """
    return definition(definition_name(group, version, kind))


@cache
def builtin_resources() -> tuple[Mapping[str, Any], ...]:
    """Facts of each built-in resource, in the order of discovery.

    The keys are those of an entry of aggregated discovery (`resource`, `responseKind`, `scope`, `singularResource`,
    `shortNames`, `categories`, `verbs`, `subresources`), and `group`, `version`, `storageVersionHash` and `columns`
    (name, type, format and priority of each column of its table; absent where it cannot be listed).
    """
    records: list[dict[str, Any]] = msgspec.json.decode((_FOLDER / "resources.json").read_bytes())
    return tuple(records)
