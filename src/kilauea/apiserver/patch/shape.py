"""The division of the values of a kind into ownable fields, derived from its schema.

A `Shape` is created from a node of the schema when it is first needed, and cached. Without a description (in preserved
unknown fields), objects have fields and lists are atomic.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from kilauea.apiserver.patch.fieldset import FieldSet, key_step, value_step
from kilauea.apiserver.patch.values import ABSENT
from kilauea.apiserver.schema.nodes import Schema, derived
from kilauea.apiserver.schema.reading import zero


class Sort(Enum):
    """The sort of a value with regard to ownership."""

    LEAF = "leaf"  # owned as a whole: plain values, atomic lists, atomic objects
    OBJECT = "object"  # fields and keys are owned separately
    SET = "set"  # a list of plain values, each owned separately
    ITEMS = "items"  # a list of objects, distinguished by keys
    ANY = "any"  # unknown: an object has fields, everything else is a leaf


_LEAF_TYPES = frozenset(
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.runtime.RawExtension")
)


_MOST_STEPS, _LONGEST_NAME = 4096, 256
"""Maximum number of cached steps to items, and characters of the name of each."""


class Shape:
    """The ownership of values at one node of a schema.

    Attributes:
        sort: the sort of the value.
        leaf: True if that is `LEAF`, which is checked for every field.
        keys: for `ITEMS`, the keys that distinguish items, sorted.
        zero: the value in Go's struct if JSON omits the field; `ABSENT` if it can be omitted.
        declared: for objects, the described fields; all other keys are those of a map.
        is_list: True if the value is a list, atomic or not.
        made: nodes that `kilauea.apiserver.patch.whole` caches.
        flat: the same for objects whose fields are all leaves, by their keys.
        reduced: sets that `kilauea.apiserver.patch.fresh` caches, by the identity of their source.
        scalar: `string`, `numeric`, `boolean`, or `untyped` (any of them) for plain values; empty otherwise.
    """

    __slots__ = (
        "__weakref__",
        "_additional",
        "_fields",
        "_items",
        "_keeps_unknown",
        "_schema",
        "_steps",
        "declared",
        "flat",
        "is_list",
        "keys",
        "leaf",
        "made",
        "reduced",
        "scalar",
        "sort",
        "zero",
    )

    def __init__(self, schema: Schema | None, zero: Any = ABSENT, keeps_unknown: bool = False) -> None:
        self.zero = zero
        self.keys: tuple[str, ...] = ()
        self.declared: frozenset[str] = frozenset()
        self._schema = schema
        self._fields: dict[str, tuple[str, Shape]] = {}
        self._items: Shape | None = None
        self._steps: dict[str, str] = {}
        self.made: dict[tuple[Any, ...], FieldSet] = {}
        self.flat: dict[tuple[str, ...], FieldSet] = {}
        self.reduced: dict[int, tuple[FieldSet, FieldSet, FieldSet, FieldSet]] = {}
        self._additional: Shape | None = None
        self._keeps_unknown = keeps_unknown or (schema is not None and schema.preserve_unknown)
        self.sort = Sort.ANY if schema is None else self._sort_of(schema)
        self.leaf = self.sort is Sort.LEAF
        self.is_list = schema is not None and schema.type == "array"
        self.scalar = _scalar_of(schema) if schema is not None and self.sort is Sort.LEAF else ""

    def _sort_of(self, schema: Schema) -> Sort:
        if schema.name in _LEAF_TYPES:
            return Sort.LEAF
        if schema.type == "object":
            self.declared = frozenset(schema.properties)
            return Sort.LEAF if schema.map_type == "atomic" else Sort.OBJECT
        if schema.type == "array":
            return self._sort_of_list(schema)
        return Sort.LEAF if schema.type else Sort.ANY

    def _sort_of_list(self, schema: Schema) -> Sort:
        """Return the sort of a list; kinds that predate list types have a patch strategy."""
        kind, keys = schema.list_type, schema.list_keys
        if "x-kubernetes-list-type" not in schema.raw and "merge" in schema.patch_strategy.split(","):
            kind, keys = ("map", (schema.merge_key,)) if schema.merge_key else ("set", ())
        self.keys = tuple(sorted(keys)) if kind == "map" else ()
        return {"set": Sort.SET, "map": Sort.ITEMS}.get(kind, Sort.LEAF)

    def forget(self) -> None:
        """Clear the caches."""
        for known in (self.made, self.flat, self.reduced):
            known.clear()

    def field(self, key: str) -> tuple[str, Shape]:
        """Return the step to a field, and its shape."""
        found = self._fields.get(key)
        if found is None:
            found = f"f:{key}", self._field(key)
            if key in self.declared:
                self._fields[key] = found
        return found

    def _field(self, key: str) -> Shape:
        schema = self._schema
        if schema is None:
            return ANY
        if key in self.declared:
            child = schema.properties[key]
            return Shape(child, _zero_of(schema, key, child), self._keeps_unknown)
        if self._additional is None:
            self._additional = Shape(schema.additional, keeps_unknown=self._keeps_unknown)
        return self._additional

    def knows(self, key: str) -> bool:
        """Return True if an object may have this key."""
        schema = self._schema
        if schema is None or key in self.declared or schema.additional is not None:
            return True
        return self._keeps_unknown or not self.declared

    @property
    def items(self) -> Shape:
        """Return the shape of the items of a list."""
        if self._items is None:
            schema = self._schema
            self._items = ANY if schema is None else Shape(schema.items, keeps_unknown=self._keeps_unknown)
        return self._items

    def item_step(self, item: Any) -> str:
        """Return the step to an item of a list.

        Raises:
            ValueError: the item cannot be identified; worded as by the real server.
        """
        if self.sort is Sort.ITEMS:
            if len(self.keys) == 1 and item.__class__ is dict and (name := item.get(self.keys[0])).__class__ is str:
                return self._step_of(name)
            return key_step(self._keys_of(item))
        if item is None:
            raise ValueError("associative list without keys has an element that's an explicit null")
        if isinstance(item, dict):
            raise ValueError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise ValueError("not supported: associative list with lists as elements")
        return value_step(item)

    @property
    def steps_known(self) -> int:
        """Return the number of cached steps to items with one key."""
        return len(self._steps)

    def _step_of(self, name: str) -> str:
        """Return the step to an item with one string key; cached, as names recur."""
        step = self._steps.get(name)
        if step is None:
            step = key_step({self.keys[0]: name})
            if len(name) <= _LONGEST_NAME:
                if len(self._steps) >= _MOST_STEPS:
                    self._steps.clear()
                self._steps[name] = step
        return step

    def _keys_of(self, item: Any) -> dict[str, Any]:
        """Return the keys of an item, with defaults for omitted ones."""
        if not isinstance(item, dict):
            which = "a null element" if item is None else "non-map elements"
            raise ValueError(f"associative list with keys may not have {which}")
        found = {key: item[key] for key in self.keys if key in item}
        if len(found) < len(self.keys):
            found = {key: item.get(key, self._default(key)) for key in self.keys}
            found = {key: value for key, value in found.items() if value is not ABSENT}
        if not found:
            names = " ".join(f'"{key}"' for key in (self._schema.list_keys if self._schema else ()))
            raise ValueError(
                f"associative list with keys has an element that omits all key fields [{names}] "
                "(and doesn't have default values for any key fields)"
            )
        return found

    def _default(self, key: str) -> Any:
        items = self._schema.items if self._schema else None
        child = items.properties.get(key) if items else None
        return child.default if child is not None and child.has_default else ABSENT


def _scalar_of(schema: Schema) -> str:
    """Return the type of a plain value; empty for atomic objects and lists."""
    if schema.name.endswith(".RawExtension") or schema.type in ("object", "array"):
        return ""
    if schema.type == "string" and schema.format in ("", "byte") and schema.name not in _LEAF_TYPES:
        return "string"
    return {"integer": "numeric", "number": "numeric", "boolean": "boolean"}.get(schema.type, "untyped")


def _zero_of(schema: Schema, key: str, child: Schema) -> Any:
    """Return the value that Go writes for a missing field of a built-in type, if it always writes the field."""
    mark = schema.layout.get(key, "")
    if not mark.startswith("="):
        return ABSENT
    return None if mark.startswith("=*") else zero(child)


ANY = Shape(None)


@derived
def shape_of(schema: Schema) -> Shape:
    """Return the shape of a kind; cached with the schema, and so released with a replaced or deleted definition."""
    return Shape(schema)
