"""Evaluation of expressions about one write, within a cost that they may have together.

What costs little is evaluated at once. What costs more is evaluated again in another process, so that no write holds up
other requests; only expressions that ask the authorizer are evaluated here in any case, as it is here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from kilauea.api.cel import COST_OF_CALL, CelCostError, CelError, compiled
from kilauea.apiserver.too_heavy import TooHeavy, TooManyWaiting

if TYPE_CHECKING:
    from kilauea.apiserver.heavy import Heavy

Raw = Mapping[str, Any]

COST_OF_POLICY = 10_000_000
"""Cost that the expressions of a policy may have together, for one binding and one object of parameters."""
COST_OF_CONDITIONS = 2_500_000
"""Cost that match conditions may have together."""
LIGHT_COST = 40_000
"""Cost of an expression that is evaluated at once: some ten milliseconds."""
_VARIABLE = re.compile(r"\bvariables\.([A-Za-z_]\w*)")
_AUTHORIZER = re.compile(r"\bauthorizer\b")
_SENT = ("object", "oldObject", "request", "namespaceObject", "params")
"""Variables that go to another process."""


class ConditionError(Exception):
    """An expression that cannot be evaluated; the message is the real server's."""


class OutOfBudget(ConditionError):
    """All expressions together cost more than they may; no further ones are evaluated."""

    def __init__(self) -> None:
        super().__init__("validation failed due to running out of cost budget, no further validation rules will be run")


class _TooLight(Exception):
    """An expression costs more than is evaluated at once."""


class Expressions:
    """Expressions with the same variables.

    Args:
        values: the variables.
        composed: expressions by name, each evaluated when it is first used.
        at_once: the cost that an expression may have here.

    Attributes:
        left: the cost that is left for the expressions.
    """

    def __init__(self, values: dict[str, Any], composed: Sequence[Raw], at_once: int = COST_OF_CALL) -> None:
        self.values = {**values, "variables": {}}
        self.left = COST_OF_POLICY
        self._composed = composed
        self._at_once = at_once
        self._expressions = {each["name"]: each["expression"] for each in composed}

    def run(self, expression: str) -> Any:
        """The value of an expression.

        Raises:
            ConditionError: it fails.
            OutOfBudget: it costs more than is left for all.
            _TooLight: it costs more than is evaluated at once.
        """
        text = expression.strip()
        for name in _VARIABLE.findall(text):
            self._set_variable(name)
        allowed = min(self.left, COST_OF_CALL)
        cost = limit = min(allowed, self._at_once)
        try:
            value, cost = compiled(text).costed(self.values, limit)
        except CelCostError as error:
            if limit < allowed:
                raise _TooLight from error
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
            value = self.run(expression)
        except OutOfBudget:
            raise
        except ConditionError as error:
            raise ConditionError(f'composited variable "{name}" fails to evaluate: {error}') from error
        finally:
            self._expressions[name] = expression
        self.values["variables"] = {**self.values["variables"], name: value}


class Evaluation(Expressions):
    """Expressions that are evaluated where they hold up nothing.

    Args:
        values: the variables.
        composed: expressions by name.
        heavy: evaluates what costs much.
    """

    def __init__(self, values: dict[str, Any], composed: Sequence[Raw], heavy: Heavy) -> None:
        super().__init__(values, composed, LIGHT_COST)
        self._heavy = heavy
        self._spent = 0

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression; raises as `run`."""
        before = self.left
        self._at_once = COST_OF_CALL if self._asks(expression) else LIGHT_COST
        try:
            value = self.run(expression)
        except _TooLight:
            self.left = before
            return await self._elsewhere(expression)
        self._spent += before - self.left
        if self._spent > LIGHT_COST:
            self._spent = 0
            await asyncio.sleep(0)  # other requests have their turn
        return value

    def _asks(self, expression: str) -> bool:
        """Return True if an expression may ask the authorizer, itself or by a variable."""
        return any(map(_AUTHORIZER.search, (expression, *self._expressions.values())))

    async def _elsewhere(self, expression: str) -> Any:
        values = {name: self.values.get(name) for name in _SENT}
        asked = {"expression": expression, "composed": list(self._composed), "values": values, "left": self.left}
        try:
            answer = msgspec.json.decode(await self._heavy.run("evaluate", msgspec.json.encode(asked)))
        except TooManyWaiting:
            raise  # this says nothing about the expression: the client may try again
        except TooHeavy as error:
            raise ConditionError(f"expression '{expression.strip()}' resulted in error: {error}") from error
        self.left = answer["left"]
        if answer["out"]:
            raise OutOfBudget
        if answer["error"]:
            raise ConditionError(answer["error"])
        return answer["value"]


def evaluate_elsewhere(question: bytes) -> bytes:
    """Evaluate an expression; in a process of its own."""
    asked = msgspec.json.decode(question)
    expressions = Expressions(asked["values"], asked["composed"])
    expressions.left = asked["left"]
    answer: dict[str, Any] = {"value": None, "error": "", "out": False}
    try:
        answer["value"] = expressions.run(asked["expression"])
    except OutOfBudget:
        answer["out"] = True
    except ConditionError as error:
        answer["error"] = str(error)
    return msgspec.json.encode({**answer, "left": expressions.left}, enc_hook=str)
