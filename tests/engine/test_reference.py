"""The engine against the scalar reference: the same nodes fit, with the same scores, and the first of the best is it.

Each puzzle is planned twice, as usual and with a plugin that watches the scores. Then the plan is replayed pod by pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given, settings

from kilauea.engine.model.nodes import natural
from support import reference
from support.builders import Data, conf, manifest, plan_in, plugin, state_of
from support.clusters import Puzzle, arguments_of, puzzles
from support.probes import choices, full


def watched_plan(puzzle: Puzzle) -> tuple[dict[str, str], dict[str, str], list[dict[str, float]]]:
    """Where pods start, where they are promised room, and the scores at each choice."""
    scorers = [plugin(name, arguments) for name, arguments in arguments_of(puzzle.weights).items()]
    with_scorers = conf("allocate", ["gang"], ["predicates", *scorers])
    seen, plan = choices(puzzle.objects, conf=with_scorers)
    assert plan == plan_in(state_of(puzzle.objects), with_scorers)
    return {b.pod: b.node for b in plan.binds}, {n.pod: n.node for n in plan.nominations}, seen


def replay(puzzle: Puzzle) -> None:
    """Follow the plan pod by pod: each choice has to be what the reference would choose at that moment."""
    now, later, seen = watched_plan(puzzle)
    world = reference.World()
    manifests: list[Data] = [manifest(o) for o in puzzle.objects]
    for data in manifests:
        world.take(data)
    for data in manifests:
        name = data["metadata"]["name"]
        if not name.startswith("g-w-"):
            continue
        fit, has_room = reference.candidates(world, data)
        chosen, other = (later, now)[has_room].get(full(name)), (now, later)[has_room].get(full(name))
        assert other is None, f"{name} is on {other}; it could be on {fit}, {'now' if has_room else 'later'}"
        assert (chosen is not None) == bool(fit), f"{name} is on {chosen}; it could be on {fit}"
        if chosen is not None:
            check_choice(reference.scores(world, data, fit, puzzle.weights), chosen, seen)
            world.placed.append(reference.Placed(data, chosen, promised=not has_room))
    assert seen == []


def check_choice(scores: Mapping[str, Fraction], chosen: str, seen: list[dict[str, float]]) -> None:
    """The node is the first of the best, and the engine's scores are the reference's, up to what all have in common."""
    told = {name: float(score) for name, score in scores.items()}
    assert chosen in scores, f"{chosen} is none of {told}"
    if len(scores) > 1:
        found = seen.pop(0)
        assert relative(found, chosen) == pytest.approx(relative(told, chosen), rel=1e-9, abs=1e-9)
    first = min((name for name, score in scores.items() if score == max(scores.values())), key=natural)
    assert chosen == first, f"{chosen} is not the first of the best: {told}"


def relative(scores: Mapping[str, float], to: str) -> dict[str, float]:
    return {name: score - scores[to] for name, score in scores.items()}


@pytest.mark.slow
@settings(max_examples=8 * settings().max_examples)
@given(puzzles())
def test_every_choice_is_that_of_the_reference(puzzle: Puzzle) -> None:
    replay(puzzle)
