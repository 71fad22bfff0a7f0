"""Typed literals of mutating policies (`Object.spec{replicas: 1}`, `JSONPatch{op: "add"}`) as maps, for CEL."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<text>[rRbB]*(?:"{3}.*?"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
    |(?P<escape>\bjsonpatch\.escapeKey\()
    |(?P<typed>\b(?:Object(?:\.[A-Za-z_]\w*)*|JSONPatch)\s*\{)
    |(?P<field>[A-Za-z_]\w*)(?=\s*:)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<open>[\[({])
    |(?P<close>[\])}])
    |(?P<comma>,)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_TYPED, _ESCAPE, _PLAIN = "typed", "escape", "plain"


def plain_literals(expression: str) -> str:
    """Return the expression with maps in place of typed literals, and plain functions for `jsonpatch.escapeKey`."""
    out: list[str] = []
    stack: list[str] = []
    at_key = False
    for token in _TOKEN.finditer(expression):
        text, kind = token[0], token.lastgroup
        if kind == "typed":
            out.append("{")
            stack.append(_TYPED)
        elif kind == "escape":
            out.append("(")
            stack.append(_ESCAPE)
        elif kind == "field" and at_key:
            out.append(f'"{text}"')
        elif kind == "close":
            opened = stack.pop() if stack else _PLAIN
            out.append(text + (".replace('~', '~0').replace('/', '~1')" if opened == _ESCAPE else ""))
        else:
            out.append(text)
            if kind == "open":
                stack.append(_PLAIN)
        if not text.isspace():
            at_key = kind == "typed" or (kind == "comma" and bool(stack) and stack[-1] == _TYPED)
    return "".join(out)
