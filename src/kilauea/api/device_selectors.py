"""Selectors of devices: CEL expressions over one `device`, within bounds.

The commonest form, `device.driver == "..."`, needs no CEL package. All others are compiled by `kilauea.api.cel`, with
semantic versions beside the functions of quantities. What the package cannot stop once it runs, an expression may not
do: a bound on its work is computed from its text, so that no selector can hold up scheduling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from kilauea.api.cel import Cel, CelError, CelUnsupportedError, cel_with
from kilauea.api.cel_library import FUNCTIONS
from kilauea.api.dynamic import MOST_EXPRESSION

MOST_WORK = 1 << 20
"""Bound on the elements that the macros of an expression may visit, one inside the other."""
MOST_TEXT = 1 << 16
"""Length of the longest text that a function may make."""
MOST_ELEMENTS = 32
"""A device has at most so many attributes and capacities."""

Matcher = Callable[[Mapping[str, Any]], bool]
"""From the view of a device to whether it is selected; raises CelError."""

_DRIVER = re.compile(r"""\s*device\.driver\s*==\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*""")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
_MACRO = re.compile(r"\.(?:all|exists|exists_one|map|filter)\s*\(")
_DOMAIN = re.compile(r"""\b(attributes|capacity)\s*\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\]""")
_BIND = re.compile(r"\bcel\.bind\s*\(\s*([A-Za-z_]\w*)\s*,")
_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)


# --- semantic versions


def version_value(text: str) -> list[Any]:
    """A semantic version as a list that compares as versions do: a release after its own pre-releases.

    Raises:
        ValueError: it is not a semantic version.
    """
    found = _VERSION.fullmatch(text) if len(text) <= 64 else None
    if found is None:
        raise ValueError(f'"{text}" is not a semantic version: use a form such as 1.2.3')
    parts = [[0, int(p), ""] if p.isdigit() else [1, 0, p] for p in (found[4] or "").split(".") if p]
    return [int(found[1]), int(found[2]), int(found[3]), 0 if parts else 1, parts]


def is_version(text: str) -> bool:
    """Return True if a text is a semantic version."""
    return _VERSION.fullmatch(text) is not None


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of text whose answer may not be too long."""

    def bounded(*args: Any) -> Any:
        if sum(len(each) for each in args if isinstance(each, str)) > MOST_TEXT:
            raise ValueError("text too long")
        answer = function(*args)
        if isinstance(answer, str) and len(answer) > MOST_TEXT:
            raise ValueError("text too long")
        return answer

    return bounded


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    if (len(text) + 1) * (len(new) + 1) > MOST_TEXT:
        raise ValueError("text too long")
    return text.replace(old, new, limit)


_REFUSED = frozenset({"find", "findAll"})
"""Regular expressions of Python's own, whose time has no bound; `matches` is the language's own and has one."""
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: function for name, function in FUNCTIONS.items() if name not in _REFUSED},
    "replace": _replace,
    "join": _bounded(FUNCTIONS["join"]),
    "semver": version_value,
    "isSemver": is_version,
    "major": lambda version: version[0],
    "minor": lambda version: version[1],
    "patch": lambda version: version[2],
}


@cache
def _language() -> Cel | None:
    return cel_with(_FUNCTIONS)


# --- expressions


def _without_binds(expression: str) -> str:
    """`cel.bind(x, value, body)` as `[value].map(x, body)[0]`, which the package can read and which means the same."""
    for _ in range(MOST_ELEMENTS):
        found = _BIND.search(_blanked(expression))
        if found is None:
            return expression
        parts, end = _arguments(expression, found.end())
        if len(parts) != 2:
            raise CelError("compilation failed: cel.bind takes a name, a value and an expression")
        expression = f"{expression[: found.start()]}([{parts[0]}].map({found[1]}, {parts[1]})[0]){expression[end:]}"
    raise CelError(f"compilation failed: more than {MOST_ELEMENTS} times cel.bind")


def _blanked(expression: str) -> str:
    """The expression with its texts blanked, as long as before."""
    return _TEXT.sub(lambda found: '"' + "_" * (len(found[0]) - 2) + '"', expression)


def _arguments(expression: str, start: int) -> tuple[list[str], int]:
    """Arguments up to the bracket that closes the call, and the offset behind it."""
    text, depth, at = _blanked(expression), 0, start
    parts: list[str] = []
    for offset in range(start, len(text)):
        letter = text[offset]
        if letter in "([{":
            depth += 1
        elif letter in ")]}" and depth:
            depth -= 1
        elif letter == ")":
            return [*parts, expression[at:offset].strip()], offset + 1
        elif letter == "," and not depth:
            parts.append(expression[at:offset].strip())
            at = offset + 1
    raise CelError("compilation failed: a bracket is not closed")


def work_of(expression: str) -> int:
    """Bound on the elements that an expression visits: the longest list it can make, for each macro in it."""
    blanked = _blanked(expression)
    longest = max(MOST_ELEMENTS, 1 + blanked.count(",") + blanked.count("+"))
    if re.search(r"\bsplit\s*\(", blanked):
        longest = max(longest, len(expression))
    macros = len(_MACRO.findall(blanked))
    return int(longest**macros) if macros < 64 else MOST_WORK + 1


@lru_cache(maxsize=1024)
def device_matcher(expression: str) -> Matcher:
    """The function that a selector is.

    Raises:
        CelError: it cannot be compiled, would take too long, or no CEL is installed.
    """
    if len(expression) > MOST_EXPRESSION:
        raise CelError(f"compilation failed: longer than {MOST_EXPRESSION} characters")
    plain = _DRIVER.fullmatch(expression)
    if plain is not None:
        driver = plain[1] if plain[1] is not None else plain[2]
        return lambda view: bool(view["driver"] == driver)
    if work_of(expression) > MOST_WORK:
        raise CelError("estimated cost too high: use fewer all, exists, map and filter")
    language = _language()
    if language is None:
        raise CelUnsupportedError("CEL is not installed: install kilauea[cel]")
    program = language.compile(_without_binds(expression))
    domains = [(kind, one or other) for kind, one, other in _DOMAIN.findall(expression)]

    def matches(view: Mapping[str, Any]) -> bool:
        device = dict(view)
        for kind, domain in domains:  # a domain that a device does not have is empty, not an error
            if domain not in device[kind]:
                device[kind] = {**device[kind], domain: {}}
        answer = program({"device": device})
        if not isinstance(answer, bool):
            raise CelError(f"the answer is {type(answer).__name__}, not bool")
        return answer

    return matches
