"""Errors in the expressions of webhooks and policies, which are type-checked before they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kilauea.api.cel import CelError, compiled
from kilauea.api.cel.typing import Type, check_expression
from kilauea.api.names import qualified_name_problems
from kilauea.apiserver.fields import check_name, duplicate, invalid_value, required, too_many
from kilauea.apiserver.schema.admission_types import variables_of
from kilauea.apiserver.status import Cause

Raw = Mapping[str, Any]
_NAMES = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}
"""The names of types in messages, where they differ."""
_MISSING = {"spec.auditAnnotations": "valueExpression is not specified"}
"""Messages about a missing expression, by its list."""
MOST_CONDITIONS = 64


def typed_problems(text: str, path: str, scope: Mapping[str, Type], *wanted: str) -> Iterator[Cause]:
    """Yield the error of an expression that is missing, has type errors, or has another type than wanted."""
    if not text.strip():
        yield required(path, _MISSING.get(path.rpartition(".")[0].partition("[")[0], "expression is not specified"))
        return
    try:
        found = str(check_expression(text.strip(), scope).type)
        compiled(text.strip(), frozenset(scope))
    except CelError as error:
        yield invalid_value(path, text, str(error))
        return
    if wanted and found not in wanted:
        one = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(_NAMES.get(each, each) for each in wanted)}]"
        yield invalid_value(path, text, f"must evaluate to {one} but got {_NAMES.get(found, found)}")


def weight_of(value: Any) -> int:
    """Return the characters of all strings below fields named `expression` or `...Expression`."""
    if isinstance(value, dict):
        texts = (each for key, each in value.items() if key.endswith(("expression", "Expression")))
        own = sum(len(each) for each in texts if isinstance(each, str))
        return own + sum(weight_of(each) for each in value.values() if isinstance(each, dict | list))
    return sum(map(weight_of, value)) if isinstance(value, list) else 0


def conditions_problems(conditions: Sequence[Raw], path: str, params: Type | None = None) -> Iterator[Cause]:
    """Yield the errors in match conditions: expressions that cannot be evaluated, and names."""
    if len(conditions) > MOST_CONDITIONS:
        yield too_many(path, len(conditions), MOST_CONDITIONS)
    scope = variables_of(params=params)
    names: set[str] = set()
    for number, each in enumerate(conditions):
        text, name = each.get("expression") or "", each.get("name") or ""
        if text.strip():
            yield from typed_problems(text, f"{path}[{number}].expression", scope, "bool")
        else:
            yield required(f"{path}[{number}].expression")
        if not name:
            yield required(f"{path}[{number}].name")
            continue
        yield from check_name(f"{path}[{number}].name", name, qualified_name_problems(name))
        if name in names:
            yield duplicate(f"{path}[{number}].name", name)
        names.add(name)
