"""Docstrings and signatures as Markdown."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from generators.markdown import BLANK
from kilauea.engine.extension import Scope


def prose(docstring: str | None) -> str:
    """A docstring as Markdown: paragraphs on one line each, sections as they are."""
    text = re.sub(r"\s\(spec [^)]*\)", "", inspect.cleandoc(docstring or ""))
    paragraphs = [
        p if p.startswith(("    ", "Raises:", "Args:")) else " ".join(line.strip() for line in p.split("\n"))
        for p in text.split("\n\n")
    ]
    return "\n\n".join(_section(re.sub(r"^Returns:", "**Returns:**", p)) for p in paragraphs)


def _section(paragraph: str) -> str:
    """`Raises:` and `Args:` as lists."""
    title, _, body = paragraph.partition("\n")
    if title not in ("Raises:", "Args:", "Attributes:"):
        return paragraph
    return "\n".join([title, BLANK, *(f"- `{name}`: {text}" for name, text in entries(body))])


def entries(body: str) -> Iterator[tuple[str, str]]:
    """`name: text` of an indented section, continued lines joined."""
    for entry in re.split(r"\n(?=\S)", textwrap.dedent(body).strip()):
        name, _, text = " ".join(line.strip() for line in entry.split("\n")).partition(": ")
        yield name, text


def signature(name: str, function: Callable[..., Any]) -> str:
    """`name(argument: type, ...) -> type`, without self."""
    parts, starred = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        text = f"{parameter.name}: {parameter.annotation}"
        if parameter.default is not parameter.empty:
            default = parameter.default
            text += f" = {default if isinstance(default, Scope) else repr(default)}"
        parts.append(text)
    answer = inspect.signature(function).return_annotation
    return f"{name}({', '.join(parts)}) -> {answer}"


def attribute_docs(of: type[Any]) -> dict[str, str]:
    """Attributes that a class declares, or sets on itself, with the text that stands below them."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(of))).body
    assert isinstance(tree, ast.ClassDef)
    out: dict[str, str] = {}
    nodes: list[ast.ClassDef | ast.FunctionDef] = [tree]
    nodes += [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in nodes:
        for statement, after in zip(node.body, [*node.body[1:], None], strict=True):
            name = assigned(statement, "" if node is tree else "self")
            if not name or name.startswith("_"):
                continue
            doc = after.value if isinstance(after, ast.Expr) else None
            text = doc.value if isinstance(doc, ast.Constant) and isinstance(doc.value, str) else ""
            out[name] = out.get(name) or " ".join(text.split())
    return out


def assigned(statement: ast.stmt, to: str) -> str:
    """`x` of `x = ...` and `x: T`, or of `self.x = ...`."""
    target: ast.expr | None = None
    if isinstance(statement, ast.AnnAssign):
        target = statement.target
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    if isinstance(target, ast.Name) and not to:
        return target.id
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == to:
        return target.attr
    return ""
