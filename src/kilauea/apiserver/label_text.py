"""Label selectors as text, such as `app=web,tier in (a, b),!old`: the grammar and the error messages of Kubernetes.

A key alone requires the label, `!` its absence; `=`, `==`, `!=`, `in` and `notin` compare values, `gt` and `lt` are
written `>` and `<`.
"""

from __future__ import annotations

import re

from kilauea.api.names import label_value_problems, qualified_name_problems
from kilauea.api.remembered import remembered
from kilauea.api.selectors import Requirement, Selector
from kilauea.apiserver import status
from kilauea.apiserver.fields import invalid_value

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+|)")
_MARKS = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">", ""))
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn", ">": "Gt", "<": "Lt"}
_WORDS = "in, notin, =, ==, !=, gt, lt"
_WORD = "[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PLAIN = re.compile(rf"(!?)({_WORD})|({_WORD})(==|=|!=)((?:{_WORD})?)")
"""A simple condition, the common case: without whitespace, key prefix or list of values."""


class _Fault(Exception):
    """An error in a selector."""


@remembered(1024)
def parse_labels(text: str) -> Selector:
    """Parse a label selector into sorted conditions.

    Raises:
        ApiFault: it cannot be parsed (400).
    """
    plain = _plain(text)
    if plain is not None:
        return plain
    try:
        return tuple(sorted(_Parser(text).selector()))
    except _Fault as fault:
        raise status.bad_request(str(fault)) from fault


def _plain(text: str) -> Selector | None:
    """Parse a selector of simple conditions in a third of the parser's time; return None for others."""
    found: list[Requirement] = []
    for part in text.split(","):
        match = _PLAIN.fullmatch(part)
        if match is None:
            return None
        absent, label, key, operator, value = match.groups()
        if label:
            found.append(Requirement(label, "DoesNotExist" if absent else "Exists", ()))
        else:
            found.append(Requirement(key, _OPERATORS[operator], (value,)))
    found.sort()
    return tuple(found)


class _Parser:
    """Parses a selector token by token; the empty token is the end."""

    def __init__(self, text: str) -> None:
        self._tokens = [found[1] for found in _TOKEN.finditer(text)]
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def selector(self) -> list[Requirement]:
        """Return all conditions."""
        found: list[Requirement] = []
        if not self._peek():
            return found
        if self._peek() in _MARKS - {"!"}:
            raise _Fault(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                found.append(self._requirement())
            except _Fault as fault:
                raise _Fault(f"unable to parse requirement: {fault}") from fault
            token = self._next()
            if not token:
                return found
            if token != ",":
                raise _Fault(f"found '{token}', expected: ',' or 'end of string'")
            if self._peek() in _MARKS - {"!"}:
                raise _Fault(f"found '{self._peek()}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        key = self._key()
        if absent or self._peek() in ("", ","):
            return Requirement(key, "DoesNotExist" if absent else "Exists", ())
        word = self._next()
        if word not in _OPERATORS:
            raise _Fault(f"found '{word}', expected: {_WORDS}")
        values = self._values() if word in ("in", "notin") else self._value()
        operator = _OPERATORS[word]
        _check_values(key, operator, values)
        return Requirement(key, operator, tuple(sorted(set(values))))

    def _key(self) -> str:
        if self._peek() == "!":
            self._next()
        key = self._next()
        if key in _MARKS:
            raise _Fault(f"found '{key}', expected: identifier")
        for problem in qualified_name_problems(key):
            raise _Fault(str(invalid_value("<nil>", key, problem)))
        return key

    def _value(self) -> list[str]:
        """Return the single value that a key is compared with, which may be empty."""
        if self._peek() in ("", ","):
            return [""]
        value = self._next()
        if value in _MARKS:
            raise _Fault(f"found '{value}', expected: identifier")
        return [value]

    def _values(self) -> list[str]:
        """Return a list in parentheses; nothing between commas is an empty value."""
        token = self._next()
        if token != "(":
            raise _Fault(f"found '{token}' expected: '('")
        if self._peek() in _MARKS - {",", ")"}:
            raise _Fault(f"found '{self._peek()}', expected: ',', ')' or identifier")
        values: list[str] = []
        while self._peek() != ")":
            if self._peek() != ",":
                values.append(self._next())
                if self._peek() not in (",", ")"):
                    raise _Fault(f"found '{self._peek()}', expected: ',' or ')'")
                continue
            values += [] if values else [""]
            self._next()
            if self._peek() in (",", ")"):
                values.append("")
            elif self._peek() in _MARKS:
                raise _Fault(f"found '{self._peek()}', expected: ',', or identifier")
        self._next()
        return values


def _check_values(key: str, operator: str, values: list[str]) -> None:
    """Check that values are valid label values, and integers for `>` and `<`."""
    for number, value in enumerate(values):
        if operator in ("Gt", "Lt") and not re.fullmatch(r"[+-]?[0-9]+", value):
            message = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise _Fault(str(invalid_value(f"values[{number}]", value, message)))
        for problem in label_value_problems(value):
            raise _Fault(str(invalid_value(f"values[{number}][{key}]", value, problem)))
