"""Decoders of selected fields of objects, so that unused fields take neither time nor memory.

read = decoder_of(["spec.volumes[].name"])
read(b'{"metadata": {"name": "a", "labels": {}}, "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}')
# {"metadata": {"name": "a"}, "spec": {"volumes": [{"name": "v"}]}}
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from kilauea.api.ports import Key, Obj
from kilauea.api.shared import shared

ALWAYS = (
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.deletionTimestamp",
    "metadata.ownerReferences",
)
"""Fields of objects of every kind that caches and drivers read."""
LABELS = "metadata.labels"
_ITEMS = "[]"
_typed_dict: Any = typing.TypedDict

_Path = tuple[str, ...]


def decoder_of(fields: Iterable[str]) -> Callable[[bytes], Obj]:
    """Return a decoder of objects that reads only these fields and those that are always needed.

    A field includes everything below it. It is absent from an object that lacks it.

    Raises:
        ValueError: the same field is a list in one path and an object in another.
    """
    paths = {tuple(path.replace(_ITEMS, f".{_ITEMS}").split(".")) for path in (*ALWAYS, *fields)}
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_type_of(paths))
    return decoder.decode


def skimmer_of(signs: Iterable[str]) -> Callable[[bytes], Key]:
    """Return a reader of the key of an object without certain fields.

    It raises `msgspec.DecodeError` for an object with one of them.
    """
    paths = {tuple(path.replace(_ITEMS, f".{_ITEMS}").split(".")) for path in (*signs, "metadata")}
    decode = msgspec.json.Decoder(_without(paths)).decode

    def skim(text: bytes) -> Key:
        metadata = decode(text).metadata
        return Key(shared(metadata.namespace), metadata.name)

    return skim


_NAMES: Sequence[tuple[str, type, str]] = (("name", str, ""), ("namespace", str, ""))


def _without(paths: set[_Path], top: bool = True) -> Any:
    """Return the type of a value without these fields; metadata also has its names."""
    below: dict[str, set[_Path]] = {}
    for name, *rest in sorted(paths):
        below.setdefault(name, set()).add(tuple(rest))
    if _ITEMS in below:
        return list[_without(below[_ITEMS], top=False)] | None  # type: ignore[misc]  # a type that is made here
    parts: list[tuple[str, Any, Any]] = []
    for name, under in below.items():
        if top and name == "metadata":
            fields = [(each[0], type(None), None) for each in sorted(under) if each]
            parts.append((name, msgspec.defstruct("Metadata", [*_NAMES, *fields], gc=False), msgspec.NODEFAULT))
        else:
            parts.append((name, type(None) if () in under else _without(under, top=False), None))
    found = msgspec.defstruct("Part", sorted(parts, key=lambda part: part[0] != "metadata"), gc=False)
    return found if top else found | None


def _type_of(paths: set[_Path]) -> Any:
    """Return the type of a value with these paths; every object and list may be null."""
    if () in paths:
        return Any
    below: dict[str, set[_Path]] = {}
    for name, *rest in sorted(paths):
        below.setdefault(name, set()).add(tuple(rest))
    if _ITEMS not in below:
        return _typed_dict("Part", {name: _type_of(under) for name, under in below.items()}, total=False) | None
    if len(below) > 1:
        raise ValueError(f"a list has no fields: {', '.join(sorted(below.keys() - {_ITEMS}))}")
    items = _type_of(below[_ITEMS])
    return list[items] | None  # type: ignore[valid-type]  # a type that is made here
