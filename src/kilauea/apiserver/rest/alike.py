"""New pods with the same structure, which reuse the parsing, defaults and field ownership of the first one."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kilauea.apiserver.patch import FieldSet, fields_of_part
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.schema import DecodeError, read_builtin
from kilauea.apiserver.strategies.alike import Masked, Remembered, masked, unmasked

Object = dict[str, Any]
_FIELDS = frozenset(("apiVersion", "kind", "metadata", "spec"))
_decode, _encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


class Known(NamedTuple):
    """The outcome of reading a specification.

    Attributes:
        completed: the specification without unknown fields and with defaults; JSON with masks.
        owned: its fields that the creator owns, which must not be changed; None if it owns none.
    """

    completed: bytes
    owned: FieldSet | None


class Like(NamedTuple):
    """The specification of a new object, and the known outcome for similar ones."""

    form: Masked
    known: Known | None


_SPECIFICATIONS: Remembered[Known] = Remembered()


def read_alike(resource: ResourceType, obj: Object) -> Like | None:
    """Read a new object in place if its specification is known; return the specification, None if it cannot be known.

    If nothing is known of it, or the rest of the object has an error, the object is unchanged.
    """
    spec = obj.get("spec")
    if not resource.strategy.are_alike or spec.__class__ is not dict or not obj.keys() <= _FIELDS:
        return None
    form = masked(spec)
    known = None if form is None else _SPECIFICATIONS.get(form.text)
    if form is None or known is None:
        return None if form is None else Like(form, None)
    rest = {key: value for key, value in obj.items() if key != "spec"}
    before = _encode(rest)
    try:
        if read_builtin(resource.schema, rest):
            raise DecodeError
    except DecodeError:  # the error is reported for the whole object
        obj.update(_decode(before))
        return None
    obj.clear()
    obj.update(rest)
    obj["spec"] = unmasked(_decode(known.completed), form.values)
    return Like(form, known)


def remember(resource: ResourceType, obj: Object, like: Like) -> Like | None:
    """Remember the outcome for the specification of an object that was read and has its defaults."""
    completed = masked(obj["spec"])
    if completed is None or len(completed.values) != len(like.form.values):
        return None
    try:
        owned = fields_of_part(resource.schema, "spec", obj["spec"])
    except ValueError:  # items of a list cannot be distinguished
        return None
    known = Known(completed.text, owned)
    _SPECIFICATIONS.put(like.form.text, known)
    return like._replace(known=known)
