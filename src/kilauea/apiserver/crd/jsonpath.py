"""The JSONPath of printer columns, as in client-go.

It supports fields, `[index]`, `[start:end:step]`, `[*]`, `['key']`, unions, `..`, and filters that compare two paths or
constants.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kilauea.api.remembered import remembered
from kilauea.apiserver.crd import jsonpath_steps as steps
from kilauea.apiserver.crd.jsonpath_steps import Budget, FindError, Step

DEPTH = 16
"""Maximum depth of nested filters."""
LONGEST = 1000
"""Maximum characters of a path."""
_FIELD = re.compile(r"(?:\\.?|[^\\ \t\r\n.,\[\]$@{}])*", re.DOTALL)
_WORD = re.compile(r"[^ \t\r\n.,\[\]$@{}]*")
_NUMBER = re.compile(r"[+-]?[\d.]*")
_QUOTED = re.compile(r"""(['"])((?:\\.|(?!\1)[^\\\n])*)\1""")
_ARRAY = re.compile(r"\[([^\]\n]*)\]")
_KEY = re.compile(r"'([^']*)'")
_RANGE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_DIGITS = 9


class JsonPathError(ValueError):
    """A path is invalid; the message has the position."""


@remembered(1024)
def parse_json_path(text: str) -> tuple[Step, ...]:
    """Parse a path such as `.spec.items[*].name`.

    Raises:
        JsonPathError: it cannot be read.
    """
    if len(text) > LONGEST:
        raise JsonPathError(f"more than {LONGEST:,} characters")
    return _Parser(text, 0).steps()


def find(text: str, obj: Any, budget: Budget | None = None) -> list[Any]:
    """Return all values at a path; none if the path does not fit the object, or the budget is exhausted.

    Args:
        text: the path.
        obj: the object.
        budget: the remaining number of values, shared with other paths; None for this path alone.

    Raises:
        JsonPathError: it cannot be read.
    """
    return found_at(parse_json_path(text), obj, budget or Budget())


def found_at(path: Sequence[Step], obj: Any, budget: Budget) -> list[Any]:
    """Return all values at a parsed path; none if the path does not fit the object, or the budget is exhausted."""
    try:
        return steps.walk(path, [obj], budget)
    except FindError:
        return []


class _Parser:
    """Parses the text of one path."""

    def __init__(self, text: str, depth: int) -> None:
        self._text = text
        self._depth = depth
        self._at = 0
        if depth > DEPTH:
            raise JsonPathError(f"more than {DEPTH} filters in each other")

    def steps(self) -> tuple[Step, ...]:
        """Return all steps."""
        found: list[Step] = []
        while self._at < len(self._text):
            if self._text[self._at] in " @$":
                self._at += 1
            else:
                found += self._next(found)
        return tuple(found)

    def _next(self, before: list[Step]) -> list[Step]:
        if self._text.startswith("[?(", self._at):
            return [self._filter()]
        if self._text.startswith("..", self._at):
            return self._recursive(before)
        start = self._text[self._at]
        if start == "[":
            return self._array(self._take(_ARRAY, "unterminated array")[1])
        if start in "'\"":
            return [steps.text(_unquoted(self._take(_QUOTED, "unterminated quoted string")[2]))]
        if start == ".":
            self._at += 1
            return [self._field()]
        if start in "+-" or start.isdigit():
            return [steps.constant(_number(self._take(_NUMBER, "cannot parse number")[0]))]
        if start == "_" or start.isalpha():
            return [_word(self._take(_WORD, "cannot parse word")[0])]
        raise JsonPathError(f"unrecognized character {start!r} at {self._at}")

    def _take(self, pattern: re.Pattern[str], fault: str) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise JsonPathError(f"{fault}: {self._text[self._at :]}")
        self._at = found.end()
        return found

    def _field(self) -> Step:
        name = self._take(_FIELD, "cannot parse field")[0]
        return steps.every if name == "*" else steps.field(name.replace("\\", ""))

    def _recursive(self, before: list[Step]) -> list[Step]:
        if before and before[-1] is steps.descend:
            raise JsonPathError("invalid multiple recursive descent")
        self._at += 2
        following = self._text[self._at : self._at + 1]
        return [steps.descend, *([self._field()] if following == "_" or following.isalnum() else ())]

    def _array(self, inside: str) -> list[Step]:
        branches = inside.split(",")
        if len(branches) > 1:
            return [steps.union([_Parser(f"[{each.strip(' ')}]", self._depth + 1).steps() for each in branches])]
        key = _KEY.fullmatch(inside)
        if key is not None:
            return list(_Parser(f".{key[1]}", self._depth + 1).steps())
        found = _RANGE.fullmatch(":" if inside == "*" else inside)
        if found is None:
            raise JsonPathError(f"invalid array index {inside}")
        return [_items(*found.groups(default=""))]

    def _filter(self) -> Step:
        start = self._at + len("[?(")
        end = _end_of_filter(self._text, start)
        inside = self._text[start:end]
        if not self._text.startswith(")]", end):
            raise JsonPathError("unclosed array expect ]")
        self._at = end + 2
        found = _COMPARISON.fullmatch(inside)
        if found is None:
            return steps.having(self._below(inside))
        return steps.comparing(self._below(found[1]), found[2], self._below(found[3]))

    def _below(self, text: str) -> tuple[Step, ...]:
        return _Parser(text, self._depth + 1).steps()


def _end_of_filter(text: str, start: int) -> int:
    """Return the index of the `)` that closes a filter; one within the first quotes does not count."""
    quote, closed = "", False
    for at in range(start, len(text)):
        char = text[at]
        if char in "'\"":
            closed = closed or (char == quote and text[at - 1] != "\\")
            quote = quote or char
        elif char == ")" and (closed or not quote):
            return at
        elif char == "\n":
            break
    raise JsonPathError("unterminated filter")


def _items(start: str, end: str, pace: str) -> Step:
    first, last, step = (_bound(each) for each in (start, end.removeprefix(":"), pace.removeprefix(":")))
    single = not end
    return steps.items(first, (first or 0) + 1 if single else last, step, single)


def _bound(text: str) -> int | None:
    if text == "-" or len(text) > _DIGITS:
        raise JsonPathError(f"array index {text} is not a number")
    return int(text) if text else None


def _number(text: str) -> int | float:
    if len(text) > 2 * _DIGITS:
        raise JsonPathError(f"cannot parse number {text}")
    try:
        return float(text) if "." in text else int(text)
    except ValueError as error:
        raise JsonPathError(f"cannot parse number {text}") from error


def _word(text: str) -> Step:
    return steps.constant(text == "true") if text in ("true", "false") else steps.unknown_word(text)


def _unquoted(text: str) -> str:
    """Return a quoted text with its escapes replaced."""
    if "\\" not in text:
        return text
    try:
        return text.encode("latin-1", "backslashreplace").decode("unicode-escape")
    except UnicodeDecodeError as error:
        raise JsonPathError(f"unquote string {text}: {error.reason}") from error
