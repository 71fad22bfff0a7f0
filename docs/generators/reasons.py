"""The page about reasons: why something waits, why a pod is not evicted, and the events that say what happened."""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import kilauea
from generators.markdown import BLANK, code, page, table
from kilauea.engine.explain.group import RULES

SOURCE = Path(kilauea.__file__).parent


def reasons_page() -> str:
    """All reasons that are written by their names."""
    introduction = (
        "Reasons are stable: programs can rely on them. The messages beside them are for people, and may change. "
        "[Why a job waits](../concepts/planning.md#why-a-job-waits) says where they are shown."
    )
    return page("Reasons and events", introduction, _waiting(), _nodes(), _spared(), _queues(), _events())


def _waiting() -> Iterator[str]:
    yield from ("## Why something waits", BLANK)
    yield from (
        "The code of `kilauea plan` and `kilauea explain`, and the reason of conditions and events. What stands first "
        "here is named first where several apply.",
        BLANK,
    )
    yield from table(["code", "the rule that decides"], [[code(name), rule] for name, rule in RULES.items()])


def _nodes() -> Iterator[str]:
    yield from ("## Why a node does not take a pod", BLANK)
    yield from (
        "Where a pod is `Unschedulable`, each reason comes with the number of nodes that it holds for; `...` stands "
        "for what differs.",
        BLANK,
    )
    yield from table(["code", "what it says"], _words("Rejection", 0))


def _queues() -> Iterator[str]:
    yield from ("## What is wrong with a queue", BLANK)
    yield from ("The reason of conditions and events of queues; `...` stands for what differs.", BLANK)
    yield from table(["reason", "what it says"], _words("QueueFault", 2))


def _words(name: str, place: int) -> list[list[str]]:
    """Rows of the codes that calls have at a place, with the texts after them."""
    found: dict[str, set[str]] = defaultdict(set)
    for _, call, names in _calls(name):
        if len(call.args) > place + 1 and (about := _text(call.args[place], names)):
            words = _text(call.args[place + 1], names)
            found[about].update({words} if words else ())
    return [[code(about), _all(found[about]) or "..."] for about in sorted(found)]


def _spared() -> Iterator[str]:
    found: dict[str, set[str]] = defaultdict(set)
    for _, call, names in _calls("SpareReason"):
        name, words = (_text(argument, names) for argument in call.args[:2])
        if name:
            found[name].update({words} if words else ())
    yield from ("## Why a pod is not evicted", BLANK)
    yield from ("`kilauea explain` lists the pods that could make room, and why each is spared.", BLANK)
    yield from table(["code", "what it says"], [[code(name), _all(found[name])] for name in sorted(found)])


def _events() -> Iterator[str]:
    found: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for path, call, names in _calls("Record"):
        if len(call.args) < 4:
            continue
        kind, reason, message = (_text(argument, names) for argument in call.args[1:4])
        if kind and reason:
            found[reason, kind, _part(path)].update({message} if message else ())
    yield from ("## Events", BLANK)
    yield from ("`kubectl describe` and `kubectl events` show them; `...` stands for what differs.", BLANK)
    rows = [[code(key[0]), key[1], key[2], _all(found[key]) or "..."] for key in sorted(found)]
    yield from table(["reason", "type", "written by", "what it says"], rows)


def _all(words: set[str]) -> str:
    return "<br>".join(sorted(" ".join(each.split()) for each in words))


def _part(path: Path) -> str:
    """The part of the system that a module belongs to, as people call it."""
    parts = [part.removesuffix(".py") for part in path.relative_to(SOURCE).parts]
    return f"{parts[1]} controller" if parts[0] == "controllers" else parts[1] if parts[0] == "runtime" else parts[0]


Names = dict[str, str]


def _calls(name: str) -> Iterator[tuple[Path, ast.Call, Names]]:
    """All calls of a name, with the texts that have names where it is called."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if f"{name}(" not in text:
            continue
        module = ast.parse(text)
        constants = _imported(module.body) | _named(module.body)
        for part in module.body:
            assigned = sorted(
                (node for node in ast.walk(part) if isinstance(node, ast.Assign)), key=lambda node: node.lineno
            )
            for node in ast.walk(part):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                    before = [each for each in assigned if each.lineno <= node.lineno]
                    yield path, node, constants | _named(before)


def _imported(nodes: Iterable[ast.stmt]) -> Names:
    """Texts that have names in the modules from which they are imported."""
    out: Names = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kilauea."):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                held = getattr(module, alias.name, None)
                if isinstance(held, str):
                    out[alias.asname or alias.name] = held
    return out


def _named(nodes: Iterable[ast.AST]) -> Names:
    """Texts that are assigned to names."""
    out: Names = {}
    for node in nodes:
        if not isinstance(node, ast.Assign):
            continue
        names, values = node.targets[0], node.value
        pairs = (
            zip(names.elts, values.elts, strict=False)
            if isinstance(names, ast.Tuple) and isinstance(values, ast.Tuple)
            else [(names, values)]
        )
        for name, value in pairs:
            if isinstance(name, ast.Name) and (text := _text(value, {})):
                out[name.id] = text
    return out


def _text(node: ast.expr, names: Names) -> str:
    """The text of a literal, or of a name for one; what is filled in is `...`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""
