"""Groups that could start do not wait for the turns of those that gave their admission back and still do not fit."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kilauea.api.meta import Object
from kilauea.api.times import SECOND
from kilauea.engine.model.attempts import AdmissionBackoff, Attempt
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.placement import trials
from kilauea.engine.placement.admission_backoff import FRUITLESS
from kilauea.engine.placement.trials import could_be_placed
from kilauea.engine.session import Session
from support.builders import conf, flat, group, node, parsed, pod, priority_class, queue
from support.life import Life, asking

MINUTE = FRUITLESS // SECOND
HOPELESS: dict[str, Any] = {"nodeSelector": {"no": "such"}}
TREE = parsed(
    conf(
        "enqueue, allocate, backfill",
        ["priority", "gang"],
        ["predicates", {"name": "capacity", "enableHierarchy": True}],
    )
)[0]
FLAT = parsed(conf("enqueue, allocate, backfill", ["priority", "gang"], ["predicates", "capacity"]))[0]
PROPORTION = parsed(conf("enqueue, allocate, backfill", ["priority", "gang"], ["predicates", "proportion"]))[0]
OVERCOMMIT = parsed(
    conf(
        "enqueue, allocate, backfill",
        ["priority", "gang", {"name": "overcommit", "arguments": {"overcommit-factor": 1.0}}],
        ["predicates"],
    )
)[0]


def ranked(name: str, cpu: int, priority: str, created: int = 0, *, to: str = "q", **of_pod: Any) -> list[Object]:
    """A group of one pod with a class of priority."""
    return [
        group(name, to, resources={"cpu": str(cpu)}, phase=None, created=created, priority=priority),
        pod(f"{name}-0", name, cpu=cpu, created=created, **of_pod),
    ]


def seconds_until_placed(life: Life, name: str, most: int = 1000) -> int:
    """Seconds after which a pod is on a node."""
    return next((n for n in range(1, most) if name in life.run(1).placed()), most)


def hopeless(count: int, cpu: int = 4) -> list[Object]:
    return flat([asking(f"lost{n:02}", cpu, created=n, **HOPELESS) for n in range(count)])


@pytest.mark.parametrize("conf", [FLAT, TREE, PROPORTION, OVERCOMMIT], ids=["flat", "tree", "proportion", "overcommit"])
@pytest.mark.parametrize("count", [1, 2, 50])
def test_a_gang_that_fits_waits_for_one_turn_however_many_do_not_fit(conf: Any, count: int) -> None:
    below: dict[str, Any] = {"parent": "root"} if conf is TREE else {}
    limits = queue(capability={"cpu": "4"}, **below)
    root = [queue("root", None)] if conf is TREE else []
    life = Life(root, limits, node("n1", cpu=4), hopeless(count), asking("fits", 4, created=count), conf=conf)
    assert seconds_until_placed(life, "fits-0") <= MINUTE + 2


def in_queues(*queues: str, conf: Any = TREE) -> Life:
    """A cluster of four cores; in each queue a group that does not fit, and in the last one that does and came last."""
    limits = [queue("root", None), *(queue(name, None, parent="root", deserved={"cpu": "4"}) for name in queues)]
    lost = flat([asking(f"lost-{name}", 4, to=name, created=n, **HOPELESS) for n, name in enumerate(queues)])
    return Life(limits, node("n1", cpu=4), lost, asking("fits", 4, to=queues[-1], created=9), conf=conf)


@pytest.mark.parametrize("count", [2, 12])
def test_a_gang_that_fits_waits_for_one_turn_however_many_queues_have_some_that_do_not(count: int) -> None:
    life = in_queues(*(f"q{n}" for n in range(count)))
    assert seconds_until_placed(life, "fits-0") <= MINUTE + 2


@pytest.mark.parametrize("count", [4, 12])
def test_a_gang_that_fits_waits_for_three_turns_however_many_queues_of_a_higher_priority_have_some_that_do_not(
    count: int,
) -> None:
    limits = [queue(f"q{n}", None, parent="root", priority=100 - n) for n in range(count)]
    lost = flat([asking(f"lost-{n}", 4, to=f"q{n}", **HOPELESS) for n in range(count)])
    fits = [queue("last", None, parent="root", priority=0), *asking("fits", 4, to="last")]
    life = Life(queue("root", None), limits, node("n1", cpu=4), lost, fits, conf=TREE)
    assert MINUTE + 2 < seconds_until_placed(life, "fits-0") <= 3 * (MINUTE + 2)


@pytest.mark.parametrize("count", [4, 12])
def test_a_gang_that_fits_waits_for_three_turns_however_many_priorities_are_above_it(count: int) -> None:
    classes = [priority_class(f"p{n}", 1000 - n) for n in range(count + 1)]
    lost = flat([ranked(f"lost-{n}", 4, f"p{n}", **HOPELESS) for n in range(count)])
    life = Life(classes, queue(capability={"cpu": "4"}), node("n1", cpu=4), lost, ranked("fits", 4, f"p{count}"))
    assert MINUTE + 2 < seconds_until_placed(life, "fits-0") <= 3 * (MINUTE + 2)


def different(count: int, cpu: int = 4) -> list[Object]:
    """Groups that do not fit, each for another reason."""
    return flat([asking(f"lost{n:04}", cpu, created=n, nodeSelector={"no": f"such-{n}"}) for n in range(count)])


def test_a_cycle_makes_a_bounded_number_of_trials_however_many_groups_ask_for_different_things(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []

    def counting(session: Session, queue: Queue, job: Job) -> bool:
        tried.append(job.key)
        return could_be_placed(session, queue, job)

    monkeypatch.setattr(trials, "could_be_placed", counting)
    monkeypatch.setattr(trials, "TRIALS", 10)
    count = 25
    life = Life(queue(capability={"cpu": str(8 * count)}), node("n1", cpu=4), different(count))
    life.backoff = AdmissionBackoff(
        attempts={
            key: Attempt(job.creation, since=0, times=1, until=999 * SECOND) for key, job in life.state.jobs.items()
        }
    )
    rounds = list[set[str]]()
    for _ in range(6):
        life.run(1)
        assert len(tried) <= trials.TRIALS
        rounds.append(set(tried))
        tried.clear()
    assert rounds[0] | rounds[1] | rounds[2] == rounds[3] | rounds[4] | rounds[5] == set(life.state.jobs)
    assert not rounds[0] & rounds[1]


def given_back(life: Life) -> None:
    """Every group that waits has given its admission back, and is not admitted without a change for a long time."""
    held = {key: Attempt(job.creation, since=0, times=1, until=999 * SECOND) for key, job in life.state.jobs.items()}
    life.backoff = dataclasses.replace(life.backoff, attempts=held)


def test_each_group_has_its_trial_within_few_cycles_however_many_come_before_it_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []

    def counting(session: Session, queue: Queue, job: Job) -> bool:
        tried.append(job.name)
        return could_be_placed(session, queue, job)

    monkeypatch.setattr(trials, "could_be_placed", counting)
    monkeypatch.setattr(trials, "TRIALS", 5)
    old = [f"old{n}" for n in range(12)]
    made = flat([asking(name, 4, created=500, nodeSelector={"no": name}) for name in old])
    life = Life(queue(capability={"cpu": "999"}), node("n1", cpu=4), made)
    seen = list[set[str]]()
    for second in range(9):
        for n in range(6):  # they are older, so it is their turn first
            name = f"new{second}-{n}"
            life.apply(*flat(asking(name, 4, created=second, nodeSelector={"no": name})))
        given_back(life)
        life.run(1)
        assert len(tried) <= trials.TRIALS
        seen.append(set(tried))
        tried.clear()
    first, later = set.union(*seen[1:5]), set.union(*seen)
    assert set(old) <= first
    assert {f"new{second}-{n}" for second in range(3) for n in range(6)} <= later


def test_a_group_whose_pods_all_ask_for_more_than_any_node_has_left_needs_no_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []

    def counting(session: Session, queue: Queue, job: Job) -> bool:
        tried.append(job.name)
        return could_be_placed(session, queue, job)

    monkeypatch.setattr(trials, "could_be_placed", counting)
    monkeypatch.setattr(trials, "TRIALS", 1)
    full = [group("full", phase="Running"), pod("full-0", "full", cpu=3, node="n1")]
    large = flat([asking(f"large{n}", 2 + n, created=n) for n in range(8)])
    life = Life(queue(capability={"cpu": "999"}), node("n1", cpu=4), full, large, asking("fits", 1, created=99))
    given_back(life)
    life.run(1)
    assert (tried, life.placed()) == (["fits"], {"full-0", "fits-0"})


def test_groups_that_ask_for_the_same_share_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def counting(session: Session, queue: Queue, job: Job) -> bool:
        tried.append(job.key)
        return could_be_placed(session, queue, job)

    monkeypatch.setattr(trials, "could_be_placed", counting)
    life = Life(queue(capability={"cpu": "800"}), node("n1", cpu=4), hopeless(50), asking("fits", 4, created=99))
    life.backoff = AdmissionBackoff(
        attempts={
            key: Attempt(job.creation, since=0, times=1, until=999 * SECOND) for key, job in life.state.jobs.items()
        }
    )
    life.run(1)
    assert len(tried) == 2
    assert life.placed() == {"fits-0"}


@pytest.mark.slow
def test_a_gang_that_fits_is_found_among_many_that_do_not_while_they_hold_its_quota(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More groups than a cycle tries: the gang has its trial within a few cycles, and the next quota that is free."""
    monkeypatch.setattr(trials, "TRIALS", 10)
    count = 45
    life = Life(queue(capability={"cpu": "4"}), node("n1", cpu=4), different(count), asking("fits", 4, created=count))
    assert seconds_until_placed(life, "fits-0") <= 2 * MINUTE + 4


