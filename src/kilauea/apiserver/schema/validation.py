"""Validation of custom resources against their structural schema, with the same causes as the real server.

The order of the causes is that of the fields in the schema's keywords and of the object; where the real server's order
is random (the fields of an object), it is the order of the object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from kilauea.apiserver.schema.accepting import PLAIN, Test, applied, make_tests
from kilauea.apiserver.schema.formats import matches_format
from kilauea.apiserver.schema.nodes import RESOURCE_FIELDS, Schema
from kilauea.apiserver.status import Cause, first_causes

Raw = Mapping[str, Any]
Check = Callable[[Raw, Any, str], Iterator[Cause]]

NOWHERE = "<nil>"
"""The field of causes without a field in the real server."""
_INT_RANGES = {"int32": 2**31, "int64": 2**63}
_KINDS_WITH_FORMAT = {"number": "float64", "object": "", "boolean": ""}
"""Names of kinds of values that are not integers of a format, where they differ."""


def validate(schema: Schema, obj: Any) -> list[Cause]:
    """Return the first errors in a custom resource: values that its schema does not allow, and duplicate items."""
    return first_causes(violations(schema, obj))


def violations(schema: Schema, obj: Any) -> Iterator[Cause]:
    """Yield all errors in a custom resource, of which there may be as many as it has values."""
    if not isinstance(obj, dict) or not _accepts(schema, obj):
        yield from _check(schema.raw, obj, "")
        yield from _duplicates(schema.raw, obj, "")


def causes(schema: Schema, obj: Any) -> list[Cause]:
    """Return the errors as `validate` does, without the fast test."""
    return [*_check(schema.raw, obj, ""), *_duplicates(schema.raw, obj, "")]


def _accepts(schema: Schema, obj: dict[str, Any]) -> bool:
    """Return True if a custom resource is valid; its metadata is checked elsewhere."""
    described = schema.raw.get("properties", {})
    if not _ROOT.issuperset(schema.raw) or any(key not in obj for key in schema.required):
        return False
    for key, value in obj.items():
        if key in RESOURCE_FIELDS:
            allowed = _is_plain(described.get(key, _ANYTHING), value) or not any(_check(described[key], value, key))
        else:
            allowed = key not in described or _allows(schema.properties[key])(value)
        if not allowed:
            return False
    return True


def _is_plain(raw: Raw, value: Any) -> bool:
    """Return True if a schema is only a type and the value has it, the common case; avoids computing paths."""
    return raw.keys() <= _TYPE_ALONE and raw.get("type") in (None, type_name(value))


_ANYTHING: Raw = {}
_TYPE_ALONE = {"type", "description", "default"}
_ROOT = PLAIN | {"x-kubernetes-embedded-resource"}


def _checked(schema: Schema) -> Test:
    """Return the test of a node that requires a full check."""
    raw = schema.raw
    return lambda value: not any(_check(raw, value, "below")) and not any(_duplicates(raw, value, "below"))


_allows = make_tests(_checked)


def _check(raw: Raw, value: Any, path: str) -> Iterator[Cause]:
    if value is None and raw.get("nullable"):
        return
    kind = type_name(value)
    yield from _check_type(raw, kind, path)
    yield from _check_combinations(raw, value, path)
    for check in _CHECKS.get(kind, ()):
        yield from check(raw, value, path)
    enum = raw.get("enum")
    if enum is not None and not any(same(value, each) for each in enum):
        words = ", ".join(f'"{each}"' if isinstance(each, str) else f'"{_json(each)}"' for each in enum)
        yield Cause(path, "FieldValueNotSupported", f"Unsupported value: {_json(value)}: supported values: {words}")
    if kind == "object":
        yield from _check_object(raw, value, path)


def type_name(value: Any) -> str:
    """Return the JSON schema type of a value; a whole number is an integer in any notation.

    As in the real server, integers beyond 64 bits, which it decodes as fractions, are numbers, and so are large
    fractions.
    """
    if isinstance(value, float):
        return "integer" if value.is_integer() and abs(value) < 2**53 else "number"
    if value.__class__ is int and not -(2**63) <= value < 2**63:
        return "number"
    return _TYPE_NAMES[type(value)]


_TYPE_NAMES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    list: "array",
    dict: "object",
    type(None): "null",
}


def same(left: Any, right: Any) -> bool:
    """Return True if JSON values are equal; true is not 1."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _check_type(raw: Raw, kind: str, path: str) -> Iterator[Cause]:
    if raw.get("x-kubernetes-int-or-string"):
        if kind not in ("integer", "string"):
            yield _wrong_type(path, kind, "integer,string")
        return
    wanted = raw.get("type")
    if wanted and kind != wanted and not (wanted == "number" and kind == "integer"):
        form = raw.get("format", "")
        if wanted == "integer" and form in _INT_RANGES and kind in _KINDS_WITH_FORMAT:
            yield _wrong_type(path, _KINDS_WITH_FORMAT[kind], form)
        else:
            yield _wrong_type(path, kind, wanted)


