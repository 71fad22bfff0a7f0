"""Regular expressions of HyperNodes and of definitions, matched in time that is linear in the length of a text.

The original's expressions are RE2's, which never tries a name twice. Python's `re` does: `(a+)+$` takes it a minute for
a name of thirty letters, and twice as long with every further one. Patterns that leave it little choice go to `re` all
the same, which is quick for them. The others become an automaton that follows all ways through the pattern at once and
remembers its steps.

What RE2 does not have, look-around and references to groups, is refused. Syntax that only RE2 has is refused as well:
an object that is left out and named is better than one that means something else.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

LONGEST = 4096
"""Longest pattern, in characters."""
MOST_REPEATS = 1000
"""Highest count of a repetition, as in RE2."""
MOST_STEPS = 2000
"""Largest automaton, in steps; what is repeated with a bound counts as often as it is repeated."""
MOST_STATES = 1000
"""States that an automaton remembers before it starts over."""

# How `re` reads a pattern, as a tree. The module has no public name; `test_patterns` fails if it changes.
_parser: Any = importlib.import_module("re._parser")
_FEW_CHOICES = 2
_KEPT_FLAGS = re.IGNORECASE | re.DOTALL | re.MULTILINE | re.ASCII
_WORD = re.compile(r"\w", re.ASCII)
_FOREIGN = {
    "ASSERT": "look-around",
    "ASSERT_NOT": "look-around",
    "GROUPREF": "a reference to a group",
    "GROUPREF_EXISTS": "a reference to a group",
    "GROUPREF_IGNORE": "a reference to a group",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive repetition",
}
_CLASSES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


class Pattern(Protocol):
    """A pattern that finds nodes, or tests a text."""

    def search(self, name: str, /) -> object:
        """Something true if the name contains a match."""


@lru_cache(maxsize=4096)
def pattern_of(text: str) -> Pattern:
    """The pattern that a text stands for.

    Raises:
        ValueError: it is not a regular expression, not one that RE2 has, or too large.
    """
    if len(text) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} characters")
    try:
        with warnings.catch_warnings():
            # What `re` warns of, such as [[:digit:]], has another meaning in RE2.
            warnings.simplefilter("error")
            tree = _parser.parse(text, re.ASCII)
            if _choices(tree, False) <= _FEW_CHOICES:
                return re.compile(text, re.ASCII)
            return _Automaton(_Program(tree, tree.state.flags & _KEPT_FLAGS).steps)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except (re.error, OverflowError, FutureWarning, DeprecationWarning) as error:
        raise ValueError(str(error)) from None


def _choices(tree: Any, repeated: bool) -> float:
    """The number of times that a pattern has more than one way to go on; infinite in a loop.

    Raises:
        ValueError: it holds what RE2 does not have.
    """
    found = 0.0
    for operator, value in tree:
        name = str(operator)
        if name in _FOREIGN:
            raise ValueError(f"it holds {_FOREIGN[name]}, which RE2 does not have")
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = value
            if any(MOST_REPEATS < count < _parser.MAXREPEAT for count in (least, most)):
                raise ValueError(f"it repeats something more than {MOST_REPEATS} times")
            found += (least != most) + _choices(inner, True)
            if inner.getwidth()[0] == 0:
                found = float("inf")  # how often nothing is repeated leaves a choice, too
        elif name == "BRANCH":
            found += 1 + sum(_choices(part, repeated) for part in value[1])
        elif name == "SUBPATTERN":
            found += _choices(value[-1], repeated)
        if repeated and found:
            return float("inf")
    return found


# --- a pattern as a program, and the automaton that runs it


class _Step(NamedTuple):
    """One step: take a character (`takes`), or hold only at some places (`holds`), or neither; then go on at `to`.

    The step that goes nowhere is the end: a match.
    """

    to: tuple[int, ...]
    takes: Callable[[str], object] | None = None
    holds: Callable[[str, str], bool] | None = None
    """Of the character before the place and the one behind it, empty at the ends of the name."""


class _Program:
    """Makes the steps of a pattern, from its end to its beginning; the last step made is the first to take."""

    def __init__(self, tree: Any, flags: int) -> None:
        self.steps = [_Step(())]
        first = self._sequence(tree, flags, 0)
        self._add(_Step((first,)))

    def _add(self, step: _Step) -> int:
        if len(self.steps) >= MOST_STEPS:
            raise ValueError(f"it is too large: more than {MOST_STEPS} steps, counting what is repeated each time")
        self.steps.append(step)
        return len(self.steps) - 1

    def _sequence(self, tree: Iterable[Any], flags: int, to: int) -> int:
        """The first of the steps that match a tree and then go on at `to`."""
        for operator, value in reversed(list(tree)):
            to = self._one(str(operator), value, flags, to)
        return to

    def _one(self, name: str, value: Any, flags: int, to: int) -> int:
        if name == "SUBPATTERN":
            _, more, less, inner = value
            return self._sequence(inner, (flags | more) & ~less & _KEPT_FLAGS, to)
        if name == "BRANCH":
            return self._add(_Step(tuple(self._sequence(part, flags, to) for part in value[1])))
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat(value, flags, to)
        if name == "AT":
            return self._add(_Step((to,), holds=_place(str(value), flags)))
        return self._add(_Step((to,), takes=re.compile(_one_character(name, value), flags).fullmatch))

    def _repeat(self, value: Any, flags: int, to: int) -> int:
        least, most, inner = value
        if most == _parser.MAXREPEAT:
            around = self._add(_Step((to,)))
            self.steps[around] = _Step((self._sequence(inner, flags, around), to))
            to = around
        else:
            end = to
            for _ in range(most - least):
                to = self._add(_Step((self._sequence(inner, flags, to), end)))
        for _ in range(least):
            before, to = to, self._sequence(inner, flags, to)
            if to == before:
                break  # nothing, however often
        return to


def _one_character(name: str, value: Any) -> str:
    """The expression for a part of a tree that takes one character."""
    if name == "ANY":
        return "."
    if name == "LITERAL":
        return _literal(value)
    if name == "NOT_LITERAL":
        return f"[^{_literal(value)}]"
    parts = []
    for operator, given in value:
        kind = str(operator)
        if kind == "RANGE":
            parts.append(f"{_literal(given[0])}-{_literal(given[1])}")
        else:
            parts.append({"NEGATE": "^", "LITERAL": ""}.get(kind) or _CLASSES.get(str(given)) or _literal(given))
    return f"[{''.join(parts)}]"


def _literal(code: int) -> str:
    return f"\\U{code:08x}"


def _place(name: str, flags: int) -> Callable[[str, str], bool]:
    """Return the test of a position."""
    if name in ("AT_BOUNDARY", "AT_NON_BOUNDARY"):
        wanted = name == "AT_BOUNDARY"
        return lambda before, behind: (bool(_WORD.match(before)) != bool(_WORD.match(behind))) == wanted
    ends = ("", "\n") if flags & re.MULTILINE and name in ("AT_BEGINNING", "AT_END") else ("",)
    if name in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
        return lambda before, _: before in ends
    return lambda _, behind: behind in ends


_MATCHED, _UNKNOWN = -1, -2
_State = tuple[frozenset[int], str]
"""The steps that may come next, and the character before them, as far as steps care for it."""


class _Automaton:
    """Follows all ways through a program at once; a state stands for all of them, and is worked out when first met."""

    def __init__(self, steps: list[_Step]) -> None:
        self._steps = steps
        self._looks_back = any(step.holds for step in steps)
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[_State, int] = {}
        self._states: list[_State] = []
        self._next: list[dict[str, int]] = []
        self._number(frozenset({len(self._steps) - 1}), "")

    def _number(self, ways: frozenset[int], before: str) -> int:
        state = (ways, before if self._looks_back else "")
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            self._next.append({})
        return number

    def search(self, name: str) -> bool:
        """Return True if the name contains a match."""
        if len(self._states) > MOST_STATES:
            self._forget()
        at = 0
        for character in (*name, ""):
            known = self._next[at].get(character, _UNKNOWN)
            at = self._step(at, character) if known == _UNKNOWN else known
            if at == _MATCHED:
                return True
        return False

    def _step(self, at: int, character: str) -> int:
        """The state after a character; the empty one is the end of the name."""
        ways, before = self._states[at]
        waiting, seen, taken = list(ways), set(ways), {len(self._steps) - 1}
        while waiting:
            step = self._steps[waiting.pop()]
            if not step.to:
                self._next[at][character] = _MATCHED
                return _MATCHED
            if step.takes is not None:
                if character and step.takes(character):
                    taken.update(step.to)
            elif step.holds is None or step.holds(before, character):
                waiting.extend(to for to in step.to if to not in seen)
                seen.update(step.to)
        after = self._next[at][character] = self._number(frozenset(taken), character)
        return after
