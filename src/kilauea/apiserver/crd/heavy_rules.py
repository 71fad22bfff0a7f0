"""Rules that may take long: they are evaluated elsewhere, and refused if they do.

The language has no loops but those over lists and maps, so the steps of a rule are the size of the largest of these,
to the power of how deep its loops nest. Rules that build lists of lists, or search with regular expressions, are taken
for heavy as such. Kubernetes counts a cost for each step instead, and gives up at ten million.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from kilauea.api.cel import CelError, compiled
from kilauea.api.remembered import remembered
from kilauea.apiserver.crd.values import as_cel
from kilauea.apiserver.deferred import deferred

LIGHT_STEPS = 20_000
"""Steps of a rule that is evaluated at once: some tens of milliseconds."""
_TEXTS = re.compile(r'"(?:[^"\\\\]|\\\\.)*"|\'(?:[^\'\\\\]|\\\\.)*\'')
_PARTS = re.compile(r"\.\s*(all|exists|exists_one|existsOne|map|filter|find|findAll)\s*\(|[()]")


class Shape(NamedTuple):
    """The growth of a rule: the depth of its loops, their number, and whether it is heavy whatever it goes over."""

    depth: int
    loops: int
    heavy: bool


class Outcome(msgspec.Struct):
    """The result of a rule; `error` if it failed."""

    holds: bool = False
    error: str = ""


@remembered(1024, 16 * 1024)
def shape_of_rule(text: str) -> Shape:
    """The shape of a rule, from its text."""
    open_loops: list[bool] = []
    depth = loops = maps = 0
    heavy = False
    for found in _PARTS.finditer(_TEXTS.sub("''", text)):
        if found[0] == ")":
            open_loops = open_loops[:-1]
            continue
        is_loop = found[1] is not None
        open_loops.append(is_loop)
        loops += is_loop
        maps += found[1] == "map"
        heavy = heavy or found[1] in ("find", "findAll")
        depth = max(depth, sum(open_loops))
    return Shape(depth, loops, heavy or maps > 1)


def may_be_heavy(text: str) -> bool:
    """Return True if there are values on which an expression takes long."""
    shape = shape_of_rule(text)
    return shape.heavy or shape.depth > 1


def is_heavy(text: str, value: Any) -> bool:
    """Return True if a rule may take long on a value."""
    shape = shape_of_rule(text)
    if shape.heavy:
        return True
    if shape.depth < 2:
        return False
    texts = ".split" in text  # makes a list of a text
    most = max(widest(value, texts=texts), text.count(",") + 1)  # a list may stand in the rule itself
    return bool(shape.loops * most**shape.depth > LIGHT_STEPS)


def widest(value: Any, *, texts: bool = False) -> int:
    """The size of the largest list or map in a value, or of the longest text."""
    if isinstance(value, dict | list):
        below = value.values() if isinstance(value, dict) else value
        return max([len(value), *(widest(each, texts=texts) for each in below)])
    return len(value) if texts and isinstance(value, str) else 0


def evaluate_elsewhere(text: str, raw: Mapping[str, Any], value: Any, old: Any, *, has_old: bool) -> Outcome | None:
    """Have a rule evaluated; None if it takes too long.

    Raises:
        Deferred: the answer is not known yet.
    """
    question = {"rule": text, "raw": raw, "self": value, **({"oldSelf": old} if has_old else {})}
    answer = deferred(msgspec.json.encode(question))
    return msgspec.json.decode(answer, type=Outcome) if answer else None


def apply_heavy_rule(question: bytes) -> bytes:
    """Evaluate a rule; in a process that can be ended."""
    asked = msgspec.json.decode(question)
    variables = {name: as_cel(asked["raw"], asked[name]) for name in ("self", "oldSelf") if name in asked}
    try:
        program = compiled(asked["rule"])
        outcome = Outcome(program is None or program(variables) is True)
    except CelError as error:
        outcome = Outcome(error=str(error))
    return msgspec.json.encode(outcome)