def _wrong_type(path: str, kind: str, wanted: str) -> Cause:
    message = f'Invalid value: "{kind}": {path} in body must be of type {wanted}: "{kind}"'
    return Cause(path, "FieldValueTypeInvalid", message)


def _invalid(path: str, value: Any, words: str) -> Cause:
    return Cause(path, "FieldValueInvalid", f"Invalid value: {_json(value)}: {path} in body {words}")


def _nowhere(words: str) -> Cause:
    return Cause(NOWHERE, "FieldValueInvalid", f'Invalid value: "": {words}')


# --- combinations


def _check_combinations(raw: Raw, value: Any, path: str) -> Iterator[Cause]:
    any_of, one_of, all_of = (raw.get(key) for key in ("anyOf", "oneOf", "allOf"))
    if any_of:
        failures = [list(_check(each, value, path)) for each in any_of]
        if all(failures):
            yield _nowhere(f'"{path}" must validate at least one schema (anyOf)')
            yield from failures[0]
    if one_of:
        failures = [list(_check(each, value, path)) for each in one_of]
        valid = failures.count([])
        if valid != 1:
            found = f"{valid} valid alternatives" if valid else "none valid"
            yield _nowhere(f'"{path}" must validate one and only one schema (oneOf). Found {found}')
            yield from failures[0] if not valid else ()
    if all_of:
        failures = [list(_check(each, value, path)) for each in all_of]
        yield from (each for found in failures for each in found)
        if any(failures):
            end = ". None validated" if all(failures) else ""
            yield _nowhere(f'"{path}" must validate all the schemas (allOf){end}')
    if "not" in raw and not any(_check(raw["not"], value, path)):
        yield _nowhere(f'"{path}" must not validate the schema (not)')


# --- one type each


def _check_string(raw: Raw, value: str, path: str) -> Iterator[Cause]:
    longest, shortest, pattern = raw.get("maxLength"), raw.get("minLength"), raw.get("pattern")
    if longest is not None and len(value) > longest:
        yield Cause(path, "FieldValueTooLong", f"Too long: may not be more than {longest} bytes")
    if shortest is not None and len(value) < shortest:
        yield _invalid(path, value, f"should be at least {shortest} chars long")
    if pattern and not applied(pattern).search(value):
        yield _invalid(path, value, f"should match '{pattern}'")
    form = raw.get("format")
    if form and not matches_format(form, value):
        shown = _json(value)
        message = f"Invalid value: {shown}: {path} in body must be of type {form}: {shown}"
        yield Cause(path, "FieldValueTypeInvalid", message)


def _check_number(raw: Raw, value: int | float, path: str) -> Iterator[Cause]:
    form = raw.get("format", "")
    if raw.get("type") == "integer":
        limit = _INT_RANGES.get(form, 2**63)
        if not (isinstance(value, int) or value.is_integer()) or not -limit <= value < limit:
            named = f"with format {form}" if form else "(default format)"
            yield _nowhere(f"Checked value must be of type integer {named} in {path}")
    step, most, least = (_bound(value, raw.get(key)) for key in ("multipleOf", "maximum", "minimum"))
    if step and value % step:
        yield _invalid(path, value, f"should be a multiple of {step}")
    if most is not None and (value > most or (value == most and raw.get("exclusiveMaximum"))):
        yield _invalid(
            path, value, f"should be less than {'' if raw.get('exclusiveMaximum') else 'or equal to '}{most}"
        )
    if least is not None and (value < least or (value == least and raw.get("exclusiveMinimum"))):
        message = "" if raw.get("exclusiveMinimum") else "or equal to "
        yield _invalid(path, value, f"should be greater than {message}{least}")


