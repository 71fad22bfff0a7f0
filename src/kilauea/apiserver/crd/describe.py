"""The schemas of custom resources as OpenAPI tells them to clients: complete objects, and lists of them."""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.resources.types import ResourceType

_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1."


def described(resource: ResourceType, name: str) -> dict[str, dict[str, Any]]:
    """The schemas of a custom kind and of its list, by name.

    Args:
        resource: the kind.
        name: name of its schema.
    """
    whole = dict(resource.schema.raw)
    whole.pop("x-kubernetes-embedded-resource", None)
    whole["properties"] = {
        "apiVersion": {"type": "string", "description": "Group and version of this form of the object."},
        "kind": {"type": "string", "description": "Kind of the object."},
        "metadata": {"allOf": [{"$ref": f"{_META}ObjectMeta"}], "description": "Identity, labels and times."},
        **{key: each for key, each in whole.get("properties", {}).items() if key not in _OWN},
    }
    many = {
        "type": "object",
        "description": f"A list of {resource.plural}.",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Group and version of this form of the list."},
            "items": {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}},
            "kind": {"type": "string", "description": "Kind of the list."},
            "metadata": {"allOf": [{"$ref": f"{_META}ListMeta"}], "description": "Revision and continuation."},
        },
    }
    return {
        name: _marked(whole, resource, resource.kind),
        f"{name}List": _marked(many, resource, resource.kind_of_list),
    }


_OWN = ("apiVersion", "kind", "metadata")


def _marked(raw: dict[str, Any], resource: ResourceType, kind: str) -> dict[str, Any]:
    """A schema with the kind that it is of, by which clients find it."""
    mark = {"group": resource.group, "version": resource.version, "kind": kind}
    return {**raw, "x-kubernetes-group-version-kind": [mark]}
