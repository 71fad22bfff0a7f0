"""The parser of CEL, which returns a tree.

The grammar is that of the language definition, with optional fields (`a.?b`, `a[?k]`), optional elements of literals,
and quoted fields (`` a.`b-c` ``). Macros are parsed as calls; `kilauea.api.cel.program` expands them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from kilauea.api.cel.values import CelError, UInt

LONGEST = 100_000
"""Maximum characters of an expression."""
DEEPEST = 80
"""Maximum depth of nesting, far below the limit of Python's stack."""

Kind = Literal["literal", "name", "select", "index", "call", "list", "map", "fold", "test"]
"""The last two only result from macros: `kilauea.api.cel.typing.expansion`."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree.

    `value` is the literal, or the name of the variable, field or function. `parts` are the target, if any, and the
    arguments; alternating keys and values in a map. `optional` marks `.?` and `[?]`, `optionals` the elements of a
    literal that are marked with `?`. `at` is the position for errors: the operator, or the bracket of a call.
    """

    kind: Kind
    value: Any
    parts: tuple[Node, ...] = ()
    at: int = 0
    member: bool = False
    optional: bool = False
    optionals: frozenset[int] = frozenset()


_TOKEN = re.compile(
    r"""(?P<space>(?:\s|//[^\n]*)+)
    |(?P<text>(?i:rb|br|r|b)?(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    |(?P<int>(?:0[xX][0-9a-fA-F]+|\d+)[uU]?)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<quoted>`[\w.\-/ ]+`)
    |(?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_RAW_TEXT = re.compile(
    r"""([rR](?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*'))|((?i:rb|br)(?:"[^"\n]*"|'[^'\n]*'))""", re.DOTALL
)
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.|$))",
    re.DOTALL,
)
_LETTERS = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_LEVELS = (("||",), ("&&",), ("<", "<=", ">=", ">", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"))
_NAMES = {"true": True, "false": False, "null": None}
_RESERVED = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while in".split()
)


def is_identifier(text: str) -> bool:
    """Return True if a text can be the name of a variable."""
    plain = text.isascii() and text.isidentifier()
    return plain and text not in _RESERVED and text not in _NAMES


def error_at(text: str, at: int, words: str) -> CelError:
    """Return a compilation error that points at a position, in the format of Kubernetes."""
    line = text.count("\n", 0, at)
    start = text.rfind("\n", 0, at) + 1
    shown = text[start:].partition("\n")[0]
    column = at - start
    place = f"<input>:{line + 1}:{column + 1}"
    return CelError(f"compilation failed: ERROR: {place}: {words}\n | {shown}\n | {'.' * column}^")


def parse(text: str) -> Node:
    """Parse an expression into a tree.

    Raises:
        CelError: it is invalid.
    """
    if len(text) > LONGEST:
        raise CelError(
            f"compilation failed: expression code point size exceeds limit: size: {len(text)}, limit {LONGEST}"
        )
    parser = _Parser(text)
    tree = parser.expression()
    parser.expect_end()
    return tree


class _Parser:
    """A recursive descent parser with one method for each form."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._scanned()
        self._next = 0
        self._depth = 0

    def _scanned(self) -> list[tuple[str, str, int]]:
        tokens, at = [], 0
        while at < len(self._text):
            found = _RAW_TEXT.match(self._text, at)
            kind = "text"
            if found is None:
                found = _TOKEN.match(self._text, at)
                kind = "" if found is None else found.lastgroup or ""
            if found is None:
                message = f"Syntax error: token recognition error at: '{self._text[at]}'"
                raise error_at(self._text, at, message)
            if kind != "space":
                tokens.append((kind, found[0], at))
            at = found.end()
        return [*tokens, ("end", "<EOF>", len(self._text))]

    # --- tokens

    def _peek(self) -> str:
        kind, text, _ = self._tokens[self._next]
        return text if kind in ("sign", "name") else ""

    def _take(self, *texts: str) -> str:
        """Consume and return the next token if it is one of these."""
        found = self._peek()
        if found not in texts:
            return ""
        self._next += 1
        return found

    def _expect(self, text: str) -> None:
        if not self._take(text):
            self._fail(f"expecting '{text}'")

    def _fail(self, words: str) -> NoReturn:
        _, text, at = self._tokens[self._next]
        raise error_at(self._text, at, f"Syntax error: mismatched input '{text}' {words}")

    def expect_end(self) -> None:
        """Raise an error if anything is left."""
        if self._tokens[self._next][0] != "end":
            self._fail("expecting <EOF>")

    # --- forms

    def expression(self) -> Node:
        """Parse an expression, with `?:`."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise error_at(self._text, self._tokens[self._next][2], f"expression recursion limit exceeded: {DEEPEST}")
        found = self._binary(0)
        at = self._tokens[self._next][2]
        if self._take("?"):
            then = self._binary(0)
            self._expect(":")
            found = Node("call", "?:", (found, then, self.expression()), at)
        self._depth -= 1
        return found

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        found = self._binary(level + 1)
        count = 0
        while True:
            at = self._tokens[self._next][2]
            sign = self._take(*_LEVELS[level])
            if not sign:
                return found
            count += 1
            if count > DEEPEST and level > 1:
                raise error_at(self._text, at, f"expression recursion limit exceeded: {DEEPEST}")
            right = self._binary(level + 1)
            if level < 2 and found.kind == "call" and found.value == sign and count > 1:
                found = Node("call", sign, (*found.parts, right), at)  # one flat node for any length
            else:
                found = Node("call", sign, (found, right), at)

    def _unary(self) -> Node:
        at = self._tokens[self._next][2]
        signs = 0
        sign = self._take("!", "-")
        if not sign:
            return self._member()
        while self._take(sign):
            signs += 1
        if sign == "-" and signs == 0 and self._tokens[self._next][0] in ("int", "float"):
            return self._member(negative=True)
        inner = self._member()
        if signs % 2:
            inner = Node("call", sign + "_", (inner,), at)
        return Node("call", sign + "_", (inner,), at)

    def _member(self, *, negative: bool = False) -> Node:
        found = self._primary(negative=negative)
        count = 0
        while True:
            count += 1
            at = self._tokens[self._next][2]
            if count > DEEPEST:
                raise error_at(self._text, at, f"expression recursion limit exceeded: {DEEPEST}")
            if self._take("."):
                found = self._selected(found, at)
            elif self._take("["):
                optional = bool(self._take("?"))
                key = self.expression()
                self._expect("]")
                found = Node("index", None, (found, key), at, optional=optional)
            elif self._peek() == "{" and found.kind in ("name", "select"):
                raise error_at(self._text, at, f"messages cannot be created: {found.value}")
            else:
                return found

    def _selected(self, target: Node, at: int) -> Node:
        optional = bool(self._take("?"))
        kind, name, _ = self._tokens[self._next]
        if kind not in ("name", "quoted") or name in ("in", "true", "false", "null"):
            self._fail("expecting IDENTIFIER")
        self._next += 1
        place = self._tokens[self._next][2]
        if kind == "name" and not optional and self._take("("):
            return Node("call", name, (target, *self._arguments(")")[0]), place, member=True)
        return Node("select", name.strip("`"), (target,), at, optional=optional)

    def _arguments(self, end: str) -> tuple[tuple[Node, ...], frozenset[int]]:
        """Parse expressions up to a bracket, and the indexes of those marked with `?`."""
        found: list[Node] = []
        optionals = set()
        while not self._take(end):
            if end == "]" and self._take("?"):
                optionals.add(len(found))
            found.append(self.expression())
            if not self._take(","):
                self._expect(end)
                break
            if end == ")" and self._peek() == end:
                self._fail("expecting an expression")
        return tuple(found), frozenset(optionals)

    def _primary(self, *, negative: bool) -> Node:
        kind, text, at = self._tokens[self._next]
        if kind in ("int", "float"):
            self._next += 1
            return Node("literal", self._number(kind, f"-{text}" if negative else text, at), (), at)
        if kind == "text":
            self._next += 1
            return Node("literal", self._unquoted(text, at), (), at)
        if self._take("("):
            found = self.expression()
            self._expect(")")
            return found
        if self._take("["):
            items, optionals = self._arguments("]")
            return Node("list", None, items, at, optionals=optionals)
        if self._take("{"):
            return self._map(at)
        self._take(".")  # a name from the root
        return self._named()

    def _map(self, at: int) -> Node:
        entries: list[Node] = []
        optionals = set()
        while not self._take("}"):
            if self._take("?"):
                optionals.add(len(entries))
            entries.append(self.expression())
            self._expect(":")
            entries.append(self.expression())
            if not self._take(","):
                self._expect("}")
                break
        return Node("map", None, tuple(entries), at, optionals=frozenset(optionals))

    def _named(self) -> Node:
        kind, text, at = self._tokens[self._next]
        if kind != "name":
            self._fail("expecting an expression")
        self._next += 1
        if text in _NAMES:
            return Node("literal", _NAMES[text], (), at)
        if text in _RESERVED:
            raise error_at(self._text, at, f"reserved identifier: {text}")
        place = self._tokens[self._next][2]
        if self._take("("):
            return Node("call", text, self._arguments(")")[0], place)
        return Node("name", text, (), at)

    # --- literals

    def _number(self, kind: str, text: str, at: int) -> Any:
        if kind == "float":
            return float(text)
        unsigned = text[-1] in "uU"
        digits = text.rstrip("uU")
        value = int(digits, 16 if "x" in digits.lower() else 10) if len(digits) < 40 else 2**64
        if unsigned and 0 <= value < 2**64:
            return UInt(value)
        if unsigned or not -(2**63) <= value < 2**63:
            raise error_at(self._text, at, f"Syntax error: invalid {'uint' if unsigned else 'int'} literal")
        return value

    def _unquoted(self, text: str, at: int) -> str | bytes:
        start = min(text.find(quote) for quote in "\"'" if quote in text)
        prefix, quoted = text[:start].lower(), text[start:]
        size = 3 if quoted[:3] in ('"""', "'''") and len(quoted) >= 6 else 1
        body = quoted[size:-size]
        if "r" in prefix:
            return body.encode() if "b" in prefix else body

        def letter(found: re.Match[str]) -> str:
            if found[1]:
                return _LETTERS.get(found[1], found[1])
            code = int(found[2] or found[3] or found[4] or "0", 16) if not found[5] else int(found[5], 8)
            if found[6] is not None or code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise error_at(self._text, at, "Syntax error: invalid escape sequence in a literal")
            return chr(code)

        if "b" not in prefix:
            return _ESCAPE.sub(letter, body)
        return _bytes(body, letter)


def _bytes(body: str, letter: Any) -> bytes:
    r"""Return the bytes of a literal: `\x` and octal escapes are single bytes, everything else is UTF-8."""
    made, at = [], 0
    for found in _ESCAPE.finditer(body):
        made.append(body[at : found.start()].encode())
        one = letter(found)
        made.append(one.encode("latin-1") if found[2] or found[5] else one.encode())
        at = found.end()
    return b"".join([*made, body[at:].encode()])
