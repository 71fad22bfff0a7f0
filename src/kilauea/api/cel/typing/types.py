"""Types of CEL, and their compatibility: unification with type parameters, as in the reference checker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

OPTIONAL = "optional_type"


@dataclass(frozen=True, slots=True)
class Type:
    """A type. Two types are equal if kind, name and parameters are.

    Attributes:
        kind: the kind, such as `int`, `list`, `object`; `param` for a type parameter.
        name: the name of an object, an opaque type or a parameter.
        params: the item type of a list, or the key and value types of a map.
        fields: the fields of an object.
        most: the maximum size of a value in its schema; 0 for types without a size.
        least_bytes: the size of the smallest value in JSON.
    """

    kind: str
    name: str = ""
    params: tuple[Type, ...] = ()
    fields: Mapping[str, Type] = field(default_factory=dict, compare=False)
    most: int = field(default=0, compare=False)
    least_bytes: int = field(default=2, compare=False)

    def __str__(self) -> str:
        if self.kind == "null_type":
            return "null"
        if self.kind == "error":
            return "!error!"
        name = self.name or self.kind
        return f"{name}({', '.join(map(str, self.params))})" if self.params else name


DYN, ERROR, NULL = Type("dyn"), Type("error"), Type("null_type")
BOOL, INT, UINT, DOUBLE = Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES, TIMESTAMP, DURATION = Type("string"), Type("bytes"), Type("timestamp"), Type("duration")
SCALARS = frozenset({"bool", "int", "uint", "double", "timestamp", "duration"})
"""Kinds whose values all have the same size."""
_NULLABLE = frozenset({"opaque", "object", "timestamp", "duration"})
_NESTED = frozenset({"opaque", "list", "map", "type"})


def list_of(item: Type, most: int = 0) -> Type:
    """Return the type of lists of an item type."""
    return Type("list", params=(item,), most=most)


def map_of(key: Type, value: Type, most: int = 0) -> Type:
    """Return the type of maps."""
    return Type("map", params=(key, value), most=most)


def object_of(name: str, fields: Mapping[str, Type], least_bytes: int = 2) -> Type:
    """Return the type of objects with these fields."""
    return Type("object", name, fields=fields, least_bytes=least_bytes)


def opaque(name: str, *params: Type) -> Type:
    """Return an opaque type, which only functions access."""
    return Type("opaque", name, params)


def optional_of(value: Type) -> Type:
    """Return the type of optionals."""
    return opaque(OPTIONAL, value)


def is_dynamic(kind: Type) -> bool:
    """Return True if the type of a value is unknown or erroneous."""
    return kind.kind in ("dyn", "error")


def unwrapped(kind: Type) -> tuple[Type, bool]:
    """The type inside an optional, and True if it was one."""
    if kind.name == OPTIONAL and kind.kind == "opaque":
        return kind.params[0], True
    return kind, False


class Bindings:
    """The types bound to type parameters."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._count = 0

    def fresh(self) -> Type:
        """Return a new, unbound parameter."""
        self._count += 1
        return Type("param", f"_var{self._count}")

    def resolved(self, kind: Type, *, unbound_is_dyn: bool = False) -> Type:
        """Return the type with all bound parameters replaced."""
        if kind.kind == "param":
            if kind.name in self._known:
                return self.resolved(self._known[kind.name], unbound_is_dyn=unbound_is_dyn)
            return DYN if unbound_is_dyn else kind
        if kind.kind not in _NESTED or not kind.params:
            return kind
        return replace(kind, params=tuple(self.resolved(each, unbound_is_dyn=unbound_is_dyn) for each in kind.params))

    def instantiated(self, kinds: Sequence[Type]) -> list[Type]:
        """Return types with fresh parameters in place of their own."""
        fresh: dict[str, Type] = {}
        return [self._renamed(kind, fresh) for kind in kinds]

    def _renamed(self, kind: Type, fresh: dict[str, Type]) -> Type:
        if kind.kind == "param":
            if kind.name not in fresh:
                fresh[kind.name] = self.fresh()
            return fresh[kind.name]
        if not kind.params:
            return kind
        return replace(kind, params=tuple(self._renamed(each, fresh) for each in kind.params))

    def fit(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Return True if types match others pairwise; parameters are bound then, and unchanged otherwise."""
        before = dict(self._known)
        if len(given) == len(wanted) and all(map(self._fits, given, wanted)):
            return True
        self._known = before
        return False

    def _fits(self, left: Type, right: Type) -> bool:
        if right.kind == "param":
            valid, had = self._bind(left, right)
            if valid or had:
                return valid
        if left.kind == "param":
            return self._bind(right, left)[0]
        if is_dynamic(left) or is_dynamic(right):
            return True
        if left.kind == "null_type" or right.kind == "null_type":
            other = right if left.kind == "null_type" else left
            return other.kind in _NULLABLE or other.kind == "null_type"
        if left.kind == "type" or left.kind != right.kind or left.name != right.name:
            return left.kind == right.kind == "type"
        return len(left.params) == len(right.params) and all(map(self._fits, left.params, right.params))

    def _bind(self, kind: Type, param: Type) -> tuple[bool, bool]:
        """Bind a parameter to a type: return True if possible, and True if it was already bound."""
        if kind == param:
            return True, True
        known = self._known.get(param.name)
        if known is None:
            if self._contains(kind, param):
                return False, False
            self._known[param.name] = kind
            return True, False
        if kind == known:
            return True, True
        if not self._fits(kind, known):
            return False, True
        general = kind if self._is_less_specific(kind, known) else known
        if not self._contains(general, param):
            self._known[param.name] = general
        return True, True

    def _contains(self, kind: Type, param: Type) -> bool:
        if kind == param:
            return True
        if kind.kind == "param":
            known = self._known.get(kind.name)
            return known is not None and self._contains(known, param)
        return any(self._contains(each, param) for each in kind.params)

    def more_general(self, left: Type, right: Type) -> Type:
        """Return the more general of two compatible types."""
        return left if self._is_less_specific(left, right) else right

    def _is_less_specific(self, left: Type, right: Type) -> bool:
        if left.kind in ("dyn", "param"):
            return True
        if right.kind in ("dyn", "param") or left.kind != right.kind:
            return False
        if left.kind in ("opaque", "list", "map"):
            return (
                left.name == right.name
                and len(left.params) == len(right.params)
                and all(map(self._is_less_specific, left.params, right.params))
            )
        return left.kind == "type" or left == right
