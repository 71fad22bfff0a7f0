"""Order of queues, as the text on capacity (seed 000) tells it: who is served first, and who loses first in a tree."""

from __future__ import annotations

from typing import Any

import pytest

from engine.documented.worked_example import (
    CLUSTER,
    amounts,
    before,
    flat_conf,
    holds,
    seven_queues,
    tree_conf,
    wants,
)
from kilauea.engine.model.queue_tree import build_queue_tree
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from support.builders import Data, Objects, binds, node, nominations, plan_of, plugin, queue
from support.probes import inside


def order(*objects: Objects, of: str, conf: Data) -> str:
    """These queues, blank between them, in the order in which they are served at the end of a cycle."""

    def ordered(session: Session) -> str:
        named = [session.queues[name] for name in of.split()]
        return " ".join(q.name for q in sorted(named, key=session.queue_key))

    return inside(*objects, do=ordered, conf=conf)


def losers(plan: Plan) -> list[str]:
    """Jobs that lose pods, one entry for each pod."""
    return sorted(e.pod.removeprefix("ns/").rsplit("-", 1)[0] for e in plan.evictions)


# --- section 4.2: queues side by side


SIDE_BY_SIDE = [
    pytest.param({"a": (0, 40, 30), "b": (0, 40, 10)}, "b a", id="the smaller share first"),
    pytest.param({"a": (1, 40, 50), "b": (0, 40, 10)}, "a b", id="the higher priority before that"),
    pytest.param({"a": (0, 0, 0), "b": (0, 40, 10)}, "b a", id="room left before a queue that deserves nothing"),
    pytest.param({"a": (0, 0, 0), "b": (0, 40, 40)}, "b a", id="even if it has just what it deserves"),
    pytest.param({"a": (0, 40, 50), "b": (0, 0, 10)}, "b a", id="but not if it has more"),
    pytest.param({"a": (0, 40, 10), "b": (0, 20, 5)}, "a b", id="equal shares: the older one"),
    pytest.param({"a": (0, 40, 0), "b": (0, 20, 5)}, "a b", id="who holds nothing is the first"),
]
"""By queue: priority, cores that it deserves, cores that it holds; and the order."""


@pytest.mark.parametrize("in_tree", [False, True])
@pytest.mark.parametrize(("given", "expected"), SIDE_BY_SIDE)
def test_order_of_queues(given: dict[str, tuple[int, int, int]], expected: str, in_tree: bool) -> None:
    """It is the same for queues side by side and for leaves of one parent."""
    queues = [
        queue(name, priority=priority, deserved=amounts(deserved), created=age)
        for age, (name, (priority, deserved, _)) in enumerate(given.items())
    ]
    jobs = [holds(f"{name}-job", name, held) for name, (_, _, held) in given.items() if held]
    how = tree_conf("") if in_tree else flat_conf("")
    assert order(CLUSTER, queue("root"), queues, jobs, of="a b", conf=how) == expected


# --- sections 4.3 and 7.3: the tree


def test_training_and_batch_are_compared_by_their_teams() -> None:
    """`team-a` has 55 of 60 then, `team-b` 30 of 40; `batch` itself has 20 of 30, less than either."""
    after = [before(), wants("new", "training", 10)]
    assert order(after, of="training batch", conf=tree_conf("allocate")) == "batch training"
    assert order(after, of="team-a team-b", conf=tree_conf("allocate")) == "team-b team-a"


def test_shares_of_the_leaves_do_not_count_where_their_teams_differ() -> None:
    """`batch` has 30 of 30 cores and `training` 30 of 40, but `team-b` has 30 of 40 and `team-a` 50 of 60."""
    held = [holds("t", "training", 10, 10, 10), holds("i", "inference", 20), holds("b", "batch", 30)]
    assert order(CLUSTER, seven_queues(), held, of="training batch", conf=tree_conf("")) == "batch training"


def test_inference_goes_before_training_at_that_step() -> None:
    after = [before(), wants("new", "training", 10)]
    assert order(after, of="training inference", conf=tree_conf("allocate")) == "inference training"


def test_the_next_pod_goes_by_that_order() -> None:
    """After a pod of `training` there is room for one more: that of `batch` gets it, and that of `inference` waits."""
    jobs = [wants(name, name, 10, created=age) for age, name in enumerate(("training", "batch", "inference"), 1)]
    filled = holds("other", "interactive", 5)
    plan = plan_of(before(), filled, jobs, conf=tree_conf("allocate"))
    assert sorted(binds(plan)) == ["batch-0", "training-0"]


