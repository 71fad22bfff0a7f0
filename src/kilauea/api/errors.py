"""Errors in objects, described for their authors.

Decoding (`kilauea.api.decode`) and validation (`kilauea.api.validate`) report `ObjectError`s. The rest of this module
converts the errors of msgspec, which name Python types, to messages that name the field, the value and the fix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from kilauea.api.kinds import SCHEDULING
from kilauea.api.meta import Object

CLUSTER_KINDS = frozenset(kind for kind, resource in SCHEDULING.items() if not resource.namespaced)
"""The supported kinds that are cluster-scoped."""

Path = tuple[str | int, ...]
"""Keys and list indexes from the top of a document, or of an object, to a field."""


@dataclass(unsafe_hash=True)
class ObjectError(Exception):
    """An error in one object, or in the text of a file.

    `str()` gives one line, e.g. `cluster.yaml: Pod ns/web-1: spec.priority: expected an integer, got "high"`.

    Attributes:
        source: the file or other source; may be empty.
        index: the number of the document in the source, from 0.
        kind: the kind of the object, if known.
        object: `namespace/name`, or the name for cluster-scoped kinds; empty if not known.
        field: the path of the field; it starts at the document (`items[3].kind`) if the object is not known.
        message: the error, with the value and the fix.
        line: the line in the source, from 1; 0 if not known.
        column: the column in that line, from 1.
    """

    source: str = ""
    index: int = 0
    kind: str = ""
    object: str = ""
    field: str = ""
    message: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Return one line: source, position, object, field and message, as far as known."""
        position = f"line {self.line}, column {self.column}" if self.line else ""
        subject = " ".join(part for part in (self.kind, self.object) if part)
        if not self.object and not position:
            subject = f"document {self.index + 1}" + (f" ({self.kind})" if self.kind else "")
        return ": ".join(part for part in (self.source, position, subject, self.field, self.message) if part)


def kind_of(obj: Object) -> str:
    """Return the kind of an object, or of its type if the object does not have one."""
    return obj.kind or type(obj).__name__


def object_label(obj: Object) -> str:
    """Return the name of an object in messages: `namespace/name`, or the name for cluster-scoped kinds."""
    return obj.name if kind_of(obj) in CLUSTER_KINDS else obj.key


# --- messages


_EXPECTED = re.compile(r"Expected `(.+?)`, got `(\w+)`(?: - at `(.*)`)?")
_LOCATED = re.compile(r"(.*?) - at `(.*)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|(\[\.\.\.\])")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}
_TYPE_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "array",
    dict: "object",
}
_ANY_KEY = "..."


def path_text(path: Path) -> str:
    """Format a path: `spec.containers[0].image`; other keys than identifiers are in brackets, as in Kubernetes."""
    text = ""
    for step in path:
        if isinstance(step, str) and _IDENTIFIER.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text


def _value_text(value: object) -> str:
    """Format a value for messages: short, and as JSON."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    try:
        text = msgspec.json.encode(value).decode()
    except (ValueError, TypeError, OverflowError, msgspec.MsgspecError):
        text = ascii(value)
    return text if len(text) <= 80 else text[:60] + "..." + text[-1]


def _expectation(types: str, got: str, value: str) -> str:
    """Return `expected an integer, got "high"`, with a hint if quotes are missing."""
    names = [name for name in types.split(" | ") if name != "null"]
    if "float" in names and "int" in names:
        names.remove("int")
    words = " or ".join(_WORDS.get(name, name) for name in names)
    hint = ": put it in quotes" if names == ["str"] and got in ("int", "float", "bool") else ""
    return f"expected {words}, got {value}{hint}"


def _find(tree: Any, path: list[str | int], got: str) -> tuple[list[str | int], Any] | None:
    """Return the real path and value for a path in which `...` is any key, if the value has the type `got`."""
    if not path:
        return ([], tree) if _TYPE_NAMES.get(type(tree)) == got else None
    step, rest = path[0], path[1:]
    if step == _ANY_KEY:
        candidates: list[str | int] = list(tree) if isinstance(tree, dict) else []
    elif isinstance(tree, list):
        candidates = [step] if isinstance(step, int) and step < len(tree) else []
    else:
        candidates = [step] if isinstance(tree, dict) and step in tree else []
    for candidate in candidates:
        found = _find(tree[candidate], rest, got)
        if found:
            return [candidate, *found[0]], found[1]
    return None


def _steps(location: str) -> list[str | int]:
    """Parse a path of msgspec, such as `$.spec.containers[0].resources.requests[...]`."""
    return [int(found[2]) if found[2] else found[1] or _ANY_KEY for found in _STEP.finditer(location.removeprefix("$"))]


def explain(error: Exception, tree: object) -> tuple[Path, str]:
    """Return field path and message for an error of msgspec about an object, whose untyped form is `tree`."""
    text = str(error)
    expected = _EXPECTED.fullmatch(text)
    if expected:
        types, got, location = expected.groups("")
        path, value = _find(tree, _steps(location), got) or (_steps(location), None)
        return tuple(path), _expectation(types, got, _value_text(value) if value is not None else got)
    located = _LOCATED.fullmatch(text)
    if located:
        return tuple(_steps(located[2])), f"{located[1][:1].lower()}{located[1][1:]}"
    if isinstance(error, RecursionError):
        return (), "nested too deep: nothing in Kubernetes nests more than a few dozen levels"
    if isinstance(error, UnicodeDecodeError):
        return (), "holds text that is not UTF-8: save the file as UTF-8"
    return (), f"is not valid JSON: {text[:1].lower()}{text[1:]}"
