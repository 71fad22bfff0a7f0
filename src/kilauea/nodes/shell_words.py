"""Expansion of words in shell scripts: quotes, variables, arithmetic, the output of commands, braces."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import MappingProxyType

from kilauea.nodes.shell_syntax import NotUnderstood, end_of

LARGEST = 10**15
LONGEST = 65_536
"""Maximum number of characters of an expanded word."""
MOST_WORDS = 10_000
"""Maximum number of words from one."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9?#@*$!]")
_ASSIGNED = re.compile(r"\s*([A-Za-z_]\w*)\s*([-+*/%]?)=(?!=)(.*)", re.DOTALL)
_STEPPED = re.compile(r"\s*(?:([A-Za-z_]\w*)\s*(\+\+|--)|(\+\+|--)\s*([A-Za-z_]\w*))\s*")
_BRACES = re.compile(r"(.*?)\{(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})\}(.*)", re.DOTALL)
_OPERATIONS: Mapping[type[ast.AST], Callable[[int, int], int]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Lt: operator.lt,
        ast.LtE: operator.le,
        ast.Gt: operator.gt,
        ast.GtE: operator.ge,
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
    }
)

Variables = MutableMapping[str, str]
Output = Callable[[str], str]
"""Returns the output of a script; raises `NotUnderstood` if it is unknown."""


def expand(word: str, variables: Variables, output: Output) -> list[str]:
    """Expand a word: to none if it is empty and not quoted, to several if an unquoted value contains blanks."""
    if (braces := _BRACES.fullmatch(word)) and not set("\"'$") & set(word):
        return [f"{braces[1]}{number}{braces[4]}" for number in _span(int(braces[2]), int(braces[3]))]
    words: list[str] = []
    current, quoted, length = "", False, 0
    for text, kept in _parts(word, variables, output):
        length += len(text)
        if length > LONGEST:
            raise NotUnderstood("too long a word")
        quoted |= kept
        if kept:
            current += text
            continue
        pieces = re.split(r"[ \t\n]+", text)
        for piece in pieces[:-1]:
            words += [current + piece] if current + piece else []
            current = ""
        current += pieces[-1]
    return [*words, current] if current or quoted else words


def _span(first: int, last: int) -> range:
    if abs(last - first) >= MOST_WORDS:
        raise NotUnderstood("too many words")
    return range(first, last + 1) if first <= last else range(first, last - 1, -1)


def _parts(word: str, variables: Variables, output: Output) -> Iterator[tuple[str, bool]]:
    """The parts of a word; each with True if it is kept unchanged, False if it is split at blanks."""
    at = 0
    while at < len(word):
        c = word[at]
        if c == "'":
            end = end_of(word, at)
            yield word[at + 1 : end - 1], True
        elif c == '"':
            end = end_of(word, at)
            inner = re.sub(r'\\(["`])', r"\1", word[at + 1 : end - 1])
            yield "".join(text for text, _ in _dollars(inner, variables, output)), True
        elif c == "\\":
            end = at + 2
            yield word[at + 1 : end], True
        else:
            end = min((i for i in range(at + 1, len(word)) if word[i] in "'\"\\"), default=len(word))
            # Quotes within $( ) belong to it.
            while "$(" in word[at:end] and word.count("(", at, end) > word.count(")", at, end):
                end = word.find(")", end) + 1 or len(word)
            yield from _dollars(word[at:end], variables, output)
        at = end


def _dollars(text: str, variables: Variables, output: Output) -> Iterator[tuple[str, bool]]:
    """Text with expanded `$`; each part with True if it is literal."""
    at = 0
    while at < len(text):
        c = text[at]
        if c == "\\" and text[at + 1 : at + 2] in ("$", "\\"):
            yield text[at + 1], True
            at += 2
        elif c == "`":
            end = end_of(text, at)
            yield output(text[at + 1 : end - 1]), False
            at = end
        elif c == "$" and at + 1 < len(text):
            value, at = _dollar(text, at, variables, output)
            yield value, False
        else:
            yield c, True
            at += 1


def _dollar(text: str, at: int, variables: Variables, output: Output) -> tuple[str, int]:
    """Expand a `$` and its operand; return the text and the position after it."""
    if text.startswith("$((", at):
        end = end_of(text, at + 1)
        return str(calculate(text[at + 3 : end - 2], variables)), end
    if text.startswith("$(", at):
        end = end_of(text, at + 1)
        return output(text[at + 2 : end - 1]), end
    if text.startswith("${", at):
        end = end_of(text, at + 1)
        name, default, other = text[at + 2 : end - 1].partition(":-")
        if not _NAME.fullmatch(name):
            raise NotUnderstood(text[at:end])
        return variables.get(name) or (other if default else ""), end
    found = _NAME.match(text, at + 1)
    return (variables.get(found[0], ""), found.end()) if found else ("$", at + 1)


# --- arithmetic


def calculate(text: str, variables: Variables) -> int:
    """The value of an expression; assignments and `i++` change variables.

    Raises:
        NotUnderstood: it cannot be evaluated.
    """
    if stepped := _STEPPED.fullmatch(text):
        name, sign = stepped[1] or stepped[4], 1 if (stepped[2] or stepped[3]) == "++" else -1
        before = _number(variables.get(name, ""))
        variables[name] = str(before + sign)
        return before if stepped[1] else before + sign
    if assigned := _ASSIGNED.fullmatch(text):
        name, operation, rest = assigned.groups()
        value = calculate(f"{name}{operation}({rest})" if operation else rest, variables)
        variables[name] = str(value)
        return value
    plain = re.sub(r"\$\{?([A-Za-z_]\w*)\}?", r"\1", text).replace("&&", " and ").replace("||", " or ")
    try:
        tree = ast.parse(plain.strip().replace("/", "//") or "0", mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotUnderstood(text) from error
    return _value(tree.body, variables)


def _number(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,15}|", text, re.ASCII):
        raise NotUnderstood(text)
    return int(text or "0")


def _value(node: ast.AST, variables: Variables) -> int:
    """The value of a part of an expression."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        value = node.value
    elif isinstance(node, ast.Name):
        value = _number(variables.get(node.id, ""))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = -_value(node.operand, variables)
    elif isinstance(node, ast.BoolOp):
        values = [bool(_value(each, variables)) for each in node.values]
        value = int(all(values) if isinstance(node.op, ast.And) else any(values))
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATIONS:
        left, right = _value(node.left, variables), _value(node.comparators[0], variables)
        value = int(_OPERATIONS[type(node.ops[0])](left, right))
    elif isinstance(node, ast.BinOp):
        value = _binary(node, variables)
    else:
        raise NotUnderstood("arithmetic")
    if abs(value) > LARGEST:
        raise NotUnderstood("too large a number")
    return value


def _binary(node: ast.BinOp, variables: Variables) -> int:
    left, right = _value(node.left, variables), _value(node.right, variables)
    if isinstance(node.op, ast.FloorDiv | ast.Mod):
        if not right:
            raise NotUnderstood("division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)  # towards zero, as in C
        return quotient if isinstance(node.op, ast.FloorDiv) else left - quotient * right
    if type(node.op) not in _OPERATIONS:
        raise NotUnderstood("arithmetic")
    return _OPERATIONS[type(node.op)](left, right)
