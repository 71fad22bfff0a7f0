"""Objects under review as typed ones, the names in them, and the small JSON patches that change them."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from kilauea.admission.review import Denied
from kilauea.api.errors import explain, path_text
from kilauea.api.meta import Object
from kilauea.api.names import qualified_name_problems
from kilauea.api.ports import Obj

_T = TypeVar("_T")

_SUFFIX = "xxxxx"
"""Stands for the end of a name that the server is going to make up."""


def read(value: Obj | None, of: type[_T], where: str = "") -> _T:
    """The typed form of an object, or of the part of one that stands at a path.

    Raises:
        Denied: it has not the form that its kind must have; names the field and the value.
    """
    if value is None:
        raise Denied(f"the request holds no {of.__name__}: send the object")
    try:
        return msgspec.convert(value, of)
    except (msgspec.ValidationError, RecursionError) as error:
        path, message = explain(error, value)
        place = ".".join(part for part in (where, path_text(path)) if part)
        raise Denied(f"{place}: {message}" if place else f"{of.__name__}: {message}") from None


def name_of(obj: Object, raw: Obj | None) -> str:
    """The name of an object, as long as the server will make it where it makes it up."""
    if obj.name or raw is None:
        return obj.name
    stem = raw.get("metadata", {}).get("generateName")
    return f"{stem}{_SUFFIX}" if stem else ""


def name_fault(name: str) -> str:
    """Return the errors in a qualified name, each in one pair of brackets; empty if it is valid."""
    return bracketed(qualified_name_problems(name))


def bracketed(words: tuple[str, ...] | list[str]) -> str:
    """A list of texts as Go prints it; empty if there are none."""
    return f"[{' '.join(words)}]" if words else ""


def add(value: Any, *path: str | int) -> dict[str, Any]:
    """The JSON Patch operation that sets a field, or that inserts into a list."""
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in path)
    return {"op": "add", "path": "".join(f"/{step}" for step in steps), "value": value}