def _bound(value: int | float, limit: int | float | None) -> int | float | None:
    """Return a limit as the real server compares it: with integers, as an integer."""
    return limit if limit is None or isinstance(value, float) else int(limit)


def _check_array(raw: Raw, value: list[Any], path: str) -> Iterator[Cause]:
    items, fewest, most = raw.get("items"), raw.get("minItems"), raw.get("maxItems")
    if items:
        for index, item in enumerate(value):
            if not _is_plain(items, item):
                yield from _check(items, item, f"{path}[{index}]")
    if fewest is not None and len(value) < fewest:
        yield _invalid(path, len(value), f"should have at least {fewest} items")
    if most is not None and len(value) > most:
        yield _too_many(path, len(value), most)
    if raw.get("uniqueItems") and len({_json(each) for each in value}) < len(value):
        yield Cause(path, "FieldValueDuplicate", f"Duplicate value: {_json(value)}")


def _too_many(path: str, count: int, most: int) -> Cause:
    return Cause(path, "FieldValueTooMany", f"Too many: {count}: must have at most {most} items")


def _check_object(raw: Raw, value: dict[str, Any], path: str) -> Iterator[Cause]:
    fewest, most = raw.get("minProperties"), raw.get("maxProperties")
    if fewest is not None and len(value) < fewest:
        yield _invalid(path, len(value), f"should have at least {fewest} properties")
    if most is not None and len(value) > most:
        yield _too_many(path, len(value), most)
    described: Raw = raw.get("properties", {})
    required = raw.get("required", ())
    if path and raw.get("x-kubernetes-embedded-resource"):
        described = {**RESOURCE_FIELDS, **described, "metadata": {}}
        required = [*required, *(key for key in ("apiVersion", "kind") if key not in required)]
    for key in required:
        if key not in value:
            yield Cause(_below(path, key), "FieldValueRequired", "Required value")
    others = raw.get("additionalProperties")
    for key, each in value.items():
        child = described.get(key, others if isinstance(others, dict) else None)
        if child and not _is_plain(child, each):
            yield from _check(child, each, _below(path, key))


_CHECKS: Mapping[str, tuple[Check, ...]] = {
    "string": (_check_string,),
    "integer": (_check_number,),
    "number": (_check_number,),
    "array": (_check_array,),
}


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


# --- lists that are sets or maps


def _duplicates(raw: Raw, value: Any, path: str) -> Iterator[Cause]:
    """Yield errors for duplicate items of set and map lists."""
    if isinstance(value, list):
        identity = _identity(raw)
        if identity is not None:
            seen: set[str] = set()
            for index, item in enumerate(value):
                if raw["x-kubernetes-list-type"] == "map" and not isinstance(item, dict):
                    if item is not None:
                        message = f"Invalid value: {_json(item)}: must be an object for an array of list-type map"
                        yield Cause(f"{path}[{index}]", "FieldValueInvalid", message)
                    continue
                text = _json(identity(item))
                if text in seen:
                    yield Cause(f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {text}")
                seen.add(text)
        items = raw.get("items")
        if items:
            for index, item in enumerate(value):
                if isinstance(item, dict | list):
                    yield from _duplicates(items, item, f"{path}[{index}]")
    elif isinstance(value, dict):
        others = raw.get("additionalProperties")
        for key, each in value.items():
            child = raw.get("properties", {}).get(key, others if isinstance(others, dict) else None)
            if child and isinstance(each, dict | list):
                yield from _duplicates(child, each, _below(path, key))


def _identity(raw: Raw) -> Callable[[Any], Any] | None:
    """Return the function that identifies the items of a list, if they must be unique."""
    kind = raw.get("x-kubernetes-list-type")
    if kind == "set":
        return lambda item: item
    if kind != "map":
        return None
    keys = sorted(raw.get("x-kubernetes-list-map-keys", ()))
    return lambda item: {key: item.get(key) for key in keys if key in item}
