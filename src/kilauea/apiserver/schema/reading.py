"""Reading of objects of built-in kinds as by a round trip through Go's types.

Go's types have fewer values than JSON: null and, in most fields, empty values equal absent ones; quantities and times
have a canonical form; values of another type are rejected. `read_builtin` reduces a decoded object to the result of
such a round trip. Fields that are always written are added by `kilauea.apiserver.schema.defaults`.

A reader is created for each definition when it is first needed. It does not track paths: rejected objects are traversed
again to find the path of the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kilauea.apiserver.schema import scalars
from kilauea.apiserver.schema.nodes import Schema, derived
from kilauea.apiserver.schema.unknown import prune, unknown_fields

Read = Callable[[Any], Any]

_APIMACHINERY = "io.k8s.apimachinery.pkg."
SPECIAL: Mapping[str, Read] = {
    f"{_APIMACHINERY}api.resource.Quantity": scalars.quantity,
    f"{_APIMACHINERY}util.intstr.IntOrString": scalars.int_or_string,
    f"{_APIMACHINERY}apis.meta.v1.Time": scalars.time,
    f"{_APIMACHINERY}apis.meta.v1.MicroTime": scalars.micro_time,
}
"""Readers of types with a special format, by the name of the definition."""
_BITS = {"int32": 31, "int64": 63}
_GO_NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}


class DecodeError(ValueError):
    """Go cannot decode a value; the text is the real server's message."""


class _Unknown(Exception):
    """The type does not have a field."""


def read_builtin(schema: Schema, obj: dict[str, Any]) -> list[str]:
    """Reduce an object of a built-in kind in place to its values in Go; return the paths of unknown fields.

    Raises:
        DecodeError: a value is not of the type of its field.
    """
    read = _reader(schema)
    try:
        read(obj)
    except _Unknown:
        unknown = unknown_fields(schema, obj)
        prune(schema, obj)
    except (TypeError, ValueError) as error:
        raise DecodeError(_error_in(schema, obj) or str(error)) from error
    else:
        return []
    read_builtin(schema, obj)
    return unknown


# --- readers

_RESOURCES, _CORE = "v1.ResourceList", "io.k8s.api.core.v1."
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
"""Any JSON value, which may be empty."""
_WITHOUT_FIELDS = frozenset(["io.k8s.api.scheduling.v1alpha2.BasicSchedulingPolicy"])
"""Structs without fields, which the descriptions do not distinguish from arbitrary objects."""


@derived
def _reader(schema: Schema) -> Read:
    """Return the reader of a node, which returns the value to keep, or raises TypeError or ValueError."""
    if schema.name in SPECIAL:
        return SPECIAL[schema.name]
    if schema.type == "object" and (schema.layout or schema.name in _WITHOUT_FIELDS):
        return _struct_reader(schema)
    if schema.type == "object" and schema.additional is not None:
        return _map_reader(schema.additional)
    if schema.type == "array" and schema.items is not None:
        return _list_reader(schema.items)
    if schema.format == "byte":
        return scalars.encoded_bytes
    if schema.type in ("string", "boolean"):
        return _text if schema.type == "string" else _bool
    if schema.type == "integer":
        return _integer_reader(schema.format)
    if schema.type == "number":
        return _number
    return _anything


def _anything(value: Any) -> Any:
    return value


def _number(value: Any) -> Any:
    if type(value) not in (int, float):
        raise TypeError("float64")
    return value


def _exactly(wanted: type) -> Read:
    def read(value: Any) -> Any:
        if value.__class__ is not wanted:
            raise TypeError(wanted.__name__)
        return value

    return read


_text, _bool = _exactly(str), _exactly(bool)
_PLAIN: Mapping[Read, type] = {_text: str, _bool: bool}
"""The types that the most common readers return unchanged, so that they need not be called."""


def _integer_reader(form: str) -> Read:
    limit = 1 << _BITS.get(form, 63)

    def read(value: Any) -> Any:
        if value.__class__ is not int or not -limit <= value < limit:
            raise TypeError(form)
        return value

    return read


_TOLD_WHEN_EMPTY = frozenset([("io.k8s.api.autoscaling.v2.HPAScalingRules", "policies")])
"""Lists that are rejected if empty, and have a default if absent."""
_OWNED_WHEN_EMPTY: Mapping[str, tuple[tuple[str, str], ...]] = {
    "io.k8s.api.rbac.v1.Role": (("", "rules"),),
    "io.k8s.api.rbac.v1.ClusterRole": (("", "rules"),),
    "io.k8s.api.core.v1.LimitRange": (("spec", "limits"),),
    "io.k8s.api.discovery.v1.EndpointSlice": (("", "endpoints"), ("", "ports")),
    "io.k8s.api.storage.v1.CSINode": (("spec", "drivers"),),
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler": (("status", "currentMetrics"),),
}
"""Lists that Go always writes: an empty one has an owner, null has none. By kind: the parent field, and the list."""


def forget_empty(schema: Schema, obj: dict[str, Any]) -> None:
    """Set lists that were kept only for their owner to null in place, as the real server does not store them."""
    for above, key in _OWNED_WHEN_EMPTY.get(schema.name, ()):
        holder = obj.get(above) if above else obj
        if holder and holder.get(key) == []:
            holder[key] = None


