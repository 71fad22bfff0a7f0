"""Merges the apply configuration of a mutating policy into an object.

Fields and keyed items are merged as in a server-side apply, but no manager owns them afterwards. A configuration may
not set what is atomic, because that would replace all that is there.
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
        configuration: the fields to set; version and kind are those of the object, whatever stands there.
        schema: that of the kind; None if it is not known, so that lists are replaced.

    Raises:
        ValueError: the configuration does not have the form of the kind, or sets what is atomic; or items of the
            object cannot be told apart. In the words of the real server.
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
    """Yield the paths of atomic lists and objects, among described fields and items of lists."""
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
