"""Selectors of devices: CEL expressions over one `device`, within bounds.

The most common form, `device.driver == "..."`, is compared directly. All others are compiled by `kilauea.api.cel` and
have a cost limit, so that no selector can delay scheduling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from kilauea.api.cel import CelError, Quantity, compiled, is_semver, semver
from kilauea.api.dynamic import MOST_EXPRESSION

MOST_COST = 50_000
"""Maximum cost of an expression for one device, about 20 ms. Kubernetes allows more, with a timeout."""

Matcher = Callable[[Mapping[str, Any]], tuple[bool, int]]
"""Returns True if a device is selected, and the cost of that; raises CelError."""

_DRIVER = re.compile(r"""\s*device\.driver\s*==\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*""")
_DOMAIN = re.compile(r"""\b(attributes|capacity)\s*\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\]""")
_VARIABLES = frozenset({"device"})
LONGEST_VERSION = 64


def version_value(text: str) -> Any:
    """Return a semantic version as a CEL value.

    Raises:
        ValueError: it is not a semantic version.
    """
    if not is_version(text):
        raise ValueError(f'"{text}" is not a semantic version: use a form such as 1.2.3')
    return semver(text)


def is_version(text: str) -> bool:
    """Return True if a text is a semantic version."""
    return len(text) <= LONGEST_VERSION and is_semver(text)


def capacity_value(milli: int) -> Any:
    """Return an amount in thousandths as a CEL value."""
    return Quantity(milli)


# --- expressions


@lru_cache(maxsize=1024)
def device_matcher(expression: str) -> Matcher:
    """Return the function of a selector.

    Raises:
        CelError: it cannot be compiled.
    """
    if len(expression) > MOST_EXPRESSION:
        raise CelError(f"compilation failed: longer than {MOST_EXPRESSION} characters")
    plain = _DRIVER.fullmatch(expression)
    if plain is not None:
        driver = plain[1] if plain[1] is not None else plain[2]
        return lambda view: (bool(view["driver"] == driver), 1)
    program = compiled(expression, _VARIABLES)
    domains = [(kind, one or other) for kind, one, other in _DOMAIN.findall(expression)]

    def matches(view: Mapping[str, Any]) -> tuple[bool, int]:
        device = dict(view)
        for kind, domain in domains:  # a domain that a device does not have is empty, not an error
            if domain not in device[kind]:
                device[kind] = {**device[kind], domain: {}}
        answer, cost = program.costed({"device": device}, MOST_COST)
        if not isinstance(answer, bool):
            raise CelError(f"the answer is {type(answer).__name__}, not bool")
        return answer, cost

    return matches
