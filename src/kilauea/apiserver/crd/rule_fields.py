"""Fields in CEL rules that the schema does not have: a rule with a typing error is refused with its definition.

Types are followed from `self` and `oldSelf` through fields, items and the variables of macros, as far as the schema
says what is there. Of what is not known nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.api.cel import CelError
from kilauea.api.cel.syntax import Node, error_at, parse
from kilauea.apiserver.crd.values import escaped

Raw = Mapping[str, Any]
Types = Mapping[str, Raw | None]
"""The schemas of variables; None for one of which nothing is known."""
_TEXT: Raw = {"type": "string"}
_OBJECT: Mapping[str, Raw] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {},
}
"""Fields that rules see in every object, beside those that its schema describes. Any metadata can be asked for."""
_MACROS = frozenset(
    {"all", "exists", "exists_one", "existsOne", "filter", "map", "sortBy"}
    | {"transformList", "transformMap", "transformMapEntry"}
)


def undefined_field(text: str, raw: Raw, *, whole: bool, old_may_lack: bool) -> str:
    """The error about the first field in a rule that its schema does not have; empty if there is none.

    Args:
        text: a rule that can be parsed.
        raw: the schema of what `self` is.
        whole: whether `self` is a whole object.
        old_may_lack: whether `oldSelf` is an optional.
    """
    own = {**raw, "x-kubernetes-embedded-resource": True} if whole else raw
    try:
        _Follower(text).type_of(parse(text), {"self": own, "oldSelf": None if old_may_lack else own})
    except CelError as error:
        return str(error)
    return ""


class _Follower:
    """Follows types through an expression."""

    def __init__(self, text: str) -> None:
        self._text = text

    def type_of(self, node: Node, types: Types) -> Raw | None:
        """The schema of the value of a node; None if nothing is known of it.

        Raises:
            CelError: it has a field that is not defined.
        """
        if node.kind == "name":
            return types.get(node.value)
        if node.kind == "select":
            return self._field(node, self.type_of(node.parts[0], types))
        if node.kind == "call" and node.member and node.value in _MACROS:
            self._macro(node, types)
            return None
        if node.kind == "call" and node.member and node.value == "bind" and len(node.parts) == 4:
            _, variable, value, body = node.parts
            return self.type_of(body, {**types, str(variable.value): self.type_of(value, types)})
        found = [self.type_of(part, types) for part in node.parts]
        if node.kind == "index" and found[0] is not None and not node.optional:
            return _item(found[0])
        return None

    def _field(self, node: Node, target: Raw | None) -> Raw | None:
        if target is None or node.optional or target.get("type") != "object":
            return None
        if isinstance(target.get("additionalProperties"), dict):
            return _item(target)
        if target.get("x-kubernetes-preserve-unknown-fields") or target.get("additionalProperties"):
            return None
        described = {escaped(name): child for name, child in (target.get("properties") or {}).items()}
        quoted = dict(target.get("properties") or {})
        own = _OBJECT if target.get("x-kubernetes-embedded-resource") else {}
        fields = {**quoted, **described, **own}
        if node.value not in fields:
            raise error_at(self._text, node.at, f"undefined field '{node.value}'")
        child: Raw = fields[node.value]
        return None if child.get("x-kubernetes-int-or-string") else child

    def _macro(self, node: Node, types: Types) -> None:
        """The bodies of a macro, with its variables: the items of a list, or the keys of a map."""
        target, *rest = node.parts
        values = self.type_of(target, types)
        two = node.value.startswith("transform") or (len(rest) == 3 and node.value != "map")
        names = [str(each.value) for each in rest[: 1 + two]]
        inside: dict[str, Raw | None] = {**types, **dict.fromkeys(names)}
        if values is not None and values.get("type") == "array":
            inside[names[-1]] = _item(values)
        for body in rest[1 + two :]:
            self.type_of(body, inside)


def _item(target: Raw) -> Raw | None:
    """The schema of the items of a list, or of the values of a map."""
    found = target.get("items" if target.get("type") == "array" else "additionalProperties")
    return found if isinstance(found, dict) and not found.get("x-kubernetes-int-or-string") else None
