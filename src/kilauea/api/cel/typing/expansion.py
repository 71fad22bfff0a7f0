"""Expansion of macros to folds: a value that starts with `init` and is replaced by `step` for each element.

The language defines macros, and so their cost, in this way. A fold is a `Node` of kind `fold` whose value
is a `Fold`, and whose parts are its range, start, condition, step and result. `has(a.b)` is of kind `test`.
"""

from __future__ import annotations

from typing import NamedTuple

from kilauea.api.cel.loops import MACROS
from kilauea.api.cel.syntax import Node, error_at

RESULT = "@result"
_UNUSED = "#unused"


class Fold(NamedTuple):
    """The names of a fold: of its elements (a key and a value, if there are two), and of its accumulator."""

    names: tuple[str, ...]
    made: str

    @property
    def is_bind(self) -> bool:
        """True if the fold only names a value."""
        return self.made != RESULT and self.names == (_UNUSED,)


class Expansion:
    """Expands the macros of one expression."""

    def __init__(self, text: str) -> None:
        self._text = text

    def expanded(self, node: Node) -> Node | None:
        """Return the expansion of a macro; None if a node is not a macro.

        Raises:
            CelError: it has the wrong arguments.
        """
        name, count = node.value, len(node.parts)
        if node.kind != "call":
            return None
        if not node.member:
            return self._presence(node) if name == "has" else None
        target, *args = node.parts
        if name == "bind" and target.kind == "name" and target.value == "cel" and count == 4:
            return _bind(node.at, self._name(args[0]), args[1], args[2])
        if name in ("optMap", "optFlatMap") and count == 3:
            return self._opt_map(node)
        if name == "sortBy" and count == 3:
            return self._sorted(node)
        return self._loop(node) if name in MACROS and count > 2 else None

    def _name(self, node: Node) -> str:
        if node.kind != "name":
            raise error_at(self._text, node.at, "argument must be a simple name")
        return str(node.value)

    def _presence(self, node: Node) -> Node:
        if len(node.parts) != 1 or node.parts[0].kind != "select":
            raise error_at(self._text, node.at, "invalid argument to has() macro")
        field = node.parts[0]
        return Node("test", field.value, field.parts, node.at)

    def _opt_map(self, node: Node) -> Node:
        target, name, body = node.parts
        value = _bind(node.at, self._name(name), _method(node, "value", target), body)
        made = value if node.value == "optFlatMap" else _call(node, "optional.of", value)
        return _call(node, "?:", _method(node, "hasValue", target), made, _call(node, "optional.none"))

    def _sorted(self, node: Node) -> Node:
        target, name, key = node.parts
        over = Node("name", "@sorted", (), node.at)
        keys = self._loop(Node("call", "map", (over, name, key), node.at, member=True))
        return _bind(node.at, "@sorted", target, _method(node, "@sortByAssociatedKeys", over, keys))

    def _loop(self, node: Node) -> Node:
        target, *args = node.parts
        macro = node.value
        two = (len(args) == 3 and macro != "map") or macro.startswith("transform")
        names = tuple(self._name(arg) for arg in args[: 1 + two])
        bodies = args[1 + two :]
        init, condition, step, result = _parts(node, names, bodies)
        return Node("fold", Fold(names, RESULT), (target, init, condition, step, result), node.at)


def _parts(node: Node, names: tuple[str, ...], bodies: list[Node]) -> tuple[Node, Node, Node, Node]:
    """Return start, condition, step and result of a loop."""
    made, yes, macro, body = _name(node, RESULT), _literal(node, True), node.value, bodies[-1]
    if macro == "all":
        return yes, _call(node, "@not_strictly_false", made), _call(node, "&&", made, body), made
    if macro == "exists":
        goes_on = _call(node, "@not_strictly_false", _call(node, "!_", made))
        return _literal(node, False), goes_on, _call(node, "||", made, body), made
    if macro in ("exists_one", "existsOne"):
        more = _call(node, "+", made, _literal(node, 1))
        one = _call(node, "==", made, _literal(node, 1))
        return _literal(node, 0), yes, _call(node, "?:", body, more, made), one
    if macro == "filter":
        bodies = [body, _name(node, names[0])]
    if macro in ("filter", "map", "transformList"):
        init, step = Node("list", None, (), node.at), _call(node, "+", made, Node("list", None, (bodies[-1],), node.at))
    else:
        entry = (bodies[-1],) if macro == "transformMapEntry" else (_name(node, names[0]), bodies[-1])
        init, step = Node("map", None, (), node.at), _call(node, "cel.@mapInsert", made, *entry)
    return init, yes, _call(node, "?:", bodies[0], step, made) if len(bodies) == 2 else step, made


def _bind(at: int, name: str, value: Node, body: Node) -> Node:
    no = Node("literal", False, (), at)
    parts = (Node("list", None, (), at), value, no, Node("name", name, (), at), body)
    return Node("fold", Fold((_UNUSED,), name), parts, at)


def _name(node: Node, name: str) -> Node:
    return Node("name", name, (), node.at)


def _literal(node: Node, value: object) -> Node:
    return Node("literal", value, (), node.at)


def _call(node: Node, name: str, *parts: Node) -> Node:
    return Node("call", name, parts, node.at)


def _method(node: Node, name: str, *parts: Node) -> Node:
    return Node("call", name, parts, node.at, member=True)
