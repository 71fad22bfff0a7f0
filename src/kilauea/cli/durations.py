"""Durations as option values."""

from __future__ import annotations

from typing import Any

import click


class Duration(click.ParamType[Any]):
    """A duration in Go's syntax, in microseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Microseconds."""
        from kilauea.api.times import parse_duration

        try:
            return value if isinstance(value, int) else parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
