"""The page about reasons: why something waits, why a pod is not evicted, and the events that say what happened."""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import kilauea
from generators.markdown import BLANK, code, page, table
from kilauea.engine.explain.group import RULES

SOURCE = Path(kilauea.__file__).parent


def reasons_page() -> str:
    """All reasons that are written by their names."""
    introduction = (
        "Reasons are stable: programs can rely on them. Messages are for people, and may change. "
        "[Why a job waits](../concepts/planning.md#why-a-job-waits) describes where they are shown."
    )
    return page("Reasons and events", introduction, _waiting(), _nodes(), _spared(), _queues(), _events())


def _waiting() -> Iterator[str]:
    yield from ("## Why something waits", BLANK)
    yield from (
        "The code in `kilauea plan` and `kilauea explain`, and the reason of conditions and events. If several apply, "
        "the one that is listed first here is shown first.",
        BLANK,
    )
    yield from table(["code", "rule"], [[code(name), rule] for name, rule in RULES.items()])


def _nodes() -> Iterator[str]:
    yield from ("## Why a node cannot run a pod", BLANK)
    yield from (
        "If a pod is `Unschedulable`, each reason is shown with the number of nodes; `...` stands for the parts "
        "that vary.",
        BLANK,
    )
    yield from table(["code", "message"], _words("Rejection", 0))


def _queues() -> Iterator[str]:
    yield from ("## Problems of queues", BLANK)
    yield from ("Reasons of conditions and events of queues; `...` stands for the parts that vary.", BLANK)
    yield from table(["reason", "message"], _words("QueueFault", 2))


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
    yield from ("`kilauea explain` lists the pods that might be evicted, and the reason why each is spared.", BLANK)
    yield from table(["code", "message"], [[code(name), _all(found[name])] for name in sorted(found)])


def _events() -> Iterator[str]:
    found: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for _, path, (kinds, reasons, messages) in _told():
        for kind in kinds:
            for reason in reasons:
                found[reason, kind, _part(path)].update(messages)
    for place, reasons in ELSEWHERE.items():
        for reason in reasons:
            found[reason, "Warning", _part(SOURCE / place.split()[0])].update()
    yield from ("## Events", BLANK)
    yield from ("`kubectl describe` and `kubectl events` show them; `...` stands for the parts that vary.", BLANK)
    rows = [[code(key[0]), key[1], key[2], _all(found[key]) or "..."] for key in sorted(found)]
    yield from table(["reason", "type", "source", "message"], rows)


ELSEWHERE = {
    "controllers/autoscalers.py _failed": (
        "FailedGetExternalMetric",
        "FailedGetObjectMetric",
        "FailedGetPodsMetric",
        "FailedGetResourceMetric",
    ),
    "controllers/jobs/controller.py _end": (),  # those of `JobEnd`
    "controllers/vcjobs/syncing.py _keep_pods": ("FailedCreate", "PluginError"),
    "kubelet/pod_worker.py __init__": ("NodePorts", "OutOf...", "PodOSNotSupported", "SysctlForbidden"),
    "kubelet/resizing.py _refuse": ("ResizeDeferred", "ResizeInfeasible"),
    "nodes/pods.py _rejected": ("OutOf...",),
    "runtime/manager/reconciling.py _event_of": (),  # those of `Wording`
    "runtime/scheduler/loop.py _report": (),  # those of conditions of queues, which have a section
}
"""Functions that record events whose reasons are found elsewhere, and these reasons."""

Told = tuple[set[str], set[str], set[str]]
"""Types, reasons and messages that an event may have; a set is empty where they are not literals."""


def _told() -> Iterator[tuple[str, Path, Told]]:
    """Events by the function that records them: of `Record(...)`, and of `host.event(...)` in the kubelet."""
    for path, call, names in _calls("Record"):
        if len(call.args) == 4 and not call.keywords and path.name != "host.py":
            for place, texts in _forwarded(path, call, call.args[1:], names):
                yield place, path, texts
    for path, call, names in _calls("event"):
        if "kubelet" in path.parts and len(call.args) == 3:
            warning = next((each.value for each in call.keywords if each.arg == "warning"), ast.Constant(False))
            for place, texts in _forwarded(path, call, [warning, *call.args[1:]], names):
                yield place, path, texts
    for path, call, names in _calls("JobEnd"):
        if _texts(call.args[1], names) == {"Failed"} and (reasons := _texts(call.args[2], names)):
            yield "JobEnd", path, ({"Warning"}, reasons, _texts(call.args[3], names))
    for path, call, names in _calls("Wording"):
        by = SOURCE / "runtime" / "manager" if path.name == "ports.py" else path
        reasons, words = _texts(call.args[0], names), _texts(call.args[1], names)
        yield "Wording", by, ({"Warning"}, reasons, {f"{each}..." for each in words})


