"""The merge of a mutating policy's apply configuration into an object.

Fields and keyed items are merged as in a server-side apply, but without an owner. A configuration may not set atomic
values, because that would replace the existing content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kilauea.apiserver.patch.merging import merged
from kilauea.apiserver.patch.shape import ANY, Shape, Sort, shape_of
from kilauea.apiserver.patch.typed import problems, text_of
from kilauea.apiserver.schema.nodes import Schema


def merge_configuration(live: dict[str, Any], configuration: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    """Return an object with a configuration merged in; it shares parts with both, which are not changed.

    Args:
        live: the object.
        configuration: the fields to set; its version and kind are replaced by those of the object.
        schema: the schema of the kind; None if unknown, so that lists are replaced.

    Raises:
        ValueError: the configuration does not match the schema or sets an atomic value, or items of the object cannot
            be distinguished. Worded as by the real server.
    """
    shape = ANY if schema is None else shape_of(schema)
    wanted = dict(configuration)
    wanted.update((key, live[key]) for key in ("apiVersion", "kind") if key in live)
    if found := problems(shape, wanted):
        raise ValueError(f"failed to convert patch object to typed object: {text_of(found)}")
    if schema is not None and (paths := list(_atomic(shape, wanted, ""))):
        raise ValueError(
            f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {', '.join(paths)}"
        )
    try:
        out: dict[str, Any] = merged(shape, live, wanted)
    except ValueError as error:
        raise ValueError(f"failed to convert original object to typed object: {error}") from error
    return out


def _atomic(shape: Shape, value: Any, path: str) -> Iterator[str]:
    """Yield the paths of atomic lists and objects in described fields and items of lists."""
    if isinstance(value, list):
        if shape.sort in (Sort.LEAF, Sort.ANY):
            yield path
        for at, item in enumerate(value):
            yield from _atomic(shape.items, item, f"{path}[{at}]")
    elif isinstance(value, dict):
        if shape.sort is Sort.LEAF:
            yield path
        for key, each in value.items():
            if key in shape.declared:
                yield from _atomic(shape.field(key)[1], each, f"{path}.{key}")
