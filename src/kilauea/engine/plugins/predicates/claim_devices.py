"""The devices of the cluster in a session: their allocation, and the nodes with the devices that pods' claims request.

A device is free now if no claim holds it, and free later if only claims hold it whose pods are all terminating, have
ended or are evicted in this session. What the session gives to a claim is taken at once, so no two pods get a device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kilauea.api.cel import CelError
from kilauea.engine.model.claims.costs import SelectorsPending
from kilauea.engine.model.claims.facts import Ask, Demand, Grant, Reach
from kilauea.engine.model.claims.inventory import FEW, Inventory, Mask, Rows, Use
from kilauea.engine.model.claims.search import MOST_DEVICES, Choice, Search
from kilauea.engine.model.claims.table import Decision, ResourceClaimTable
from kilauea.engine.plugins.predicates.claim_questions import MOST_KNOWN, NOTHING, Found, Question, question_of
from kilauea.engine.plugins.predicates.claim_usage import Usage

FITS, LACKS, NEVER, LATER = 0, 1, 2, 4
"""Verdicts on a node: free now; in use; not present; in use until terminating pods have ended."""

Codes = NDArray[np.int8]
Ranks = NDArray[np.int32]
MOST_ALTERNATIVES = 8
"""Maximum number of alternatives in a request; the first scores this many points, each further one a point less."""


class Holdings:
    """Free devices, and the nodes with enough of them."""

    def __init__(self, table: ResourceClaimTable, inventory: Inventory) -> None:
        self._table = table
        self.inventory = inventory
        self.usage = Usage(inventory)
        self._masks: dict[Ask, Mask | None] = {}
        self._questions: dict[tuple[Demand, ...], Question] = {}

    # --- prepared demands

    def problem(self, demand: Demand, namespace: str) -> str:
        """The reason why no node can satisfy a demand, regardless of free devices; empty if one might.

        Selectors that have not been evaluated yet are evaluated for the namespace, as in `SelectorCosts`.
        """
        try:
            for request in demand.requests:
                problems = [self._problem_of(way, namespace) for way in request.ways]
                if all(problems):
                    return next(iter(problems), "")
        except SelectorsPending as error:
            return str(error)
        return ""

    def _problem_of(self, way: Ask, namespace: str | None = None) -> str:
        if way.problem:
            return way.problem
        of = self._table.classes.get(way.class_name)
        if of is None:
            return f"request {way.name}: device class {way.class_name} does not exist"
        if not way.all and way.number > MOST_DEVICES:
            return (
                f"request {way.name}: count {way.number} is more than the {MOST_DEVICES} devices that a claim may get"
            )
        try:
            self.inventory.matching(way, of, namespace)
        except SelectorsPending as error:
            raise SelectorsPending(f"request {way.name}: {error}") from error
        except CelError as error:
            return f"request {way.name}: a selector of it or of device class {of.name} cannot be used: {error}"
        return ""

    def mask(self, way: Ask) -> Mask | None:
        """(D,) devices that one way to satisfy a request accepts; None if it cannot be satisfied."""
        if way not in self._masks:
            try:
                usable = not self._problem_of(way)
            except SelectorsPending:
                usable = False
            self._masks[way] = self.inventory.matching(way, self._table.classes[way.class_name]) if usable else None
        return self._masks[way]

    def reads_shared(self, demand: Demand) -> bool:
        """Return True if the demand may be served by devices that several nodes reach."""
        masks = [self.mask(way) for request in demand.requests for way in request.ways]
        return any(mask is not None and bool(mask[rows].any()) for mask in masks for _, rows in self.inventory.shared)

    # --- verdicts

    def question(self, demands: Sequence[Demand]) -> Question:
        """Prepare the demands of one pod."""
        key = tuple(demands)
        known = self._questions.get(key)
        if known is None:
            asks = [way for demand in key for request in demand.requests for way in request.ways]
            masks = {way: mask for way in asks if (mask := self.mask(way)) is not None}
            known = self._questions[key] = question_of(key, masks, self.inventory)
        return known

    def verdicts(self, demands: Sequence[Demand], rows: Rows) -> tuple[Codes, Ranks]:
        """(n,) verdicts on the nodes in some rows for the demands of one pod, and the ranks of the alternatives."""
        question = self.question(demands)
        if len(rows) <= FEW:
            return self._verdicts_one_by_one(question, rows)
        ranks = np.zeros(len(rows), dtype=np.int32)
        codes = np.full(len(rows), NEVER, dtype=np.int8)
        codes[question.possible[rows]] = LACKS
        for verdict, now in ((LATER, False), (FITS, True)) if self.usage.is_moving else ((FITS, True),):
            fits = question.may(self.inventory, self.usage.free(now=now), rows) & (codes != NEVER)
            if not question.simple:
                for at in np.flatnonzero(fits).tolist():
                    rank = self._found(question, int(rows[at]), now=now).rank
                    fits[at] = rank >= 0
                    ranks[at] = rank if rank >= 0 else ranks[at]
            codes[fits] = verdict
        return codes, ranks

    def _verdicts_one_by_one(self, question: Question, rows: Rows) -> tuple[Codes, Ranks]:
        """As `verdicts`, from cached searches: a changed node has often become what others were before.

        Searches are worthwhile even on nodes for which counting is enough: a pod that is placed there needs their
        results.
        """
        codes, ranks = np.zeros(len(rows), dtype=np.int8), np.zeros(len(rows), dtype=np.int32)
        for at, row in enumerate(rows.tolist()):
            codes[at], ranks[at] = self.verdict(question, row)
        return codes, ranks

    def verdict(self, question: Question, node: int) -> tuple[int, int]:
        """The verdict on a node, and the rank of its alternatives."""
        if not question.possible[node]:
            return NEVER, 0
        for verdict, now in ((FITS, True), (LATER, False)) if self.usage.is_moving else ((FITS, True),):
            found = self._found(question, node, now=now)
            if found.rank >= 0:
                return verdict, found.rank
        return LACKS, 0

    def _found(self, question: Question, node: int, *, now: bool) -> Found:
        """Find devices for a question on a node. Nodes with equal devices are searched once."""
        state = self.inventory.likeness(node, self.usage.used[now])
        if state is None:
            return self._search(question, node, now=now)
        known = question.known.get(state)
        if known is None:
            if len(question.known) >= MOST_KNOWN:
                question.known.clear()
            known = question.known[state] = self._search(question, node, now=now)
        return known

    def _search(self, question: Question, node: int, *, now: bool) -> Found:
        """As `_found`, without the cache."""
        usage, here = self.usage, self.inventory.at(node)
        free, used, left = usage.free(now=now), usage.used[now], usage.left[now]
        choices = Search(self.inventory, question.demands, question.masks, here, free, used, left).run()
        if choices is None:
            return NOTHING
        first = self.inventory.starts[node]
        return Found(tuple(c._replace(device=c.device - first) for c in choices), _rank(question.demands, choices))

    # --- choosing

    def choose(self, question: Question, claims: int, node: int, *, now: bool) -> list[Decision] | None:
        """Return devices on a node for a pod with this many claims; None if there are not enough."""
        found = self._found(question, node, now=now)
        if found.rank < 0:
            return None
        if claims == 1:
            return [self._decision(found.choices, node)]
        return [self._decision([c for c in found.choices if c.claim == number], node) for number in range(claims)]

    def _decision(self, chosen: Sequence[Choice], node: int) -> Decision:
        inventory, first = self.inventory, self.inventory.starts[node]
        reaches = [inventory.devices[first + c.device].reach for c in chosen]
        if inventory.to_node and not inventory.to_node.isdisjoint(first + c.device for c in chosen):
            reaches.insert(0, Reach(inventory.nodes.facts[node].name))
        grants = [
            Grant(c.request, inventory.devices[first + c.device].id, c.admin, self._consumed(c, first)) for c in chosen
        ]
        rows = [first + c.device for c in chosen if not c.admin]
        amounts = [each for c in chosen for each in c.amounts]
        return Decision(tuple(grants), Use(tuple(rows), tuple(amounts)), tuple(dict.fromkeys(reaches)))

    def _consumed(self, choice: Choice, first: int) -> tuple[tuple[str, int], ...]:
        """Amounts of capacities, by name."""
        if not choice.amounts:
            return ()
        names = {counter: name for name, counter in self.inventory.capacities[first + choice.device].items()}
        return tuple((names[counter], amount) for counter, amount in choice.amounts)


def _rank(demands: Sequence[Demand], choices: Iterable[Choice]) -> int:
    """Points for the chosen alternatives: the earlier ones of a request score more."""
    chosen = {(choice.claim, choice.request) for choice in choices}
    return sum(
        max(MOST_ALTERNATIVES - place, 0)
        for claim, demand in enumerate(demands)
        for request in demand.requests
        for place, way in enumerate(request.ways)
        if way.name != request.name and (claim, way.name) in chosen
    )
