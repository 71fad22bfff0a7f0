"""The page about the custom resources, from the types that their definitions are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generators.markdown import BLANK, code, page, table
from kilauea.api.crds import definitions
from kilauea.apiserver.schema import openapi_definitions

Schema = Mapping[str, Any]
TEMPLATES = ("template", "volumeClaim", "volumes")
"""Fields whose insides are Kubernetes' own, and not repeated here."""


def resources_page() -> str:
    """All kinds with their fields."""
    kinds = sorted(definitions(openapi_definitions()), key=lambda each: each["spec"]["names"]["kind"])
    introduction = (
        "The custom resources, as the definitions in `deploy/crds` declare them. `kubectl explain` shows the same on a "
        "cluster. `[]` stands for the elements of a list, `{}` for the values of a map."
    )
    return page("Resources", introduction, *(_kind(each) for each in kinds))


def _kind(definition: Mapping[str, Any]) -> Iterator[str]:
    spec = definition["spec"]
    (version,) = spec["versions"]
    names = spec["names"]
    schema = version["schema"]["openAPIV3Schema"]
    yield from (f"## {names['kind']}", BLANK, schema.get("description", ""), BLANK)
    short = ", ".join(code(name) for name in names.get("shortNames", ()))
    facts = [["apiVersion", code(f"{spec['group']}/{version['name']}")], ["plural", code(names["plural"])]]
    facts += [["short names", short]] if short else []
    facts += [["belongs to", "a namespace" if spec["scope"] == "Namespaced" else "the whole cluster"]]
    yield from table(["", names["kind"]], facts)
    for part in schema["properties"]:
        if part in ("apiVersion", "kind", "metadata"):
            continue
        rows = list(_fields(part, schema["properties"][part]))
        yield from table(["field", "type", "meaning"], rows)


def _fields(path: str, schema: Schema) -> Iterator[list[str]]:
    yield [code(path), _type(schema), _meaning(schema)]
    if path.rsplit(".", 1)[-1].removesuffix("[]") in TEMPLATES:
        return
    inner, inside = _inside(path, schema)
    for name, field in (inside.get("properties") or {}).items():
        yield from _fields(f"{inner}.{name}", field)


def _inside(path: str, schema: Schema) -> tuple[str, Schema]:
    """The schema whose fields are listed below a field: its own, or that of its elements."""
    if "items" in schema:
        return f"{path}[]", schema["items"]
    values = schema.get("additionalProperties")
    return (f"{path}{{}}", values) if isinstance(values, dict) else (path, schema)


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "items" in schema:
        return f"list of {_type(schema['items'])}"
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        return f"map of {_type(values)}"
    return str(schema.get("type", "any"))


def _meaning(schema: Schema) -> str:
    parts = [schema.get("description", "")]
    if "enum" in schema:
        parts.append(f"One of {', '.join(code(str(each)) for each in schema['enum'] if each != '')}.")
    if "default" in schema:
        parts.append(f"Default: {code(str(schema['default']))}.")
    bounds = [
        f"{word} {schema[key]}" for key, word in (("minimum", "at least"), ("maximum", "at most")) if key in schema
    ]
    if bounds:
        parts.append(f"{', '.join(bounds).capitalize()}.")
    return " ".join(part for part in parts if part)