@pytest.mark.slow
def test_one_that_gave_back_before_goes_before_those_whose_time_has_come_again() -> None:
    """It did not fit when it was its turn; it does when others that take turns have had theirs."""
    full = [group("full", phase="Running"), pod("full-0", "full", cpu=4, node="n1")]
    lost = flat([asking(f"lost-{name}", 4, to=name, created=n, **HOPELESS) for n, name in enumerate("ab")])
    life = Life(
        [queue("root", None), *(queue(name, None, parent="root") for name in "abc")],
        [node("n1", cpu=4), node("n2", cpu=4, unschedulable=True)],
        full,
        lost,
        asking("fits", 4, to="c", created=9),
        conf=TREE,
    )
    life.run(10 * MINUTE)
    life.delete("full-0")
    assert seconds_until_placed(life, "fits-0") <= MINUTE + 2


@pytest.mark.slow
def test_many_small_ones_that_do_not_fit_hand_their_quota_to_a_large_one_that_does() -> None:
    """They give back one after the other; what one gives back does not go to the next before the large one has it."""
    life = Life(queue(capability={"cpu": "12"}), node("n1", cpu=12), hopeless(1)).run(20)
    for n in range(1, 9):
        life.apply(asking(f"lost-{n}", 4, created=n, **HOPELESS))
        life.run(20)
    life.run(10 * MINUTE)
    life.apply(asking("fits", 8, created=99))
    assert seconds_until_placed(life, "fits-0") <= MINUTE + 2


