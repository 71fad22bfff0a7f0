"""Evaluation of the expressions of one write, within a common cost limit.

Cheap expressions are evaluated at once. Expensive ones are evaluated again in another process, so that no write delays
other requests. The authorizer is in this process: a check ends the evaluation in the other process, which is repeated
with the decision.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kilauea.api.cel import CelCostError, CelError, compiled
from kilauea.api.cel.authorization import Decision, Place, Question, authorizer_values, place_of
from kilauea.api.cel.program import COST_OF_CALL
from kilauea.apiserver.heavy import TooHeavy, TooManyWaiting

if TYPE_CHECKING:
    from kilauea.apiserver.heavy import Heavy

Raw = Mapping[str, Any]

COST_OF_POLICY = 10_000_000
"""Maximum total cost of the expressions of a policy, for one binding and one parameter object."""
COST_OF_CONDITIONS = 2_500_000
"""Maximum total cost of match conditions."""
LIGHT_COST = 40_000
"""Maximum cost of an expression that is evaluated at once: about ten milliseconds."""
COST_OF_START = 100
"""Additional cost of preparing an expression."""
_VARIABLE = re.compile(r"\bvariables\.([A-Za-z_]\w*)")
LONGEST_AT_ONCE = 5_000
"""Maximum characters of an expression that is compiled in this process."""
_SENT = ("object", "oldObject", "request", "namespaceObject", "params")
"""Variables that are sent to another process."""


class ConditionError(Exception):
    """An expression cannot be evaluated; the message is that of the real server."""


class OutOfBudget(ConditionError):
    """The total cost of all expressions is too high; no further ones are evaluated."""

    def __init__(self) -> None:
        super().__init__("validation failed due to running out of cost budget, no further validation rules will be run")


class _TooLight(Exception):
    """An expression costs too much to be evaluated at once."""


class Expressions:
    """Expressions with the same variables.

    Args:
        values: the variables.
        composed: expressions by name, each evaluated when it is first used.
        at_once: the maximum cost of an expression in this process.

    Attributes:
        left: the remaining cost limit of the expressions.
    """

    def __init__(self, values: dict[str, Any], composed: Sequence[Raw], at_once: int = COST_OF_CALL) -> None:
        self.values = {**values, "variables": {}}
        self.left = COST_OF_POLICY
        self._composed = composed
        self._at_once = at_once
        self._expressions = {each["name"]: each["expression"] for each in composed}

    def run(self, expression: str) -> Any:
        """Return the value of an expression.

        Raises:
            ConditionError: it fails.
            OutOfBudget: it exceeds the remaining cost limit.
            _TooLight: it costs too much to be evaluated at once.
        """
        text = expression.strip()
        if self._at_once < COST_OF_CALL and len(text) > LONGEST_AT_ONCE:
            raise _TooLight
        for name in _VARIABLE.findall(text):
            self._set_variable(name)
        allowed = min(self.left, COST_OF_CALL)
        cost = allowed
        try:
            value, cost = compiled(text).costed(self.values, allowed, max(allowed - self._at_once, 0))
        except CelCostError as error:
            if self._at_once < allowed:
                raise _TooLight from error
            if allowed < COST_OF_CALL:
                raise OutOfBudget from error
            raise ConditionError(f"expression '{text}' resulted in error: {error}") from error
        except CelError as error:
            cost = error.cost
            raise ConditionError(f"expression '{text}' resulted in error: {error}") from error
        finally:
            self.left -= cost
        return value

    def _set_variable(self, name: str) -> None:
        """Evaluate a variable of an expression once; a variable that refers to itself has no value."""
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


class Pace(Protocol):
    """The pace of all evaluations of one write."""

    async def spend(self, cost: int) -> None:
        """Add a cost; let other requests have their turn when much has been spent since the last turn."""

    def rest(self) -> None:
        """Let others continue while the write waits."""


class Evaluation(Expressions):
    """Expressions that are evaluated without delaying other requests.

    Args:
        values: the variables.
        composed: expressions by name.
        heavy: evaluates expensive expressions.
        pace: lets other requests have their turn.
    """

    def __init__(self, values: dict[str, Any], composed: Sequence[Raw], heavy: Heavy, pace: Pace) -> None:
        super().__init__(values, composed, LIGHT_COST)
        self._heavy = heavy
        self._pace = pace

    async def evaluate(self, expression: str) -> Any:
        """Return the value of an expression; raises the errors of `run`."""
        before = self.left
        try:
            value = self.run(expression)
        except _TooLight:
            self.left = before
            return await self._elsewhere(expression)
        await self._pace.spend(before - self.left + COST_OF_START)
        return value

    async def _elsewhere(self, expression: str) -> Any:
        values = {name: self.values.get(name) for name in _SENT}
        asked = _Asked(expression, self._composed, values, self.left, place_of(self.values))
        while (answer := await self._answer(asked)).question is not None:
            asked.known.append((answer.question, self.values["authorizer"].decide(answer.question)))
        self.left = answer.left
        if answer.out:
            raise OutOfBudget
        if answer.error:
            raise ConditionError(answer.error)
        return answer.value

    async def _answer(self, asked: _Asked) -> _Answer:
        self._pace.rest()
        try:
            return msgspec.json.decode(await self._heavy.run("evaluate", msgspec.json.encode(asked)), type=_Answer)
        except TooManyWaiting:
            raise  # not a fault of the expression: the client may retry
        except TooHeavy as error:
            raise ConditionError(f"expression '{asked.expression.strip()}' resulted in error: {error}") from error


class _Asked(msgspec.Struct):
    """An expression to evaluate in another process.

    Attributes:
        expression: its text.
        composed: expressions by name.
        values: the variables, except the authorizer.
        left: the remaining cost limit of the expressions.
        place: the target of the request, for the authorizer; None without an authorizer.
        known: the known decisions of the authorizer.
    """

    expression: str
    composed: Sequence[Raw]
    values: dict[str, Any]
    left: int
    place: Place | None
    known: list[tuple[Question, Decision]] = []


class _Answer(msgspec.Struct):
    """The value of an expression, its error, or a check whose decision it needs first."""

    left: int
    value: Any = None
    error: str = ""
    out: bool = False
    question: Question | None = None


class _Unanswered(Exception):
    """A check needs the authorizer, which is in another process."""

    def __init__(self, question: Question) -> None:
        super().__init__("a question to the authorizer")
        self.question = question


class _Known:
    """Returns the decisions that the other process has made."""

    def __init__(self, known: Sequence[tuple[Question, Decision]]) -> None:
        self._known = dict(known)

    def __call__(self, question: Question) -> Decision:
        """Return the decision for a check.

        Raises:
            _Unanswered: it is not known.
        """
        if question not in self._known:
            raise _Unanswered(question)
        return self._known[question]


def evaluate_elsewhere(data: bytes) -> bytes:
    """Evaluate an expression; runs in another process."""
    asked = msgspec.json.decode(data, type=_Asked)
    values = dict(asked.values)
    if asked.place is not None:
        values |= authorizer_values(_Known(asked.known), asked.place)
    expressions = Expressions(values, asked.composed)
    expressions.left = asked.left
    answer = _Answer(0)
    try:
        answer.value = expressions.run(asked.expression)
    except _Unanswered as unanswered:
        answer.question = unanswered.question
    except OutOfBudget:
        answer.out = True
    except ConditionError as error:
        answer.error = str(error)
    answer.left = expressions.left
    return msgspec.json.encode(answer, enc_hook=str)
