"""CEL expressions of webhooks and policies: what they may read, and their evaluation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kilauea.api.cel import COST_OF_CALL, CelCostError, CelError, compiled
from kilauea.apiserver.admission import Attributes
from kilauea.apiserver.dynamic.authorizing import authorizer_variables
from kilauea.apiserver.dynamic.matching import namespace_of
from kilauea.apiserver.dynamic.reviews import request_of
from kilauea.apiserver.resources.types import ResourceType

Raw = Mapping[str, Any]

COST_OF_POLICY = 10_000_000
"""Cost that the expressions of a policy may have together, for one binding and one object of parameters."""
COST_OF_CONDITIONS = 2_500_000
"""Cost that match conditions may have together."""
_VARIABLE = re.compile(r"\bvariables\.([A-Za-z_]\w*)")


class ConditionError(Exception):
    """An expression that cannot be evaluated; the message is the real server's."""


class OutOfBudget(ConditionError):
    """All expressions together cost more than they may; no further ones are evaluated."""

    def __init__(self) -> None:
        super().__init__("validation failed due to running out of cost budget, no further validation rules will be run")


class Inputs:
    """The variables of expressions about one write.

    Args:
        attributes: the write.
        resource: the kind as which it matched.
        obj: the new object in the version of that kind.
        old: the old one.
        params: the object with parameters.
        variables: expressions by name, each evaluated when it is first used.

    Attributes:
        left: the cost that is left for the expressions.
    """

    def __init__(
        self,
        attributes: Attributes,
        resource: ResourceType,
        obj: Any,
        old: Any,
        params: Any = None,
        variables: Sequence[Raw] = (),
    ) -> None:
        self.left = COST_OF_POLICY
        own = attributes.resource
        is_namespace = (own.group, own.plural) == ("", "namespaces")
        self.values: dict[str, Any] = {
            "object": obj,
            "oldObject": old,
            "request": request_of(attributes, resource),
            "namespaceObject": None if is_namespace else namespace_of(attributes),
            "params": params,
            "variables": {},
            **authorizer_variables(attributes),
        }
        self._expressions = {each["name"]: each["expression"] for each in variables}

    def evaluate(self, expression: str) -> Any:
        """The value of an expression.

        Raises:
            ConditionError: it fails.
            OutOfBudget: it costs more than is left for all.
        """
        text = expression.strip()
        for name in _VARIABLE.findall(text):
            self._set_variable(name)
        limit = min(self.left, COST_OF_CALL)
        cost = limit
        try:
            value, cost = compiled(text).costed(self.values, limit)
        except CelCostError as error:
            if limit < COST_OF_CALL:
                raise OutOfBudget from error
            raise ConditionError(f"expression '{text}' resulted in error: {error}") from error
        except CelError as error:
            cost = error.cost
            raise ConditionError(f"expression '{text}' resulted in error: {error}") from error
        finally:
            self.left -= cost
        return value

    def _set_variable(self, name: str) -> None:
        """Evaluate a variable that an expression uses, once; one that is used by itself has no value."""
        if name in self.values["variables"] or name not in self._expressions:
            return
        expression = self._expressions.pop(name)
        try:
            value = self.evaluate(expression)
        except OutOfBudget:
            raise
        except ConditionError as error:
            self._expressions[name] = expression
            raise ConditionError(f'composited variable "{name}" fails to evaluate: {error}') from error
        self.values["variables"] = {**self.values["variables"], name: value}


def conditions_hold(conditions: Sequence[Raw], inputs: Inputs) -> bool:
    """Return True if all match conditions are true; one that is false decides, whatever others say.

    Raises:
        ConditionError: none is false, and some cannot be evaluated.
        OutOfBudget: together they cost too much.
    """
    failed: list[str] = []
    inputs.left = COST_OF_CONDITIONS
    for each in conditions:
        try:
            if inputs.evaluate(each["expression"]) is False:
                return False
        except OutOfBudget:
            raise
        except ConditionError as error:
            failed.append(str(error))
    if failed:
        raise ConditionError(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")
    return True
