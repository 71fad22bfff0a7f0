"""The JSONPath of printer columns: fields, indexes, ranges, `*`, unions of keys, and filters that compare one field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import msgspec

Step = Callable[[Any], Iterator[Any]]

_FIELD = re.compile(r"\.?((?:[A-Za-z0-9_\-/$]|\\.)+)")
_BRACKET = re.compile(r"\[((?:'[^']*'|\"[^\"]*\"|[^\[\]'\"]|\[[^\]]*\])*)\]")
_FILTER = re.compile(r"\?\(\s*@((?:\.[A-Za-z0-9_\-/]+)*)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?)\s*)?\)")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


class JsonPathError(ValueError):
    """A path that cannot be read; the message says where."""


@lru_cache(maxsize=256)
def parse_json_path(text: str) -> tuple[Step, ...]:
    """The steps of a path such as `.spec.items[*].name`; braces around it are allowed.

    Raises:
        JsonPathError: it cannot be read.
    """
    rest = text.strip()
    if rest.startswith("{") and rest.endswith("}"):
        rest = rest[1:-1]
    steps: list[Step] = []
    while rest not in ("", "."):
        if rest.startswith(".["):
            rest = rest[1:]
        if rest.startswith("..") or rest.startswith(".*"):
            steps.append(_descend if rest.startswith("..") else _every)
            rest = rest[2:] if rest.startswith(".*") else rest[1:]
            continue
        found = _BRACKET.match(rest) or _FIELD.match(rest)
        if found is None:
            raise JsonPathError(f"cannot read {rest!r}: want .field, [index], [start:end], [*] or [?(@.field==value)]")
        steps.append(_bracket(found[1].strip()) if rest.startswith("[") else _field(re.sub(r"\\(.)", r"\1", found[1])))
        rest = rest[found.end() :]
    return tuple(steps)


def find(text: str, obj: Any) -> list[Any]:
    """All values at a path; none if a field is missing."""
    values = [obj]
    for step in parse_json_path(text):
        values = [found for value in values for found in step(value)]
    return values


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descend(value: Any) -> Iterator[Any]:
    yield value
    for each in _every(value):
        yield from _descend(each)


def _bracket(text: str) -> Step:
    if text == "*":
        return _every
    if text.startswith("?"):
        return _filter(text)
    if text[:1] in "'\"" and text:
        names = [each.strip().strip("'\"") for each in text.split(",")]
        return lambda value: (value[name] for name in names if isinstance(value, dict) and name in value)
    try:
        bounds = [int(each) if each.strip() else None for each in text.split(":")]
    except ValueError as error:
        raise JsonPathError(f"[{text}]: want a number, start:end, * or a filter") from error
    if len(bounds) > 3 or text == "":
        raise JsonPathError(f"[{text}]: want a number, start:end, * or a filter")
    if len(bounds) == 1 and bounds[0] is not None:
        start = bounds[0]
        bounds = [start, start + 1 if start != -1 else None]
    cut = slice(*bounds)
    return lambda value: iter(value[cut] if isinstance(value, list) else ())


def _filter(text: str) -> Step:
    found = _FILTER.fullmatch(text)
    if found is None:
        raise JsonPathError(f"[{text}]: a filter compares one field, as [?(@.type=='Ready')] does")
    names = found[1].split(".")[1:]
    compare, wanted = _COMPARE.get(found[2] or ""), _literal(found[3]) if found[2] else None

    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else ():
            at: Any = item
            for name in names:
                at = at.get(name) if isinstance(at, dict) else None
            if at is not None and (compare is None or (_comparable(at, wanted) and compare(at, wanted))):
                yield item

    return step


def _literal(text: str) -> Any:
    if text[:1] == text[-1:] and text[:1] in ("'", '"'):
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise JsonPathError(f"{text}: want text in quotes, a number, true or false") from error


def _comparable(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool) or isinstance(left, str) or isinstance(right, str):
        return type(left) is type(right)
    return isinstance(left, int | float) and isinstance(right, int | float)
