"""The engine against the scalar reference: the same nodes fit, and the chosen one is the first among the best."""

from __future__ import annotations

from hypothesis import given, settings

from builders import Data, conf, flat, manifest, plan_in, plugin, state_of
from engine import reference
from engine.clusters import Puzzle, arguments_of, puzzles
from engine.probes import full
from kilauea.api.meta import Object
from kilauea.engine.model.nodes import natural
from kilauea.engine.plan import Plan


def plan_with(objects: list[Object], weights: dict[str, int]) -> Plan:
    scorers = [plugin(name, arguments) for name, arguments in arguments_of(weights).items()]
    return plan_in(state_of(objects), conf("allocate", ["gang"], ["predicates", *scorers]))


def replay(objects: list[Object], weights: dict[str, int], plan: Plan) -> None:
    """Follow the plan pod by pod: each choice has to be what the reference would choose at that moment."""
    world = reference.World()
    manifests: list[Data] = [manifest(o) for o in flat(objects)]
    for data in manifests:
        world.take(data)
    now = {b.pod: b.node for b in plan.binds}
    later = {n.pod: n.node for n in plan.nominations}
    for data in manifests:
        name = data["metadata"]["name"]
        if not name.startswith("g-w-"):
            continue
        fit, has_room = reference.candidates(world, data)
        chosen = (now if has_room else later).get(full(name))
        other = (later if has_room else now).get(full(name))
        assert other is None, f"{name} is on {other}; it could be on {fit}, {'now' if has_room else 'later'}"
        assert (chosen is not None) == bool(fit), f"{name} is on {chosen}; it could be on {fit}"
        if chosen is not None:
            check_choice(world, data, fit, chosen, weights)
            world.placed.append(reference.Placed(data, chosen, promised=not has_room))


def check_choice(world: reference.World, pod: Data, fit: list[str], chosen: str, weights: dict[str, int]) -> None:
    assert chosen in fit
    scores = reference.scores(world, pod, fit, weights)
    best = max(scores.values())
    first = min((name for name, score in scores.items() if score == best), key=natural)
    if chosen == first:
        return
    told = {name: float(score) for name, score in scores.items()}
    assert weights["binpack"], f"{chosen} is not the first of the best: {told}"
    assert abs(scores[chosen] - best) < 1e-9, f"{chosen} is not among the best: {told}"


@settings(max_examples=8 * settings.default.max_examples)
@given(puzzles())
def test_every_choice_is_that_of_the_reference(puzzle: Puzzle) -> None:
    replay(puzzle.objects, puzzle.weights, plan_with(puzzle.objects, puzzle.weights))