def _kept_when_empty() -> Iterator[tuple[str, str]]:
    yield from _TOLD_WHEN_EMPTY
    for kind, places in _OWNED_WHEN_EMPTY.items():
        yield from ((f"{kind}{above.capitalize()}", key) for above, key in places)


_KEPT_WHEN_EMPTY = frozenset(_kept_when_empty())


def _struct_reader(schema: Schema) -> Read:
    fields: dict[str, tuple[type | None, Read, bool]] = {}

    def prepare() -> None:
        for key, child in schema.properties.items():
            mark = schema.layout.get(key, "")
            collection = child.type == "array" or (child.type == "object" and not child.layout)
            is_amounts = mark.lstrip("=*") == _RESOURCES and schema.name.startswith(_CORE)
            read_field = _amounts_reader(child) if is_amounts else _reader(child)
            plain = _PLAIN.get(read_field)
            droppable = not mark.startswith(("=", "*")) or (mark.startswith("=") and collection)
            droppable = droppable and child.name != _RAW
            fields[key] = (plain, read_field, droppable and (schema.name, key) not in _KEPT_WHEN_EMPTY)

    def read(obj: Any) -> Any:
        if obj.__class__ is not dict:
            raise TypeError("object")
        if not fields:
            prepare()
        dropped = []
        for key, value in obj.items():
            known = fields.get(key)
            if known is None:
                raise _Unknown
            if value is None:
                dropped.append(key)
                continue
            plain, read_field, droppable = known
            kept = value if value.__class__ is plain else read_field(value)
            if kept is not value:
                obj[key] = kept
            if not kept and droppable:
                dropped.append(key)
        for key in dropped:
            del obj[key]
        return obj

    return read


def _map_reader(values: Schema) -> Read:
    read_value = _reader(values)

    def read(obj: Any) -> Any:
        if obj.__class__ is not dict:
            raise TypeError("map")
        for key, value in obj.items():
            kept = zero(values) if value is None else read_value(value)
            if kept is not value:
                obj[key] = kept
        return obj

    return read


def _amounts_reader(schema: Schema) -> Read:
    """Return the reader of amounts by resource, which the real server rounds up to thousandths."""
    read_map = _reader(schema)

    def read(obj: Any) -> Any:
        kept = read_map(obj)
        for name, text in kept.items():
            if text[-1] in "nu":
                kept[name] = scalars.exact_text(scalars.amount_of(text))
        return kept

    return read


def _list_reader(items: Schema) -> Read:
    read_item = _reader(items)

    def read(value: Any) -> Any:
        if value.__class__ is not list:
            raise TypeError("list")
        for index, item in enumerate(value):
            kept = zero(items) if item is None else read_item(item)
            if kept is not item:
                value[index] = kept
        return value

    return read


def zero(schema: Schema) -> Any:
    """Return the value that Go writes for an unset node."""
    if schema.name in SPECIAL:
        return {"Quantity": "0", "IntOrString": 0}.get(schema.name.rpartition(".")[2])
    if schema.type == "object" and schema.layout:
        return {}
    return {"string": "", "integer": 0, "number": 0, "boolean": False}.get(schema.type)


# --- error messages


def _error_in(schema: Schema, obj: Any) -> str | None:
    """Return the real server's message about the first invalid value in the object."""
    kind = schema.name.rpartition(".")[2]
    return _problem(schema, obj, kind, "", f"v1.{kind}")


def _problem(schema: Schema, value: Any, struct: str, path: str, go_type: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, dict) and schema.layout:
        owner = schema.name.rpartition(".")[2]
        for key, each in value.items():
            child = schema.properties.get(key)
            if child is None:
                continue
            within, _, type_name = schema.layout.get(key, "").lstrip("=*").rpartition("/")
            below = ".".join(step for step in (path, within, key) if step)
            found = _problem(child, each, owner, below, type_name)
            if found:
                return found
        return None
    if isinstance(value, dict) and schema.additional is not None:
        return _first(schema.additional, list(value.values()), struct, path, re.sub(r"^map\[[^]]*\]", "", go_type))
    if isinstance(value, list) and schema.items is not None:
        return _first(schema.items, value, struct, path, go_type.removeprefix("[]"))
    try:
        _reader(schema)(value)
    except TypeError:
        what, wanted = _go_name(value, schema), _plain(go_type, schema)
        where = f"struct field {struct}.{path}" if path else "value"
        return f"json: cannot unmarshal {what} into Go {where} of type {wanted}"
    except ValueError as error:
        return str(error)
    return None


def _first(schema: Schema, values: list[Any], struct: str, path: str, go_type: str) -> str | None:
    named = _NAMED_COLLECTIONS.get(go_type, go_type)
    return next((found for each in values if (found := _problem(schema, each, struct, path, named))), None)


_NAMED_COLLECTIONS = {"v1.ResourceList": "resource.Quantity", "v1.ExtraValue": "string"}
_READ_AS = {"Time": "string", "MicroTime": "string", "IntOrString": "int32"}


def _plain(go_type: str, schema: Schema) -> str:
    """Return the type in an error: types with a custom decoder name the one that they decode into."""
    return _READ_AS.get(schema.name.rpartition(".")[2], go_type) if schema.name in SPECIAL else go_type


def _go_name(value: Any, schema: Schema) -> str:
    """Return Go's name for a JSON value; a number is included if the field accepts other numbers."""
    name = _GO_NAMES[type(value)]
    if name == "number" and (schema.type == "integer" or schema.int_or_string):
        return f"number {value}"
    return name
