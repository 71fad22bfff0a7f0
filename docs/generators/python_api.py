"""The page about the Python API: its functions, and the types that they return."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import kilauea
from generators.docstrings import attribute_docs, entries, prose, signature
from generators.markdown import BLANK, code, page, table
from kilauea import library
from kilauea.engine.conf import Finding
from kilauea.engine.explain.group import Blocker, Change, Explanation
from kilauea.engine.explain.levels import Borrower, Level
from kilauea.engine.explain.queue_position import Ahead, Holder
from kilauea.engine.explain.victim_diagnosis import Attempt, Spared
from kilauea.engine.plan import (
    Bind,
    Condition,
    Eviction,
    GroupOutcome,
    NodeReason,
    Nomination,
    Pending,
    Plan,
    QueueOutcome,
    Refusal,
)
from kilauea.simulator.planning import Result, Step

FUNCTIONS = (library.plan, library.explain, library.simulate)
ALIASES = ("Objects", "Conf", "Moment")
OF_PLANS = (Bind, Nomination, Eviction, Pending, NodeReason, GroupOutcome, Condition, Refusal, QueueOutcome, Finding)
OF_EXPLANATIONS = (Blocker, Change, Level, Borrower, Ahead, Holder, Attempt, Spared)


def python_page() -> str:
    """All of the API."""
    summary, _, rest = inspect.cleandoc(library.__doc__ or "").partition("\n\n")
    example, _, closing = rest.rpartition("\n\n")
    return page(
        "Python API",
        prose(summary.removeprefix("The Python API: ").capitalize()),
        ("```python", inspect.cleandoc(example), "```", BLANK, prose(closing), BLANK),
        (line for function in FUNCTIONS for line in _function(function)),
        _aliases(),
        _type("InvalidInput", library.InvalidInput),
        _type("Plan", Plan),
        (line for of in OF_PLANS for line in _type(of.__name__, of, "###")),
        _type("Explanation", Explanation),
        (line for of in OF_EXPLANATIONS for line in _type(of.__name__, of, "###")),
        _type("Result", Result),
        _type("Step", Step, "###"),
    )


def _function(function: Callable[..., Any]) -> Iterator[str]:
    parts = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    sections = {part.partition(":\n")[0]: part.partition(":\n")[2] for part in parts if part.partition(":\n")[1]}
    yield from (f"## kilauea.{function.__name__}", BLANK)
    yield from ("```python", _broken(signature(function.__name__, function)), "```", BLANK)
    for part in parts:
        if part.partition(":\n")[0] not in ("Args", "Returns", "Raises"):
            yield from (prose(part), BLANK)
    known = inspect.signature(function).parameters
    rows = [[code(name), _default(known[name]), _told(text)] for name, text in entries(sections["Args"])]
    yield from table(["argument", "default", "meaning"], rows)
    yield from ("**Returns:** " + " ".join(sections["Returns"].split()), BLANK)
    yield from ("**Raises:**", BLANK, *(f"- `{name}`: {text}" for name, text in entries(sections["Raises"])), BLANK)


def _broken(head: str) -> str:
    """A signature with one argument on each line."""
    name, _, rest = head.partition("(")
    arguments, _, answer = rest.rpartition(") -> ")
    depth, lines, line = 0, [], ""
    for letter in arguments:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and not depth:
            lines.append(line.strip())
            line = ""
        else:
            line += letter
    return "\n".join([f"{name}(", *(f"    {each}," for each in (*lines, line.strip())), f") -> {answer}"])


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return ""
    if parameter.name == "schedulers":
        return ", ".join(map(code, parameter.default))
    return code(repr(parameter.default))


def _aliases() -> Iterator[str]:
    """The names of types that the signatures use, as the source defines them."""
    lines = inspect.getsource(library).splitlines()
    yield from ("## Types of arguments", BLANK, "```python")
    yield from (line for line in lines if line.startswith(tuple(f"{name} = " for name in ALIASES)))
    yield from ("```", BLANK)


def _type(name: str, of: type[Any], level: str = "##") -> Iterator[str]:
    title = f"kilauea.{name}" if name in kilauea.__all__ else name
    doc, _, listed = inspect.cleandoc(of.__doc__ or "").partition("Attributes:")
    yield from (f"{level} {title}", BLANK, f"`{of.__module__}.{of.__name__}`", BLANK)
    for part in doc.strip().split("\n\n"):
        yield from (prose(part), BLANK)
    told = attribute_docs(of) | (dict(entries(listed)) if listed else {})
    kinds = inspect.get_annotations(of)
    rows = [[code(each), code(_annotation(kinds.get(each))), _told(text)] for each, text in told.items()]
    rows += [[code(each), code(kind), _told(prose(text))] for each, kind, text in _properties(of)]
    yield from table(["attribute", "type", "meaning"], rows)
    for each, member in vars(of).items():
        if inspect.isfunction(member) and not each.startswith("_"):
            yield from (f"- `{signature(each, member)}`<br>", f"  {prose(member.__doc__)}", BLANK)


def _told(text: str) -> str:
    return text[:1].upper() + text[1:]


def _properties(of: type[Any]) -> Iterator[tuple[str, str, str]]:
    for name, member in vars(of).items():
        if isinstance(member, property) and member.fget is not None and not name.startswith("_"):
            yield name, _annotation(inspect.get_annotations(member.fget).get("return")), member.__doc__ or ""


def _annotation(annotation: object) -> str:
    """A type as the source writes it; named tuples wrap the text."""
    return "" if annotation is None else str(getattr(annotation, "__forward_arg__", annotation))
