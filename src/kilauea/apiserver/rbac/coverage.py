"""Comparison of rules: finds those that allow more than others, regardless of the number of combinations.

Users who may write roles may write ten thousand rules, whose comparison with as many takes minutes. So larger ones are
compared in another process (`heavy`), in limited time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from itertools import product
from math import prod
from operator import and_, or_

import msgspec

from kilauea.apiserver.deferred import deferred
from kilauea.apiserver.rbac.paths import is_below
from kilauea.apiserver.rbac.records import PolicyRule

LIGHT, LIGHT_HELD = 20_000, 10_000
"""Weight of rules, and words of the held rules, up to which they are compared at once, in ten milliseconds."""
_EACH = 10
"""Minimum weight of a rule."""
_ANY = "*"
_decode = msgspec.json.Decoder(tuple[list[PolicyRule], list[PolicyRule]]).decode


def missing_of(rules: Sequence[PolicyRule], held: Sequence[PolicyRule]) -> list[PolicyRule] | None:
    """Return the rules that allow more than the held ones; None if the comparison takes too long.

    Raises:
        Deferred: the comparison runs in another process and is not finished yet.
    """
    if sum(map(_weight, rules)) <= LIGHT and sum(sum(map(len, _words(each))) for each in held) <= LIGHT_HELD:
        return [rules[number] for number in _missing(rules, held)]
    answer = deferred(msgspec.json.encode((rules, held)), "compare rights")
    return [rules[number] for number in msgspec.json.decode(answer)] if answer else None


def compare_rights(question: bytes) -> bytes:
    """Return the indexes of the rules that allow more than the held ones."""
    return msgspec.json.encode(_missing(*_decode(question)))


def _missing(rules: Iterable[PolicyRule], held: Iterable[PolicyRule]) -> list[int]:
    ours = Held(held)
    return [number for number, rule in enumerate(rules) if not ours.covers(rule)]


def _words(rule: PolicyRule) -> tuple[Collection[str], ...]:
    return rule.verbs, rule.api_groups, rule.resources, rule.resource_names, rule.non_resource_urls


def _weight(rule: PolicyRule) -> int:
    """Return the weight of a rule: its combinations, and the pairs of its words of one kind."""
    numbers = [max(len(each), 1) for each in _words(rule)]
    return _EACH + max(prod(numbers), max(numbers) ** 2)


class Held:
    """The rules of a user, each as a bit of an integer.

    A rule allows each combination of its verbs, groups, resources and names: 300 of each are 27 million actions. So the
    words of one kind are reduced to the few distinct sets of held rules that have them.
    """

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        parts = (_Sets(), _Sets(), _Sets(), _Sets(), _Sets())
        self._verbs, self._groups, self._resources, self._names, self._paths = parts
        self._any_name = 0
        for number, rule in enumerate(rules):
            for sets, words in zip(parts, _words(rule), strict=True):
                sets.add(words, 1 << number)
            if not rule.resource_names:
                self._any_name |= 1 << number

    def covers(self, rule: PolicyRule) -> bool:
        """Return True if a held rule allows each action that a rule allows."""
        verbs = _smallest(self._verbs.of(each, _ANY) for each in rule.verbs)
        named = (self._any_name | self._names.of(each) for each in rule.resource_names)
        names = _smallest(named) if rule.resource_names else [self._any_name]
        resources = (
            _smallest(self._groups.of(each, _ANY) for each in rule.api_groups),
            _smallest(self._resources.of(each, _ANY, *_as_subresource(each)) for each in rule.resources),
            names,
        )
        paths = _smallest(self._paths.below(each) for each in rule.non_resource_urls)
        return all(map(_common, product(verbs, *resources))) and all(map(_common, product(verbs, paths)))


class _Sets:
    """The rules that have each word, as bits of an integer."""

    def __init__(self) -> None:
        self._sets: dict[str, int] = {}

    def add(self, words: Iterable[str], rule: int) -> None:
        """Add the words of a rule."""
        for word in words:
            self._sets[word] = self._sets.get(word, 0) | rule

    def of(self, *words: str) -> int:
        """Return the rules that have one of some words."""
        return reduce(or_, (self._sets.get(word, 0) for word in words))

    def below(self, path: str) -> int:
        """Return the rules with this path or one above it."""
        return reduce(or_, (rules for pattern, rules in self._sets.items() if is_below(path, pattern)), 0)


def _smallest(sets: Iterable[int]) -> list[int]:
    """Return the sets that do not contain another one."""
    found = set(sets)
    return [each for each in found if not any(other != each and other & each == other for other in found)]


def _as_subresource(resource: str) -> tuple[str, ...]:
    """Return the name in rules for a subresource of any resource."""
    subresource = resource.partition("/")[2]
    return (f"{_ANY}/{subresource}",) if subresource else ()


def _common(sets: Iterable[int]) -> bool:
    return reduce(and_, sets) != 0
