"""Sets of fields and their owners, stored as the decoded `fieldsV1` document itself.

A set is a tree of dicts. A key is one step of a path in the format of fieldsV1:

- `f:NAME`: a field of an object;
- `k:{"name":"web"}`: the item of a list with these keys;
- `v:"value"`: this value in a list that is a set;
- `i:3`: an index, which is no longer written.

A node that is empty, or has the key `.`, is a member of the set; any other only leads to members. The root is never a
member, so `{}` is the empty set. Sets are immutable; results share their parts. Results of ordered sets are ordered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from kilauea.api.remembered import remembered

FieldSet = dict[str, Any]
"""A node with everything below; loosely typed, as it is JSON."""

SELF = "."
EMPTY: FieldSet = {}


def fields(*paths: str) -> FieldSet:
    """Return the set of fields given as paths such as `metadata.name`."""
    root: FieldSet = {}
    for path in paths:
        node: FieldSet = {}
        for name in reversed(path.split(".")):
            node = {f"f:{name}": node}
        root = union(root, node)
    return root


# --- algebra


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths in either set."""
    out = dict(one)
    for step, node in other.items():
        mine = out.get(step)
        out[step] = node if mine is None else _join(mine, node)
    return out if len(out) == len(one) else in_order(out)


def _join(one: FieldSet, other: FieldSet) -> FieldSet:
    """Merge two nodes at the same path."""
    if not one or not other:
        node = one or other
        return node if not node or SELF in node else {SELF: {}, **node}
    return union(one, other)


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths in both sets."""
    out: FieldSet = {}
    for step, node in one.items():
        theirs = other.get(step)
        if theirs is None or step == SELF:
            continue
        both = _node(_belongs(node) and _belongs(theirs), intersection(node, theirs))
        if both is not None:
            out[step] = both
    return out


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths of one set that are not in the other; paths below a removed one stay."""
    out: FieldSet = {}
    for step, node in one.items():
        theirs = other.get(step)
        if theirs is None:
            out[step] = node
        elif step != SELF:
            rest = _node(_belongs(node) and not _belongs(theirs), difference(_below(node), theirs))
            if rest is not None:
                out[step] = rest
    return out


def without(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths of one set that are neither in the other nor below a path of it."""
    out: FieldSet = {}
    for step, node in one.items():
        theirs = other.get(step)
        if theirs is None:
            out[step] = node
        elif step != SELF and not _belongs(theirs):
            rest = _node(_belongs(node), without(_below(node), theirs))
            if rest is not None:
                out[step] = rest
    return out


def _belongs(node: FieldSet) -> bool:
    return not node or SELF in node


def _below(node: FieldSet) -> FieldSet:
    """Return the node without its own membership."""
    return {step: each for step, each in node.items() if step != SELF} if SELF in node else node


def _node(belongs: bool, below: FieldSet) -> FieldSet | None:
    """Return a node, or None if it would have no members."""
    if not below:
        return {} if belongs else None
    return {SELF: {}, **below} if belongs else below


# --- single fields


def has(owned: FieldSet, path: tuple[str, ...]) -> bool:
    """Return True if a path is a member of a set."""
    node = owned
    for step in path:
        found = node.get(step)
        if found is None:
            return False
        node = found
    return bool(path) and _belongs(node)


def paths(owned: FieldSet, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield all paths in a set in the order of steps, each node before those below it."""
    steps = sorted((step for step in owned if step != SELF), key=order_of)
    for step in steps:
        if _belongs(owned[step]):
            yield (*above, step)
    for step in steps:
        yield from paths(owned[step], (*above, step))


def path_text(path: tuple[str, ...]) -> str:
    """Return a path in the format of messages: `.spec.containers[name="web"].image`."""
    return "".join(map(_step_text, path))


def _step_text(step: str) -> str:
    kind, text = step[:2], step[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "k:":
        return "[" + ",".join(f"{key}={_quoted(value)}" for key, value in sorted(json.loads(text).items())) + "]"
    return f"[={_quoted(json.loads(text))}]" if kind == "v:" else f"[{text}]"


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- steps


def key_step(keys: dict[str, Any]) -> str:
    """Return the step to an item of a list; the keys must be sorted."""
    return "k:" + _encoded(keys)


def value_step(value: Any) -> str:
    """Return the step to a value of a set."""
    return "v:" + _encoded(value)


def _encoded(value: Any) -> str:
    """Encode JSON as the real server does within a step: `<`, `>` and `&` are escaped."""
    text = msgspec.json.encode(value).decode()
    if "<" in text or ">" in text or "&" in text:
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return text


def ordered(owned: FieldSet) -> FieldSet:
    """Return the set with its steps in the order of the real server."""
    return {step: ordered(node) if node else node for step, node in in_order(owned).items()}


def in_order(node: FieldSet) -> FieldSet:
    """Return the node with its direct steps in order."""
    if len(node) < 2:
        return node
    steps = sorted(node)
    if steps[-1][0] in "kv" and len(steps) > 1 + (steps[0] == SELF):  # a single one is in order
        steps.sort(key=order_of)
    return {step: node[step] for step in steps}


def order_of(step: str) -> tuple[Any, ...]:
    """Return the sort key of a step: fields by name, then items by keys, then values; numbers as numbers."""
    return _order_of_parsed(step) if step[0] in "kv" else (step,)


@remembered(4096)
def _order_of_parsed(step: str) -> tuple[Any, ...]:
    """Return the sort key of a step with JSON."""
    content = json.loads(step[2:])
    parts = sorted(content.items()) if isinstance(content, dict) else [("", content)]
    return (step[0], *((name, _rank(value)) for name, value in parts))


def _rank(value: Any) -> tuple[int, Any]:
    """Return a sort key for values of different types: numbers, strings, booleans."""
    if isinstance(value, bool):
        return 2, value
    return (0, value) if isinstance(value, int | float) else (1, str(value))


def from_fields_v1(document: Any) -> FieldSet:
    """Parse fieldsV1 from a client: steps are normalized, unknown ones omitted.

    Raises:
        ValueError: the document is not a set of fields.
    """
    if not isinstance(document, dict):
        raise ValueError("fieldsV1 is not an object")
    out: FieldSet = {}
    for step, node in document.items():
        if step == SELF:
            out[SELF] = {}
        elif len(step) < 2 or step[1] != ":":
            raise ValueError(f"fieldsV1 has the key {step!r}, which is not a step of a path")
        elif step[0] in "fkvi":
            out[_canonical(step)] = from_fields_v1(node)
    return out


def _canonical(step: str) -> str:
    if step[0] == "k":
        return key_step(dict(sorted(json.loads(step[2:]).items())))
    return value_step(json.loads(step[2:])) if step[0] == "v" else step
