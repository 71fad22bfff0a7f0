"""Kubernetes' own types as structural schemas: references resolved, with only those keywords that CRDs allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.api.crds.facts import QUANTITY

Definitions = Mapping[str, Mapping[str, Any]]
"""Definitions of OpenAPI v3 by name, such as those of a real API server."""

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
OBJECT_META = f"{_META}ObjectMeta"
_NOTED = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
_SCALARS: Definitions = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    },
}


def structural(name: str, definitions: Definitions, template_metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The structural schema of a definition that does not refer to itself.

    Lists of allowed words are left out: the API server tells of wrong ones when pods are made, and new versions of
    Kubernetes add words.

    Args:
        name: the definition, such as `io.k8s.api.core.v1.PodTemplateSpec`.
        definitions: all definitions.
        template_metadata: schema of `metadata` within templates.
    """

    def inline(raw: Mapping[str, Any]) -> dict[str, Any]:
        reference = _reference(raw)
        if reference == OBJECT_META:
            return dict(template_metadata)
        if reference in _SCALARS:
            return dict(_SCALARS[reference])
        if reference:
            raw = definitions[reference]
        out = {key: raw[key] for key in ("type", "format", "required", *_NOTED) if key in raw}
        if "properties" in raw:
            out["properties"] = {key: field(key, each, raw) for key, each in raw["properties"].items()}
        if isinstance(raw.get("additionalProperties"), dict):
            out["additionalProperties"] = inline(raw["additionalProperties"])
        if "items" in raw:
            out["items"] = inline(raw["items"])
            _default_keys(out)
        return out

    def field(key: str, raw: Mapping[str, Any], parent: Mapping[str, Any]) -> dict[str, Any]:
        out = inline(raw)
        default = raw.get("default")
        if default not in ({}, "", 0, None) and key not in parent.get("required", ()):
            out["default"] = default
        return out

    return inline({"$ref": name})


def _reference(raw: Mapping[str, Any]) -> str:
    """The definition that a schema is, or wraps; empty if none."""
    whole = raw["allOf"][0] if len(raw.get("allOf", ())) == 1 else raw
    return str(whole.get("$ref", "")).rpartition("/")[2]


def _default_keys(raw: dict[str, Any]) -> None:
    """Fields that tell the items of a list apart must be there; those that need not be get the empty text."""
    items = raw["items"]
    for key in raw.get("x-kubernetes-list-map-keys", ()):
        if key not in items.get("required", ()):
            items["properties"][key].setdefault("default", "")
