"""Messages about invalid JSON or YAML, worded as in Go, as users search for them and tools match them.

Only called for bytes that another decoder has rejected, so nothing here needs to be fast.
"""

from __future__ import annotations

import re

import yaml

from kilauea.api.yamltext import MAX_DEPTH

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_END = "unexpected end of JSON input"
_SPACE = re.compile(r"[ \t\r\n]*")
_PLAIN_TEXT = re.compile(r'[^"\\\x00-\x1f]*')
_DIGITS = re.compile(r"[0-9]*")
_ALIAS = re.compile(r"\*([^\s,\[\]{}]+)")
_LITERALS = {"t": "true", "f": "false", "n": "null"}
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "'": "\\'", '"': '"'}


class _Fault(Exception):
    """The first syntax error."""


def json_syntax_error(body: bytes, otherwise: str) -> str:
    """Return the syntax error in JSON; `otherwise` if Go would accept it."""
    try:
        _Scanner(body.decode("latin-1") + " ").scan()  # Go also appends a space to detect incomplete values
    except _Fault as fault:
        return str(fault)
    return otherwise


class _Scanner:
    """Checks the syntax of JSON byte by byte."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def scan(self) -> None:
        """Scan one value and check that nothing follows.

        Raises:
            _Fault: at the first invalid byte.
        """
        within: list[str] = []
        expected = "value"
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at == len(self._text):
                if expected == "more" and not within:
                    return
                raise _Fault(_END)
            if expected == "more":
                expected = self._after_value(within)
            else:
                expected = self._begin(expected, within)

    def _begin(self, expected: str, within: list[str]) -> str:
        """Scan the start of a value, a key or a colon; return what is expected next."""
        mark = self._text[self._at]
        if mark in "]}" and expected in ("first value", "first key") and mark == within[-1]:
            within.pop()
            self._at += 1
            return "more"
        if expected == "colon":
            self._take(mark == ":", "after object key")
            return "value"
        if expected.endswith("key"):
            self._take(mark == '"', "looking for beginning of object key string")
            self._string()
            return "colon"
        if mark in "{[":
            within.append("}" if mark == "{" else "]")
            self._at += 1
            return "first key" if mark == "{" else "first value"
        self._scalar(mark)
        return "more"

    def _after_value(self, within: list[str]) -> str:
        """Scan a comma or the end of a list or object."""
        if not within:
            self._take(False, "after top-level value")
        end = within[-1]
        mark = self._text[self._at]
        self._take(mark in (",", end), "after object key:value pair" if end == "}" else "after array element")
        if mark == end:
            within.pop()
            return "more"
        return "key" if end == "}" else "value"

    def _scalar(self, mark: str) -> None:
        if mark == '"':
            self._at += 1
            self._string()
        elif mark in _LITERALS:
            word = _LITERALS[mark]
            for letter in word:
                self._take(self._text[self._at] == letter, f"in literal {word} (expecting '{letter}')")
        else:
            self._take(mark in "-0123456789", "looking for beginning of value")
            self._number(mark)

    def _number(self, mark: str) -> None:
        """Scan the rest of a number."""
        if mark == "-":
            mark = self._text[self._at]
            self._take(mark.isdigit(), "in numeric literal")
        if mark != "0":
            self._digits()
        if self._text[self._at] == ".":
            self._at += 1
            self._take(self._text[self._at].isdigit(), "after decimal point in numeric literal")
            self._digits()
        if self._text[self._at] in "eE":
            self._at += 2 if self._text[self._at + 1 : self._at + 2] in ("+", "-") else 1
            self._take(self._text[self._at].isdigit(), "in exponent of numeric literal")
            self._digits()

    def _digits(self) -> None:
        self._at = _DIGITS.match(self._text, self._at).end()  # type: ignore[union-attr]

    def _string(self) -> None:
        """Scan the rest of a string, with its closing quote."""
        while True:
            self._at = _PLAIN_TEXT.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at == len(self._text):
                raise _Fault(_END)
            mark = self._text[self._at]
            self._take(mark in '"\\', "in string literal")
            if mark == '"':
                return
            self._escape()

    def _escape(self) -> None:
        if self._at == len(self._text):
            raise _Fault(_END)
        mark = self._text[self._at]
        self._take(mark in '"\\/bfnrtu', "in string escape code")
        for _ in range(4 if mark == "u" else 0):
            if self._at == len(self._text):
                raise _Fault(_END)
            self._take(self._text[self._at] in "0123456789abcdefABCDEF", "in \\u hexadecimal character escape")

    def _take(self, fits: bool, where: str) -> None:
        """Advance past a byte, or raise if it is invalid."""
        if not fits:
            raise _Fault(f"invalid character {_quoted(self._text[self._at])} {where}")
        self._at += 1


def _quoted(mark: str) -> str:
    """Return a byte as Go shows it."""
    if mark in _ESCAPES:
        return f"'{_ESCAPES[mark]}'"
    if mark.isprintable():
        return f"'{mark}'"
    return f"'\\x{ord(mark):02x}'" if mark < "\x80" else f"'\\u{ord(mark):04x}'"


def yaml_syntax_error(body: bytes, otherwise: str) -> str:
    """Return the syntax error in YAML; `otherwise` if a parser accepts it.

    Go counts lines from 0 for syntax errors, from 1 for invalid characters, and omits the first line.
    """
    try:
        depth = 0
        for event in yaml.parse(body, Loader=_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:  # libyaml takes quadratic time in the depth
                return otherwise
        yaml.compose(body, Loader=_LOADER)
    except yaml.composer.ComposerError as error:
        place = error.problem_mark
        alias = _ALIAS.match(body.decode(errors="replace"), place.index) if place else None
        return f"yaml: unknown anchor '{alias[1]}' referenced" if alias else otherwise
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        line += isinstance(error, yaml.scanner.ScannerError) if line else 0
        return f"yaml: line {line}: {error.problem}" if line else f"yaml: {error.problem}"
    except RecursionError:
        return otherwise
    except yaml.YAMLError as error:
        return f"yaml: {getattr(error, 'reason', error)}"
    return otherwise
