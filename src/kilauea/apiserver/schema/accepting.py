"""A fast check that a schema allows a value, for the common case that it does.

A test is created for each node when it is first needed. It may reject a valid value, but never accepts an invalid one:
rejected values are checked again by `kilauea.apiserver.schema.validation`, which returns the errors. Nodes with less
common keywords are left to that module.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

from kilauea.api.patterns import Found, Pattern, pattern_of
from kilauea.apiserver.schema.nodes import Schema, derived

log = logging.getLogger(__name__)

Test = Callable[[Any], bool]

PLAIN = frozenset(
    "type properties required items minItems maxItems additionalProperties nullable default description title format "
    "example x-kubernetes-map-type x-kubernetes-list-type x-kubernetes-list-map-keys x-kubernetes-int-or-string "
    "x-kubernetes-preserve-unknown-fields x-kubernetes-validations".split()
)
"""Keywords that the tests here support for all types."""
OF_TYPE = {"string": PLAIN | {"enum", "maxLength", "pattern"}, "integer": PLAIN | {"minimum"}}
"""Keywords that they support for some types."""
EITHER = [{"type": "integer"}, {"type": "string"}]
"""The alternatives of `x-kubernetes-int-or-string`."""
_PLAIN_FORMATS = ("", "int32", "int64", "float", "double", "int-or-string")
_LIMITS = {"int32": 2**31}


class _Anything:
    """An invalid pattern, of a definition that was stored before patterns were checked; matches everything."""

    def search(self, _: str, /) -> Found | None:
        """Return a match."""
        return _ANYTHING


_ANYTHING = pattern_of("").search("")


def applied(pattern: str) -> Pattern:
    """Compile the pattern of a stored definition; an invalid one allows everything."""
    try:
        return pattern_of(pattern)
    except ValueError as error:
        log.warning("the pattern %s of a definition is not enforced: %s", pattern, error)
        return _Anything()


def make_tests(checked: Callable[[Schema], Test]) -> Callable[[Schema], Test]:
    """Return a function that creates the tests of nodes; `checked` creates those with unsupported keywords."""

    @derived
    def test_of(schema: Schema) -> Test:
        raw = schema.raw
        if (
            schema.int_or_string
            and not raw.keys() - PLAIN - {"pattern", "anyOf"}
            and raw.get("anyOf", EITHER) == EITHER
        ):
            pattern = applied(raw.get("pattern", ""))
            return lambda value: (
                -(2**63) <= value < 2**63
                if value.__class__ is int
                else value.__class__ is str and bool(pattern.search(value))
            )
        if not OF_TYPE.get(schema.type, PLAIN).issuperset(raw) or schema.format not in _PLAIN_FORMATS:
            return checked(schema)
        if schema.type == "object":
            return _with_null(schema, _object_test(schema, test_of))
        if schema.type == "array":
            return _with_null(schema, _array_test(schema, test_of))
        return _with_null(schema, _scalar_test(schema))

    return test_of


def _with_null(schema: Schema, test: Test) -> Test:
    return (lambda value: value is None or test(value)) if schema.nullable else test


def _scalar_test(schema: Schema) -> Test:
    if schema.type == "integer":
        limit = _LIMITS.get(schema.format, 2**63)
        least = max(-limit, schema.raw.get("minimum", -limit))
        return lambda value: value.__class__ is int and least <= value < limit
    if schema.type == "string" and not PLAIN.issuperset(schema.raw):
        return _string_test(schema.raw)
    wanted = {"string": (str,), "boolean": (bool,), "number": (int, float)}.get(schema.type)
    return (lambda value: value.__class__ in wanted) if wanted else (lambda value: True)


def _string_test(raw: Mapping[str, Any]) -> Test:
    """Return the test of strings with constraints."""
    allowed, longest, pattern = raw.get("enum"), raw.get("maxLength", sys.maxsize), applied(raw.get("pattern", ""))
    return lambda value: (
        value.__class__ is str
        and (allowed is None or value in allowed)
        and len(value) <= longest
        and bool(pattern.search(value))
    )


def _array_test(schema: Schema, test_of: Callable[[Schema], Test]) -> Test:
    items = schema.items
    test = test_of(items) if items is not None else bool
    anything = items is None
    least, most = schema.raw.get("minItems", 0), schema.raw.get("maxItems", sys.maxsize)
    unique = schema.list_type != "atomic"

    def test_array(value: Any) -> bool:
        if value.__class__ is not list or not least <= len(value) <= most:
            return False
        return (anything or all(map(test, value))) and (not unique or _different(schema, value))

    return test_array


def _different(schema: Schema, items: list[Any]) -> bool:
    """Return True if the items of a set or map list are unique; unhashable items are left to validation."""
    keys = schema.list_keys
    try:
        if keys:
            return len({tuple([item.get(key) for key in keys]) for item in items}) == len(items)
        return len(set(items)) == len(items)
    except TypeError:
        return False


def _object_test(schema: Schema, test_of: Callable[[Schema], Test]) -> Test:
    tests = {key: test_of(child) for key, child in schema.properties.items()}
    others = test_of(schema.additional) if schema.additional is not None else None
    required = schema.required

    def test(value: Any) -> bool:
        if value.__class__ is not dict:
            return False
        for key in required:
            if key not in value:
                return False
        for key, each in value.items():
            known = tests.get(key, others)
            if known is not None and not known(each):
                return False
        return True

    return test
