"""From wire types to structural schemas of OpenAPI v3, as CustomResourceDefinitions carry them."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

import msgspec

from kilauea.api.batch import TemplateMeta
from kilauea.api.crds import agent_facts, batch_facts, flow_facts, scheduling_facts, shared_facts
from kilauea.api.crds.facts import QUANTITY, Fact, Facts
from kilauea.api.crds.kubernetes_types import Definitions, structural
from kilauea.api.meta import Object, ResourceMap, Wire

FACTS: Facts = {
    each: table
    for module in (shared_facts, batch_facts, scheduling_facts, flow_facts, agent_facts)
    for each, table in module.FACTS.items()
}
"""All facts."""

_SCALARS: Mapping[Any, str] = {str: "string", int: "integer", bool: "boolean"}
_BASE: Mapping[str, Any] = {
    "apiVersion": {"type": "string", "description": "Group and version of this form of the object."},
    "kind": {"type": "string", "description": "Kind of the object."},
    "metadata": {"type": "object"},
}


class Schemas:
    """Makes schemas of types; Kubernetes' own types within them come from its definitions."""

    def __init__(self, kubernetes: Definitions) -> None:
        self._kubernetes = kubernetes

    def of_object(self, kind: type[Object]) -> dict[str, Any]:
        """The schema of a whole object."""
        out = self._of_struct(kind)
        out["properties"] = {**_BASE, **out["properties"]}
        return out

    def _of_struct(self, struct: type[Wire]) -> dict[str, Any]:
        facts = FACTS.get(struct, {})
        hints = typing.get_type_hints(struct)
        properties, required = {}, []
        unknown = set(facts)
        for each in msgspec.structs.fields(struct):
            unknown.discard(each.name)
            if each.encode_name in _BASE and issubclass(struct, Object):
                continue
            known = facts.get(each.name) or Fact("")
            properties[each.encode_name] = self._of_field(hints[each.name], known)
            if known.required:
                required.append(each.encode_name)
        if unknown:
            raise LookupError(f"{struct.__name__} has no fields {sorted(unknown)}: its table of facts is wrong")
        out: dict[str, Any] = {"type": "object", "description": _words(struct), "properties": properties}
        return {**out, "required": required} if required else out

    def _of_field(self, hint: Any, known: Fact) -> dict[str, Any]:
        if known.kubernetes:
            out = structural(known.kubernetes, self._kubernetes, self._of_struct(TemplateMeta))
        else:
            out = self._of_type(hint)
        if known.words:
            out["description"] = known.words
        for key, value in known.rules.items():
            out[key] = {**out[key], **value} if key in ("items", "additionalProperties") else value
        return out

    def _of_type(self, hint: Any) -> dict[str, Any]:
        """The schema of a type; None beside it only says that the field may be left out."""
        if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
            (hint,) = (each for each in typing.get_args(hint) if each is not type(None))
        if hint in _SCALARS:
            return {"type": _SCALARS[hint]}
        if hint == ResourceMap:
            return {"type": "object", "additionalProperties": dict(QUANTITY)}
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is list:
            return {"type": "array", "items": self._of_type(arguments[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self._of_type(arguments[1])}
        return self._of_struct(hint)


def _words(struct: type[Wire]) -> str:
    """Description of a type, from its docstring."""
    return (struct.__doc__ or "").partition("\n")[0].replace("`", "")