@pytest.mark.slow
def test_what_votes_refuse_for_ever_does_not_keep_others_from_their_turns() -> None:
    """A gang fits on the nodes, and its queue would have no quota for it with nothing else admitted."""
    life = Life(
        queue(capability={"cpu": "4"}),
        node("n1", cpu=8),
        hopeless(4, 2),
        group("never", resources={"cpu": "5"}, phase=None, created=20),
        pod("never-0", "never", cpu=1, created=20),
    )
    life.run(5 * MINUTE)
    turns = set[int]()
    for _ in range(15 * MINUTE):
        life.run(1)
        turns |= {n for n in range(4) if life.phase(f"lost{n:02}") == "Inqueue"}
    assert turns == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("lost", "late", "first"),
    [("high", "low", "lost"), ("low", "low", "late"), ("low", "high", "late")],
)
def test_a_lower_priority_does_not_pass_one_whose_time_has_come(lost: str, late: str, first: str) -> None:
    classes = [priority_class("high", 1000), priority_class("low", 10)]
    wants = flat([ranked("lost", 4, lost, **HOPELESS), ranked("late", 4, late, 1)])
    assert admitted_first(Life(classes, queue(capability={"cpu": "4"}), node("n1"), wants)) == {first}


@pytest.mark.parametrize(("other", "first"), [(0, "late"), (-1, "lost")])
def test_a_queue_of_a_lower_priority_does_not_pass_one_whose_time_has_come(other: int, first: str) -> None:
    queues = [queue("root", None), queue(parent="root", priority=0), queue("other", parent="root", priority=other)]
    life = Life(queues, node("n1"), asking("lost", 4, **HOPELESS), asking("late", 4, created=1, to="other"), conf=TREE)
    assert admitted_first(life) == {first}


def test_one_whose_pods_have_not_come_has_its_turn() -> None:
    """Pods of Volcano's jobs are made once their group is admitted, so whether they fit is not known before."""
    coming = group("coming", resources={"cpu": "4"}, phase=None, created=1)
    life = Life(queue(capability={"cpu": "4"}), node("n1"), asking("lost", 4, **HOPELESS), coming)
    life.apply(asking("late", 4, created=2))
    assert admitted_first(life) == {"coming"}


def admitted_first(life: Life) -> set[str]:
    """The groups that are admitted in a cycle in which the time of `lost` has come again."""
    attempt = Attempt(life.state.jobs["ns/lost"].creation, since=0, times=1, until=SECOND)
    life.backoff = AdmissionBackoff(attempts={"ns/lost": attempt})
    life.run(1)
    return {job.key.removeprefix("ns/") for job in life.state.jobs.values() if not job.is_pending}
