"""The page about the scheduler's configuration: actions with their arguments, and the flags of plugins."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

import yaml

from generators.markdown import BLANK, code, page, table
from kilauea.engine.action import Action
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import ALIASES, DEFAULT_CONF, FLAG_NAMES
from kilauea.engine.extension import FLAGS as POINTS

KINDS = {"int": "integer", "float": "number", "bool": "true or false", "str": "text"}


def configuration_page() -> str:
    """All that the file may contain, but for the plugins, which have a page of their own."""
    introduction = (
        "The scheduler reads one YAML file, Volcano's `volcano-scheduler.conf`: the `actions` of a cycle in their "
        "order, `tiers` of plugins, and `configurations` with arguments of actions. "
        "[Plugins](plugins.md) lists the plugins with their arguments. `kilauea config check FILE` reports errors "
        "in a file, and settings that have no effect."
    )
    return page("Scheduler configuration", introduction, _default(), _actions(), _flags(), _aliases())


def _default() -> Iterator[str]:
    yield from ("## The built-in configuration", BLANK)
    yield from ("It is used if no file is given.", BLANK)
    yield from ("```yaml", *yaml.safe_dump(DEFAULT_CONF, sort_keys=False).splitlines(), "```", BLANK)


def _actions() -> Iterator[str]:
    yield from ("## Actions", BLANK)
    yield from ("```yaml", "configurations:", "- name: reclaim", "  arguments: {reclaimFor: starving}", "```", BLANK)
    for name, action in ACTIONS.items():
        text = re.sub(r"\s+Spec of [^.]*(?:\.\d+)*\.", "", inspect.cleandoc(inspect.getmodule(action).__doc__ or ""))
        text = re.sub(r"\s+\(`[^`]*`\)", "", text)
        first, _, rest = text.partition("\n\n")
        yield from (f"### {name}", BLANK, " ".join(first.split()), BLANK)
        if rest.strip():
            yield from (rest.strip(), BLANK)
        yield from _arguments(action)


def _arguments(action: type[Action]) -> Iterator[str]:
    rows = [_argument(field) for field in dataclasses.fields(action.Arguments)]
    if rows:
        yield from table(["argument", "type", "default", "meaning"], rows)


def _argument(field: dataclasses.Field[Any]) -> list[str]:
    default = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
    return [code(field.metadata["key"]), KINDS[type(field.default).__name__], code(default), field.metadata["doc"]]


def _flags() -> Iterator[str]:
    points: dict[str, list[str]] = {}
    for point, flags in POINTS.items():
        for flag in flags:
            points.setdefault(flag, []).append(point)
    yield from ("## Flags of plugins", BLANK)
    yield from (
        "A plugin registers at all of its extension points. A flag next to its name disables it at a point, such as "
        "`enableReclaimable: false`; `enable` and `enabled`, and upper and lower case, mean the same.",
        BLANK,
    )
    known = {_bare(flag): names for flag, names in points.items()}
    rows = [[code(name), ", ".join(code(point) for point in known.get(_bare(name), ()))] for name in FLAG_NAMES]
    yield from table(["flag", "points"], rows)


def _bare(flag: str) -> str:
    return flag.lower().removeprefix("enabled").removeprefix("enable")


def _aliases() -> Iterator[str]:
    yield from ("## Other names of plugins", BLANK)
    yield from table(["name", "stands for"], [[code(name), code(meant)] for name, meant in ALIASES.items()])
