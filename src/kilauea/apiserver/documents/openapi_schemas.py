"""Schemas in published OpenAPI: complete custom resources, their lists, and descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.schema import descriptions

_LIKE = "io.k8s.api.core.v1.ConfigMap"
"""The definition from which the common fields of custom resources are described."""
_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1."


def described(resource: ResourceType, name: str) -> dict[str, dict[str, Any]]:
    """Return the schemas of a kind that is not built in, and of its list, by name.

    Args:
        resource: the kind.
        name: the name of its schema.
    """
    whole = dict(resource.schema.raw if resource.told_schema is None else resource.told_schema)
    whole.pop("x-kubernetes-embedded-resource", None)
    one, several = descriptions()[_LIKE], descriptions()[f"{_LIKE}List"]
    whole["properties"] = {
        "apiVersion": {"type": "string", "description": one["apiVersion"]},
        "kind": {"type": "string", "description": one["kind"]},
        "metadata": {"allOf": [{"$ref": f"{_META}ObjectMeta"}], "description": one["metadata"]},
        **{key: each for key, each in whole.get("properties", {}).items() if key not in _OWN},
    }
    many = {
        "type": "object",
        "description": f"A list of {resource.plural}.",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": several["apiVersion"]},
            "items": {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}},
            "kind": {"type": "string", "description": several["kind"]},
            "metadata": {"allOf": [{"$ref": f"{_META}ListMeta"}], "description": several["metadata"]},
        },
    }
    return {
        name: _marked(whole, resource, resource.kind),
        f"{name}List": _marked(many, resource, resource.kind_of_list),
    }


def with_descriptions(name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a definition, with the descriptions of Kubernetes if it is built in."""
    told = descriptions().get(name)
    if told is None:
        return dict(raw)
    out = {**raw, "description": told[""]} if "" in told else dict(raw)
    if "properties" in raw:
        fields = raw["properties"].items()
        out["properties"] = {key: {**each, "description": told[key]} if key in told else each for key, each in fields}
    return out


def in_older_form(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a custom kind for OpenAPI v2, whose clients reject unlisted fields of open schemas."""
    if raw.get(_PRESERVES):
        return {"type": "object", _MARK: raw[_MARK]}
    return _loosened(raw)


def _loosened(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the parts that clients of OpenAPI v2 misread, at all depths."""
    out = {key: value for key, value in raw.items() if key not in ("nullable", "oneOf", "anyOf", "not")}
    is_open = raw.get(_PRESERVES)
    if raw.get("nullable") or is_open:
        out = {key: value for key, value in out.items() if key not in ("items", "properties")}
    if raw.get("nullable") or (is_open and raw.get("type") == "object") or _is_bare_list(out):
        out.pop("type", None)
    for key in ("items", "additionalProperties"):
        if isinstance(out.get(key), dict):
            out[key] = _loosened(out[key])
    if "properties" in out:
        out["properties"] = {name: _loosened(each) for name, each in out["properties"].items()}
    return out


def _is_bare_list(raw: dict[str, Any]) -> bool:
    return raw.get("type") == "array" and "items" not in raw


_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_MARK = "x-kubernetes-group-version-kind"
_OWN = ("apiVersion", "kind", "metadata")


def _marked(raw: dict[str, Any], resource: ResourceType, kind: str) -> dict[str, Any]:
    """Return a schema marked with its kind, by which clients find it."""
    mark = {"group": resource.group, "version": resource.version, "kind": kind}
    return {**raw, _MARK: [mark]}
