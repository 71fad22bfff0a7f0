"""The type checker, which finds the type of each part of an expression and all type errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kilauea.api.cel.program import DOTTED_VARIABLES, NAMED_DOTTED_TYPES
from kilauea.api.cel.syntax import Node, error_at, parse
from kilauea.api.cel.typing.expansion import Expansion, Fold
from kilauea.api.cel.typing.signatures import OPERATOR_NAMES, Overload, signatures
from kilauea.api.cel.typing.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Bindings,
    Type,
    is_dynamic,
    list_of,
    map_of,
    optional_of,
    unwrapped,
)
from kilauea.api.cel.values import NAMED_TYPES, CelError, UInt

Scope = Mapping[str, Type]
_LITERALS: Mapping[type, Type] = {
    bool: BOOL, int: INT, UInt: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL
}  # fmt: skip
_MOST_ERRORS = 100


@dataclass(eq=False, slots=True)
class Checked:
    """A node with its type.

    Attributes:
        node: the node with macros expanded; a call of a function with a dotted name is not a member.
        type: the type of its value.
        parts: its checked parts.
        overloads: the matching overloads of a call.
    """

    node: Node
    type: Type
    parts: tuple[Checked, ...] = ()
    overloads: tuple[Overload, ...] = ()


def check_expression(text: str, variables: Scope) -> Checked:
    """Check an expression and return it with its types.

    Args:
        text: the expression.
        variables: all variables with their types.

    Raises:
        CelError: it is invalid; the message has all errors.
    """
    try:
        return _Checker(text).run(variables)
    except RecursionError as error:
        raise CelError("compilation failed: ERROR: <input>: expression recursion limit exceeded") from error


class _Checker:
    """Checks one expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._expansion = Expansion(text)
        self._bindings = Bindings()
        self._errors: list[tuple[int, str]] = []
        self._formatting = 0
        """Number of enclosing calls of `format`, whose arguments may have different types."""

    def run(self, variables: Scope) -> Checked:
        checked = self._check(parse(self._text), variables)
        if self._errors:
            raise CelError(f"compilation failed: {self._told()}")
        self._settle(checked)
        return checked

    def _told(self) -> str:
        ordered = sorted(self._errors, key=lambda each: each[0])[:_MOST_ERRORS]
        texts = (str(error_at(self._text, at, words)).removeprefix("compilation failed: ") for at, words in ordered)
        return "\n".join(texts)

    def _settle(self, checked: Checked) -> None:
        """Replace type parameters by their final types."""
        checked.type = self._bindings.resolved(checked.type, unbound_is_dyn=True)
        for part in checked.parts:
            self._settle(part)

    def _fail(self, at: int, words: str) -> Type:
        self._errors.append((at, words))
        return ERROR

    def _mismatch(self, at: int, wanted: Type, given: Type) -> Type:
        return self._fail(at, f"expected type '{wanted}' but found '{given}'")

    # --- forms

    def _check(self, node: Node, scope: Scope) -> Checked:
        found = self._expansion.expanded(node)
        node = node if found is None else found
        return getattr(self, f"_{node.kind}")(node, scope)  # type: ignore[no-any-return]  # all return a Checked

    def _literal(self, node: Node, _: Scope) -> Checked:
        return Checked(node, _LITERALS[node.value.__class__])

    def _name(self, node: Node, scope: Scope) -> Checked:
        return Checked(node, self._named(node, str(node.value), scope) or self._undeclared(node, str(node.value)))

    def _named(self, node: Node, name: str, scope: Scope) -> Type | None:
        """Return the type of a variable, or of a type name."""
        if name in scope:
            return scope[name]
        if name in NAMED_TYPES or name in NAMED_DOTTED_TYPES:
            return Type("type", params=(_TYPE_NAMES.get(name, Type(name)),))
        return None

    def _undeclared(self, node: Node, name: str) -> Type:
        return self._fail(node.at, f"undeclared reference to '{name}' (in container '')")

    def _select(self, node: Node, scope: Scope) -> Checked:
        name = _dotted(node)
        if name in DOTTED_VARIABLES or name in NAMED_DOTTED_TYPES:
            kind = self._named(node, name, scope)
            if kind is not None:
                return Checked(Node("name", name, (), node.at), kind)
        target = self._check(node.parts[0], scope)
        return Checked(node, self._field(node, target.type), (target,))

    def _test(self, node: Node, scope: Scope) -> Checked:
        target = self._check(node.parts[0], scope)
        self._field(node, target.type)
        return Checked(node, BOOL, (target,))

    def _field(self, node: Node, operand: Type) -> Type:
        target, was_optional = unwrapped(self._bindings.resolved(operand))
        if target.kind == "map":
            found = target.params[1]
        elif target.kind == "object":
            known = target.fields.get(node.value)
            found = self._fail(node.at, f"undefined field '{node.value}'") if known is None else known
        else:
            if target.kind == "param":
                self._bindings.fit([DYN], [target])
            elif not is_dynamic(target):
                self._fail(node.at, f"type '{target}' does not support field selection")
            found = DYN
        found = self._bindings.resolved(found)
        return optional_of(found) if was_optional or node.optional else found

    def _index(self, node: Node, scope: Scope) -> Checked:
        parts = tuple(self._check(part, scope) for part in node.parts)
        return self._resolved(node, "?index" if node.optional else "index", parts)

    def _list(self, node: Node, scope: Scope) -> Checked:
        joined: Type | None = None
        parts = []
        for number, part in enumerate(node.parts):
            checked = self._check(part, scope)
            parts.append(checked)
            joined = self._joined(part, joined, self._plain(part, checked.type, optional=number in node.optionals))
        return Checked(node, list_of(joined or self._bindings.fresh()), tuple(parts))

    def _map(self, node: Node, scope: Scope) -> Checked:
        key: Type | None = None
        value: Type | None = None
        parts = tuple(self._check(part, scope) for part in node.parts)
        for number in range(0, len(parts), 2):
            one, other = parts[number], parts[number + 1]
            key = self._joined(one.node, key, one.type)
            plain = self._plain(other.node, other.type, optional=number in node.optionals)
            value = self._joined(other.node, value, plain)
        return Checked(node, map_of(key or self._bindings.fresh(), value or self._bindings.fresh()), parts)

    def _plain(self, node: Node, kind: Type, *, optional: bool) -> Type:
        """Return the type of an element of a literal, which must be an optional if it is marked."""
        if not optional:
            return kind
        inner, was_optional = unwrapped(kind)
        if not was_optional and kind.kind != "dyn":
            self._mismatch(node.at, optional_of(kind), kind)
        return inner

    def _joined(self, node: Node, before: Type | None, kind: Type) -> Type:
        if before is None:
            return kind
        if self._bindings.fit([before], [kind]):
            return self._bindings.more_general(before, kind)
        return DYN if self._formatting else self._mismatch(node.at, before, kind)

    def _call(self, node: Node, scope: Scope) -> Checked:
        if node.member:
            name = f"{_dotted(node.parts[0])}.{node.value}"
            if name in signatures() and _root(node.parts[0]) not in scope:
                node = Node("call", name, node.parts[1:], node.at)
        elif node.value in ("&&", "||"):
            return self._logic(node, scope)
        self._formatting += node.value == "format"
        rest = tuple(self._check(part, scope) for part in node.parts[node.member :])
        self._formatting -= node.value == "format"
        if node.member:
            rest = (self._check(node.parts[0], scope), *rest)
        if node.value not in signatures():
            return Checked(node, self._undeclared(node, str(node.value)), rest)
        return self._resolved(node, str(node.value), rest)

    def _logic(self, node: Node, scope: Scope) -> Checked:
        parts = tuple(self._check(part, scope) for part in node.parts)
        wrong = [part for part in parts if not self._bindings.fit([part.type], [BOOL])]
        for part in wrong:
            self._mismatch(part.node.at, BOOL, self._bindings.resolved(part.type))
        return Checked(node, ERROR if wrong else BOOL, parts, signatures()[node.value])

    def _resolved(self, node: Node, name: str, parts: tuple[Checked, ...]) -> Checked:
        """Return a call with the matching overloads of its function."""
        given = [part.type for part in parts]
        matching: list[Overload] = []
        result: Type | None = None
        for overload in signatures()[name]:
            if overload.is_member is not node.member:
                continue
            kind, *wanted = self._bindings.instantiated((overload.result, *overload.arguments))
            if not self._bindings.fit(given, wanted):
                continue
            matching.append(overload)
            kind = self._bindings.resolved(kind)
            result = kind if result is None or result in (DYN, kind) else DYN
            result = DYN if len(matching) > 1 and result != kind else result
        if result is None:
            result = self._no_overload(node, name, given)
        return Checked(node, result, parts, tuple(matching))

    def _no_overload(self, node: Node, name: str, given: list[Type]) -> Type:
        texts = [str(self._bindings.resolved(each, unbound_is_dyn=True)) for each in given]
        target = f"{texts.pop(0)}." if node.member else ""
        shown = OPERATOR_NAMES.get(name, name)
        message = f"found no matching overload for '{shown}' applied to '{target}({', '.join(texts)})'"
        return self._fail(node.at, message)

    def _fold(self, node: Node, scope: Scope) -> Checked:
        fold: Fold = node.value
        over, init = self._check(node.parts[0], scope), self._check(node.parts[1], scope)
        outer = {**scope, fold.made: init.type}
        inner = {**outer, **dict(zip(fold.names, self._elements(over, len(fold.names)), strict=True))}
        condition, step = self._check(node.parts[2], inner), self._check(node.parts[3], inner)
        for part, wanted in ((condition, BOOL), (step, init.type)):
            if not self._bindings.fit([wanted], [part.type]):
                self._mismatch(part.node.at, self._bindings.resolved(wanted), self._bindings.resolved(part.type))
        result = self._check(node.parts[4], outer)
        return Checked(node, self._bindings.resolved(result.type), (over, init, condition, step, result))

    def _elements(self, over: Checked, count: int) -> tuple[Type, ...]:
        """Return the types of the variables of a loop."""
        kind = self._bindings.resolved(over.type)
        if kind.kind == "list":
            return kind.params if count == 1 else (INT, *kind.params)
        if kind.kind == "map":
            return kind.params[:count]
        if kind.kind == "param":
            self._bindings.fit([DYN], [kind])
        elif not is_dynamic(kind):
            message = f"expression of type '{kind}' cannot be range of a comprehension (must be list, map, or dynamic)"
            return (self._fail(over.node.at, message),) * count
        return (DYN,) * count


_TYPE_NAMES: Mapping[str, Type] = {
    "google.protobuf.Timestamp": Type("timestamp"), "google.protobuf.Duration": Type("duration"),
    "list": Type("list", params=(DYN,)), "map": Type("map", params=(DYN, DYN)),
}  # fmt: skip


def _dotted(node: Node) -> str:
    """Return the dotted name of a node; empty if it is not one."""
    names: list[Any] = []
    while node.kind == "select" and not node.optional:
        names.append(node.value)
        node = node.parts[0]
    return ".".join([str(node.value), *map(str, reversed(names))]) if node.kind == "name" else ""


def _root(node: Node) -> str:
    return _dotted(node).partition(".")[0]