def _forwarded(path: Path, call: ast.Call, values: list[ast.expr], names: Names) -> Iterator[tuple[str, Told]]:
    """Texts of type, reason and message of a call; where its function is given them, those of the function's calls."""
    module = _parsed(path)
    function = _function_of(module, call)
    given = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)] if function else []
    passed = {value.id for value in values[:2] if isinstance(value, ast.Name)} & set(given)
    if function is None or not passed or any(_texts(value, names) for value in values[:2] if _is_one(value, passed)):
        place = f"{path.relative_to(SOURCE)} {function.name if function else 'module'}"
        yield place, (_types(values[0], names), _texts(values[1], names), _texts(values[2], names))
        return
    defaults = dict(zip(given[-len(function.args.kwonlyargs) :], function.args.kw_defaults, strict=False))
    for _, caller, known in _calls(function.name, path):
        first = 1 if given[:1] == ["self"] else 0
        by_name: dict[str, ast.expr | None] = {**defaults, **dict(zip(given[first:], caller.args, strict=False))}
        by_name |= {each.arg: each.value for each in caller.keywords if each.arg}
        handed = [(by_name.get(value.id) or value) if isinstance(value, ast.Name) else value for value in values]
        yield from _forwarded(path, caller, handed, known | names)


def _is_one(value: ast.expr, names: set[str]) -> bool:
    return isinstance(value, ast.Name) and value.id in names


def _types(value: ast.expr, names: Names) -> set[str]:
    if isinstance(value, ast.Constant) and isinstance(value.value, bool):
        return {"Warning" if value.value else "Normal"}
    return _texts(value, names)


def _function_of(module: ast.Module, call: ast.Call) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost function around a call."""
    around = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= call.lineno <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: node.lineno, default=None)


def _all(words: set[str]) -> str:
    return "<br>".join(sorted(" ".join(each.split()) for each in words))


def _part(path: Path) -> str:
    """The part of the system that a module belongs to, as people call it."""
    parts = [part.removesuffix(".py") for part in path.relative_to(SOURCE).parts]
    return f"{parts[1]} controller" if parts[0] == "controllers" else parts[1] if parts[0] == "runtime" else parts[0]


Names = dict[str, str]


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _calls(name: str, within: Path | None = None) -> Iterator[tuple[Path, ast.Call, Names]]:
    """All calls of a function or method, with the texts that have names where it is called."""
    for path in sorted(SOURCE.rglob("*.py")) if within is None else [within]:
        if f"{name}(" not in path.read_text():
            continue
        module = _parsed(path)
        constants = _imported(module.body) | _named(module.body)
        for part in module.body:
            assigned = sorted(
                (node for node in ast.walk(part) if isinstance(node, ast.Assign)), key=lambda node: node.lineno
            )
            for node in ast.walk(part):
                if isinstance(node, ast.Call) and name == _called(node):
                    before = [each for each in assigned if each.lineno <= node.lineno]
                    yield path, node, constants | _named(before)


def _called(call: ast.Call) -> str:
    """The name of the function or method that is called."""
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _imported(nodes: Iterable[ast.stmt]) -> Names:
    """Texts that have names in the modules from which they are imported."""
    out: Names = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kilauea."):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                held, name = getattr(module, alias.name, None), alias.asname or alias.name
                if held is None:
                    held = importlib.import_module(f"{node.module}.{alias.name}")
                if isinstance(held, str):
                    out[name] = held
                elif isinstance(held, ModuleType):
                    out |= {f"{name}.{key}": text for key, text in vars(held).items() if isinstance(text, str)}
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
    return names.get(ast.unparse(node), "") if isinstance(node, ast.Name | ast.Attribute) else ""


def _texts(node: ast.expr, names: Names) -> set[str]:
    """The texts that a value may have, as far as they are literals or names for such."""
    if isinstance(node, ast.IfExp):
        return _texts(node.body, names) | _texts(node.orelse, names)
    return {_text(node, names)} - {""}
