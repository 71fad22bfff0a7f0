"""Arguments of plugins as jobs write them: `--port=22`, `-port=22`, or `--port` and `22` one after the other.

They have the form of flags in Go; one that only says yes or no takes its value behind `=`, and is yes without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec.structs import FieldInfo, fields

from kilauea.api.wellknown import parse_bool
from kilauea.controllers.vcjobs.plugins.faults import PluginFault

Port = Annotated[int, msgspec.Meta(ge=1, le=65535, description="a port from 1 to 65535")]
Seconds = Annotated[int, msgspec.Meta(ge=1, le=86400, description="seconds from 1 to 86400")]


class Arguments(msgspec.Struct, frozen=True, rename="kebab"):
    """What a plugin takes: a field for each flag, with its default."""


Kind = TypeVar("Kind", bound=Arguments)


def read(plugin: str, kind: type[Kind], given: Sequence[str]) -> Kind:
    """The arguments of a plugin.

    Raises:
        PluginFault: one that it does not know, or with a value that it cannot use.
    """
    known = {each.encode_name: each for each in fields(kind)}
    values: dict[str, Any] = {}
    for flag, text in _flags(plugin, known, given):
        values[known[flag].name] = _value(plugin, known[flag], text)
    return kind(**values)


def _flags(plugin: str, known: dict[str, FieldInfo], given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each flag and the text of its value."""
    rest = iter(given)
    for argument in rest:
        flag, equals, text = argument.removeprefix("-").removeprefix("-").partition("=")
        if not argument.startswith("-") or flag not in known:
            raise PluginFault(plugin, f"unknown argument {argument!r}: {_help(flag, known)}")
        if not equals:
            following = "true" if known[flag].type is bool else next(rest, None)
            if following is None:
                raise PluginFault(plugin, f"argument --{flag} has no value: write --{flag}={known[flag].default}")
            text = following
        yield flag, text


def _help(flag: str, known: dict[str, FieldInfo]) -> str:
    if not known:
        return "it takes none"
    near = get_close_matches(flag, known, 1)
    if near:
        return f"did you mean --{near[0]}?"
    return "it takes " + ", ".join(f"--{each}" for each in known)


def _value(plugin: str, field: FieldInfo, text: str) -> Any:
    """The value that a text stands for."""
    if field.type is str:
        return text
    if field.type is bool:
        value: Any = parse_bool(text)
        wanted = "true or false"
    else:
        value, wanted = _number(field, text)
    if value is None:
        flag = field.encode_name
        example = "true" if field.type is bool else field.default
        raise PluginFault(plugin, f"argument --{flag} is {text!r}: write {wanted}, such as --{flag}={example}")
    return value


def _number(field: FieldInfo, text: str) -> tuple[int | None, str]:
    wanted = msgspec.inspect.type_info(field.type)
    words = (
        (wanted.extra_json_schema or {}).get("description", "a number")
        if isinstance(wanted, msgspec.inspect.Metadata)
        else "a number"
    )
    try:
        return msgspec.convert(text, field.type, strict=False), words
    except msgspec.ValidationError:
        return None, words
