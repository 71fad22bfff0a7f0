"""Evaluation of expressions for one write, within a common cost limit.

What costs little is evaluated at once. What costs more is evaluated again in another process, so that no write holds up
other requests. The authorizer is here: a question to it ends the evaluation there, which is done again with the answer.
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
"""Cost that the expressions of a policy may have together, for one binding and one object of parameters."""
COST_OF_CONDITIONS = 2_500_000
"""Cost that match conditions may have together."""
LIGHT_COST = 40_000
"""Cost of an expression that is evaluated at once: some ten milliseconds."""
COST_OF_START = 100
"""Cost of an expression besides its own, of getting ready for it."""
_VARIABLE = re.compile(r"\bvariables\.([A-Za-z_]\w*)")
LONGEST_AT_ONCE = 5_000
"""Characters of an expression that is compiled here."""
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


class Pace(Protocol):
    """The pace of the evaluations that belong to one write, however many expressions there are."""

    async def spend(self, cost: int) -> None:
        """Let others have their turn, once much has been spent since they had one."""

    def rest(self) -> None:
        """Let others go on, as the write waits."""


class Evaluation(Expressions):
    """Expressions that are evaluated where they hold up nothing.

    Args:
        values: the variables.
        composed: expressions by name.
        heavy: evaluates what costs much.
        pace: lets others have their turn.
    """

    def __init__(self, values: dict[str, Any], composed: Sequence[Raw], heavy: Heavy, pace: Pace) -> None:
        super().__init__(values, composed, LIGHT_COST)
        self._heavy = heavy
        self._pace = pace

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression; raises as `run`."""
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
            raise  # this says nothing about the expression: the client may try again
        except TooHeavy as error:
            raise ConditionError(f"expression '{asked.expression.strip()}' resulted in error: {error}") from error


class _Asked(msgspec.Struct):
    """An expression to evaluate in another process.

    Attributes:
        expression: its text.
        composed: expressions by name.
        values: the variables, except the authorizer.
        left: the cost that is left for the expressions.
        place: what the request is about, for the authorizer; None if there is none.
        known: the questions to the authorizer that are answered.
    """

    expression: str
    composed: Sequence[Raw]
    values: dict[str, Any]
    left: int
    place: Place | None
    known: list[tuple[Question, Decision]] = []


class _Answer(msgspec.Struct):
    """The value of an expression, its error, or the question to which it needs the answer first."""

    left: int
    value: Any = None
    error: str = ""
    out: bool = False
    question: Question | None = None


class _Unanswered(Exception):
    """A question to the authorizer, which is in another process."""

    def __init__(self, question: Question) -> None:
        super().__init__("a question to the authorizer")
        self.question = question


class _Known:
    """Answers the questions that were answered elsewhere."""

    def __init__(self, known: Sequence[tuple[Question, Decision]]) -> None:
        self._known = dict(known)

    def __call__(self, question: Question) -> Decision:
        """Return the answer to a question.

        Raises:
            _Unanswered: it is not known.
        """
        if question not in self._known:
            raise _Unanswered(question)
        return self._known[question]


def evaluate_elsewhere(data: bytes) -> bytes:
    """Evaluate an expression; in a process of its own."""
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