def test_with_shares_of_the_opening_teams_are_equal_all_cycle() -> None:
    """As in Volcano: both teams stay at 0.75, and the older one goes first."""
    after = [before(), wants("new", "training", 10)]
    conf = tree_conf("allocate", ancestorShares="opening")
    assert order(after, of="training batch", conf=conf) == "training batch"


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param({"training": 30, "batch": 20}, "training batch", id="0.5 and 0.5: the older team"),
        pytest.param({"training": 36, "batch": 20}, "batch training", id="0.6 and 0.5"),
        pytest.param({"inference": 30, "interactive": 20}, "training batch", id="idle leaves of such teams"),
        pytest.param({"inference": 20, "interactive": 20}, "training batch", id="idle leaves, the teams differ"),
    ],
)
def test_equal_teams_are_told_apart_by_their_age_and_not_by_their_leaves(held: dict[str, int], expected: str) -> None:
    jobs = [holds(f"{name}-job", name, cores) for name, cores in held.items()]
    assert order(CLUSTER, seven_queues(), jobs, of="training batch", conf=tree_conf("")) == expected


def test_priority_is_looked_at_before_the_tree() -> None:
    urgent = [queue(q.name, priority=1, parent="team-a") for q in seven_queues() if q.name == "inference"]
    queues = [q for q in seven_queues() if q.name != "inference"]
    held = holds("t", "training", 50)
    assert order(CLUSTER, queues, urgent, held, of="batch inference", conf=tree_conf("")) == "inference batch"


@pytest.mark.parametrize(
    ("pair", "level"),
    [
        ("training inference", 1),
        ("training batch", 0),
        ("training team-b", 0),
        ("team-a team-b", 0),
        ("training training", 1),
    ],
)
def test_the_common_level_is_the_last_equal_place_in_the_two_lists_of_ancestors(pair: str, level: int) -> None:
    def common(session: Session) -> int:
        return build_queue_tree(session.queues).common_level(*pair.split())

    assert inside(CLUSTER, seven_queues(), do=common, conf=tree_conf("")) == level


# --- section 9: who loses first


FULL = [holds("t", "training", 10, 10, 10, 10, 10), holds("i", "inference", 10), holds("b", "batch", 10, 10, 10, 10)]
"""All of the 100 cores: 10 more than they deserve in `training` and in `batch`."""


@pytest.mark.parametrize(
    ("preemptor", "inference", "interactive", "expected"),
    [
        pytest.param("inference", 15, 10, ["t"], id="training is nearer to inference"),
        pytest.param("interactive", 20, 5, ["b"], id="batch is nearer to interactive"),
    ],
)
def test_the_queue_that_is_nearer_to_the_preemptor_loses_first(
    preemptor: str, inference: int, interactive: int, expected: list[str]
) -> None:
    """Of 115 cores `training` holds 50 and `batch` 40, 10 too many each, and their teams can spare 10 too."""
    cluster, leaves = (
        node("n", 115, "460Gi"),
        [holds("i", "inference", inference), holds("o", "interactive", interactive)],
    )
    full = [holds("t", "training", *[10] * 5), holds("b", "batch", *[10] * 4)]
    plan = plan_of(
        cluster, seven_queues(), full, leaves, wants("new", preemptor, 5), conf=tree_conf("allocate, reclaim")
    )
    assert (losers(plan), nominations(plan)) == (expected, {"new-0": "n"})


def test_when_the_nearer_one_has_no_more_to_give_the_next_one_loses() -> None:
    """`team-b` gets back its 10 cores after `inference` took the 10 that `training` had too much."""
    jobs = [wants("one", "inference", 10, created=1), wants("two", "interactive", 10, created=2)]
    plan = plan_of(CLUSTER, seven_queues(), FULL, jobs, conf=tree_conf("allocate, reclaim"))
    assert (losers(plan), sorted(nominations(plan))) == (["b", "t"], ["one-0", "two-0"])


def test_nearness_is_a_matter_of_the_tree_alone() -> None:
    """Side by side the queue that would be served last loses: `batch` has 40 of 30 cores, `training` 50 of 40."""
    leaves = [q for q in seven_queues() if not q.name.startswith(("root", "team"))]
    registered = inside(CLUSTER, leaves, do=lambda s: s.points.tiers_of("victim_queue_order"), conf=flat_conf(""))
    assert registered == []
    plan = plan_of(CLUSTER, leaves, FULL, wants("new", "inference", 10), conf=flat_conf("allocate, reclaim"))
    assert losers(plan) == ["b"]


def test_preempt_stays_in_the_queue_of_the_preemptor() -> None:
    conf: dict[str, Any] = tree_conf("allocate, preempt")
    conf["tiers"][0]["plugins"].append(plugin("priority"))
    plan = plan_of(CLUSTER, seven_queues(), FULL, wants("new", "inference", 10), conf=conf)
    assert (plan.evictions, plan.nominations) == ((), ())
