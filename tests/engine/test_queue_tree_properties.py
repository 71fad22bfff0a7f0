"""Queues keep their promises, on random trees: floor, minimality, whole gangs, stability, sums, no one starves."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.engine.model import status
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from support.builders import HOSTNAME, Data, build, conf, manifest, placements, plan_in, state_of
from support.probes import inside
from support.queue_trees import (
    FLAT,
    TREE,
    WITH_GANGS,
    Branch,
    Case,
    Cluster,
    Gang,
    Life,
    branches,
    cases,
    cases_of,
    clusters,
    configured,
    effects,
    group_of,
    minima,
    single_pods,
    sizes,
    tiers,
    waiting,
)

RECLAIM = pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
PREEMPT = pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
EVERY_ACTION = pytest.mark.parametrize("action", ["reclaim", "gangreclaim", "preempt", "gangpreempt"])


def plan_for(objects: list[Object], chosen: Data) -> Plan:
    """The plan of one cycle."""
    return plan_in(state_of(objects), chosen)


# --- the floor


@pytest.mark.slow
@RECLAIM
@given(case=cases())
def test_reclaim_leaves_every_queue_and_ancestor_what_it_is_guaranteed(action: str, case: Case) -> None:
    objects = case.cluster.objects()
    plan = plan_for(objects, case.conf(action))
    done = effects(case.cluster, objects, plan)
    for branch in case.cluster.branches:
        if done.lost[branch.name]:
            assert done.after[branch.name]["cpu"] >= 1000 * branch.guarantee - 1, branch


TWO_RESOURCES = Case(
    {},
    Cluster(
        (Branch("q0", "root", 2, 0, None, 1), Branch("q1", "root", 0, 0, None, 2)),
        nodes=1,
        held=(single_pods("q1", 1), Gang("q0", 3, 1, 1, 1, "low")),
        claims=(Gang("q1", 2, 2, 1, 1, "high"),),
    ),
)


def crossed(plan: Plan, name: str, before: Counter[str], after: Counter[str]) -> set[str]:
    """Resources of which a queue came from above to below what it deserves; none while it has all of any of them."""
    deserved = {n: amount for n, amount in (plan.queues[name].deserved or {}).items() if amount > 0}
    if any(after[n] >= amount - 1 for n, amount in deserved.items()):
        return set()
    return {n for n, amount in deserved.items() if before[n] > amount}


def largest_unit(objects: list[Object], plan: Plan, queue_of: Mapping[str, str], name: str) -> Counter[str]:
    """The most that a queue lost at once: one pod, or a gang that went whole; by resource."""
    ran, units = sizes(objects), []
    lost: dict[str, list[Counter[str]]] = {}
    state = state_of(objects)
    for eviction in plan.evictions:
        if queue_of[group_of(eviction.pod)] == name:
            requests = state.tasks[eviction.pod].spec.requests
            lost.setdefault(group_of(eviction.pod), []).append(Counter({n: int(a) for n, a in requests.items()}))
    for key, pods in lost.items():
        units += [sum(pods, Counter())] if len(pods) == ran[key] else pods
    return Counter({n: max(unit[n] for unit in units) for n in set().union(*units)})


@RECLAIM
@given(case=cases(gpus=True))
@example(case=TWO_RESOURCES)
def test_a_queue_ends_below_what_it_deserves_by_one_unit_at_most_and_for_a_preemptor_within_its_share(
    action: str, case: Case
) -> None:
    objects = case.cluster.objects()
    plan = plan_for(objects, case.conf(action))
    done = effects(case.cluster, objects, plan)
    queue_of = {key: job.queue for key, job in state_of(objects).jobs.items()}
    preemptors = {queue_of[e.by] for e in plan.evictions}
    for name in {queue_of[group_of(e.pod)] for e in plan.evictions}:
        before, after = done.before[name], done.after[name]
        below = crossed(plan, name, before, after)
        if not below:
            continue
        unit = largest_unit(objects, plan, queue_of, name)
        assert not crossed(plan, name, before, after + unit), (name, unit)
        within = (
            all(done.after[c][n] <= (plan.queues[c].deserved or {}).get(n, 0) + 1 for n in below) for c in preemptors
        )
        assert any(within), (name, below)


# --- minimal plans


def units_of(objects: list[Object], plan: Plan, *, gangs: bool) -> Iterator[tuple[str, ...]]:
    """Victims that could be put back together: a pod beyond the minimum of its gang, or as many as make a whole one."""
    ran, minimum = sizes(objects), minima(objects)
    lost: dict[str, list[str]] = {}
    for eviction in plan.evictions:
        lost.setdefault(group_of(eviction.pod), []).append(eviction.pod)
    for name, pods in lost.items():
        left = ran[name] - len(pods)
        yield from itertools.combinations(pods, minimum[name] if gangs and left < minimum[name] else 1)


def fits_with_one_unit_put_back(action: str, case: Case, *, elsewhere: bool) -> bool:
    """Whether a preemptor would start with some unit of its victims put back; `elsewhere`: on any nodes."""
    objects = case.cluster.objects()
    plan = plan_for(objects, case.conf(action))
    gone, promised = {e.pod for e in plan.evictions}, {} if elsewhere else {n.pod: n.node for n in plan.nominations}
    for unit in units_of(objects, plan, gangs=case.shape.get("gang", True) or action.startswith("gang")):
        left = [o for o in objects if o.kind != "Pod" or o.key not in gone or o.key in unit]
        left = [pinned(o, promised[o.key]) if o.kind == "Pod" and o.key in promised else o for o in left]
        started = plan_for(left, case.conf("backfill")).binds
        if sum(group_of(b.pod) == "ns/s0" for b in started) >= case.cluster.claims[0].minimum:
            return True
    return False


def pinned(pod: Object, place: str) -> Object:
    """The pod, made to go to a node."""
    data = manifest(pod)
    data["spec"]["nodeSelector"] = {HOSTNAME: place}
    return build(data)


@pytest.mark.slow
@EVERY_ACTION
@given(data=st.data())
def test_with_any_one_unit_of_its_victims_put_back_a_preemptor_does_not_fit(action: str, data: st.DataObject) -> None:
    case = cases_of(action, data, most_claims=1)
    assert not fits_with_one_unit_put_back(action, case, elsewhere=not action.startswith("gang"))


ELSEWHERE = Case(
    {},
    Cluster(
        (Branch("q0", "root", 4, 2, None), Branch("q1", "root", 1, 1, None)),
        nodes=3,
        held=(single_pods("q1", 4), Gang("q1", 1, 1, 2, 0, "low"), Gang("q1", 3, 3, 2, 0, "low", roomy=True)),
        claims=(Gang("q0", 4, 4, 1, 0, "high"),),
    ),
)


@pytest.mark.parametrize("action", ["gangreclaim", "gangpreempt"])
@given(case=cases(most_claims=1))
@example(case=ELSEWHERE)
def test_nor_would_it_fit_on_other_nodes_than_the_gang_actions_found(action: str, case: Case) -> None:
    assert not fits_with_one_unit_put_back(action, case, elsewhere=True)


# --- whole gangs, within limits


@pytest.mark.slow
@EVERY_ACTION
@given(data=st.data())
def test_no_gang_is_left_below_its_minimum_and_every_preemptor_is_placed_whole(
    action: str, data: st.DataObject
) -> None:
    case = cases_of(action, data, shapes=WITH_GANGS, priorities=("low", "mid"))
    objects = case.cluster.objects()
    plan = plan_for(objects, case.conf(action))
    ran, minimum = sizes(objects), minima(objects)
    lost = Counter(group_of(e.pod) for e in plan.evictions)
    for name, pods in lost.items():
        assert ran[name] - pods >= minimum[name] or ran[name] == pods
    comes = Counter(group_of(p.pod) for p in placements(plan))
    for preemptor in {e.by for e in plan.evictions}:
        assert ran[preemptor] - lost[preemptor] + comes[preemptor] >= minimum[preemptor]


def keeps_limits(action: str, case: Case) -> bool:
    """Whether queues and their ancestors stay within what they may use, of those with a guarantee."""
    objects = case.cluster.objects()
    plan = plan_for(objects, case.conf(action))
    done, jobs = effects(case.cluster, objects, plan), state_of(objects).jobs
    return all(
        done.after[name]["cpu"] <= (plan.queues[name].real_capability or {}).get("cpu", 0)
        for home in {jobs[group_of(n.pod)].queue for n in plan.nominations}
        for name in (case.cluster.way_up(home) if "tree" in case.shape else [home])
    )


@pytest.mark.slow
@EVERY_ACTION
@given(data=st.data())
def test_no_one_is_promised_more_than_its_queue_and_their_ancestors_may_use(action: str, data: st.DataObject) -> None:
    assert keeps_limits(action, cases_of(action, data))


PARENT_AT_ITS_LIMIT = Case(
    {"tree": True},
    Cluster(
        (Branch("p", "root", 2, 0, 2), Branch("own", "p", 1, 0, None), Branch("sibling", "p", 1, 0, None)),
        nodes=1,
        held=(single_pods("sibling", 4),),
        claims=(Gang("own", 1, 1, 1, 0, "high"),),
    ),
)


@RECLAIM
def test_a_parent_beyond_its_limit_is_promised_no_more(action: str) -> None:
    assert keeps_limits(action, PARENT_AT_ITS_LIMIT)


# --- stability


@pytest.mark.slow
@EVERY_ACTION
@given(data=st.data())
def test_evictions_end_no_one_goes_twice_and_victims_that_come_back_evict_no_one(
    action: str, data: st.DataObject
) -> None:
    case = cases_of(action, data, most_claims=1 if "preempt" in action else 3)
    life = Life(case.cluster.objects(), case.conf(action))
    assert life.settle(12)
    lost: Counter[str] = Counter()
    for plan in life.plans:
        assert not {group_of(pod) for pod in lost} & {e.by for e in plan.evictions}
        lost.update(e.pod for e in plan.evictions)
    assert all(times == 1 for times in lost.values())


@pytest.mark.slow
@PREEMPT
@given(data=st.data())
def test_a_pod_goes_at_most_once_for_each_class_of_more_important_jobs(action: str, data: st.DataObject) -> None:
    """A victim that comes back may evict others, as long as these are less important still.

    With claims in several queues it may go once more: a queue that is served first takes what another one freed.
    """
    case = cases_of(action, data, priorities=("low", "mid"))
    life = Life(case.cluster.objects(), case.conf(action))
    assert life.settle(16)
    above = {"low": 2, "mid": 1}
    lost = Counter(e.pod for plan in life.plans for e in plan.evictions)
    for pod, times in lost.items() if len(case.cluster.claims) == 1 else ():
        number = int(group_of(pod).removeprefix("ns/r"))
        assert times <= above[case.cluster.held[number].priority]


# --- sums

FIGURES = ("allocated", "request", "inqueue", "elastic")


def add_up(branches: tuple[Branch, ...], queues: Mapping[str, Any]) -> None:
    """Every figure of a parent is the sum over its children."""
    for parent in {branch.parent for branch in branches}:
        children = [queues[branch.name] for branch in branches if branch.parent == parent]
        for figure in FIGURES:
            total: Counter[str] = Counter()
            for child in children:
                total.update(getattr(child, figure))
            found = {name: value for name, value in getattr(queues[parent], figure).items() if value}
            assert found == {name: value for name, value in total.items() if value}, (parent, figure)


@pytest.mark.slow
@given(clusters(TREE), st.sampled_from(("Inqueue", "Pending")))
def test_figures_of_a_parent_are_sums_over_its_children_after_a_cycle(cluster: Cluster, phase: str) -> None:
    chosen = configured("reclaim, preempt, backfill", before="enqueue, allocate", tree=True)
    add_up(cluster.branches, plan_for(cluster.objects(phase), chosen).queues)


@given(cluster=clusters(TREE), steps=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=12))
def test_they_are_sums_throughout_random_statements_that_are_rolled_back(
    cluster: Cluster, steps: list[tuple[int, int]]
) -> None:
    def play(session: Session) -> None:
        add_up(cluster.branches, session.queues)
        opening = {name: dict(queue.allocated) for name, queue in session.queues.items()}
        statement = session.statement()
        tasks = [session.state.tasks[key] for key in sorted(session.state.tasks)]
        for which, number in steps:
            task, row = tasks[which % len(tasks)], number % len(session.nodes)
            if number == 9:
                statement.roll_back(which % (statement.checkpoint() + 1))
            elif task.status == status.PENDING:
                statement.take(task, row, now=number % 2 == 0)
            elif task.status == status.RUNNING:
                statement.evict(task, "probe")
            add_up(cluster.branches, session.queues)
        statement.roll_back()
        add_up(cluster.branches, session.queues)
        for name, queue in session.queues.items():
            assert {n: v for n, v in queue.allocated.items() if v} == {n: v for n, v in opening[name].items() if v}

    inside(cluster.objects(), do=play, conf=conf("", *tiers("capacity", tree=True)))


# --- no one starves


class Wish(NamedTuple):
    """A cluster that others fill, and a gang that the promise to its queue covers."""

    shape: Data
    cluster: Cluster
    wanted: Gang


@st.composite
def wishes(draw: st.DrawFn, /, figure: str, lenders: int = 3, **more: Any) -> Wish:
    """Single pods of others hold all of the cluster, or would; `figure` of the gang's queue covers it."""
    shape = draw(st.sampled_from(({"tree": True}, {}))) | more
    tree = draw(branches(TREE if "tree" in shape else FLAT))
    tree = tuple(Branch(b.name, b.parent, b.deserved, b.guarantee, None) for b in tree)
    leaves = Cluster(tree, 0, (), ()).leaves
    homes = [leaf for leaf in leaves if getattr(leaf, figure)]
    assume(homes and len(leaves) > 1)
    home = draw(st.sampled_from(homes))
    others = [leaf.name for leaf in leaves if leaf is not home]
    rich = draw(st.lists(st.sampled_from(others), min_size=1, max_size=lenders, unique=True))
    nodes = -(-sum(b.deserved for b in tree if b.parent == "root") // 4) + draw(st.integers(0, 1))
    own = draw(st.integers(0, getattr(home, figure) - 1))
    size = draw(st.integers(1, getattr(home, figure) - own))
    held = [single_pods(home.name, own)] if own else []
    held += [single_pods(name, draw(st.integers(1, 8))) for name in rich[1:]]
    held.append(single_pods(rich[0], 4 * nodes))
    claims = [Gang(draw(st.sampled_from(rich)), 4, 3, 1, 0, "low")] if draw(st.booleans()) else []
    return Wish(shape, Cluster(tree, nodes, tuple(held), tuple(claims)), Gang(home.name, size, size, 1, 0, "low"))


ADMITTED_BORROWER = Wish(
    {"tree": True},
    Cluster(
        (Branch("p", "root", 3, 0, None), Branch("own", "p", 3, 0, None), Branch("other", "root", 0, 0, None)),
        nodes=1,
        held=(single_pods("own", 1), single_pods("other", 3)),
        claims=(Gang("other", 3, 3, 1, 0, "low"),),
    ),
    Gang("own", 2, 2, 1, 0, "low"),
)
BORROWER_WITH_ELASTIC_PODS = Wish(
    {"tree": True},
    Cluster(
        (Branch("own", "root", 2, 0, None), Branch("other", "root", 2, 0, None)),
        nodes=1,
        held=(single_pods("own", 1), single_pods("other", 3)),
        claims=(Gang("other", 4, 3, 1, 0, "low"),),
    ),
    Gang("own", 1, 1, 1, 0, "low"),
)
PARENT_BEYOND_ITS_LIMIT = Wish(
    {"tree": True},
    Cluster(
        (
            Branch("p", "root", 2, 0, None),
            Branch("own", "p", 1, 0, None),
            Branch("sibling", "p", 1, 0, None),
            Branch("other", "root", 2, 2, None),
        ),
        nodes=1,
        held=(single_pods("sibling", 4),),
        claims=(),
    ),
    Gang("own", 1, 1, 1, 0, "low"),
)
TWO_BORROWERS = Wish(
    {},
    Cluster(
        (Branch("own", "root", 1, 1, None), Branch("a", "root", 0, 0, None), Branch("b", "root", 0, 0, None)),
        nodes=1,
        held=(single_pods("a", 3), single_pods("b", 1)),
        claims=(),
    ),
    Gang("own", 1, 1, 1, 0, "low"),
)


@pytest.mark.slow
@RECLAIM
@given(wish=st.booleans().flatmap(lambda gang: wishes("deserved", gang=gang)))
@example(wish=ADMITTED_BORROWER)
@example(wish=PARENT_BEYOND_ITS_LIMIT)
def test_a_job_that_the_deserved_share_covers_runs_although_borrowers_fill_the_cluster(action: str, wish: Wish) -> None:
    life = Life(wish.cluster.objects(), configured(action, before="enqueue, allocate", **wish.shape))
    life.submit(waiting("wanted", wish.wanted, "Pending"))
    assert life.settle(12)
    assert life.running("wanted") == wish.wanted.size


@RECLAIM
def test_neither_do_borrowers_that_are_admitted_keep_it_out(action: str) -> None:
    wish = BORROWER_WITH_ELASTIC_PODS
    life = Life(wish.cluster.objects(), configured(action, before="enqueue, allocate", **wish.shape))
    life.submit(waiting("wanted", wish.wanted, "Pending"))
    assert life.settle(12)
    assert life.running("wanted") == wish.wanted.size


def runs_when_it_comes_last(wish: Wish, before: str) -> bool:
    """Whether a gang runs that comes when all others have what they could get."""
    empty = Cluster(wish.cluster.branches, wish.cluster.nodes, (), ())
    life = Life(empty.objects(), configured("backfill", before=before, **wish.shape))
    for number, gang in enumerate((*wish.cluster.held, *wish.cluster.claims)):
        life.submit(waiting(f"r{number}", gang, "Pending"))
    life.settle(6)
    life.submit(waiting("wanted", wish.wanted, "Pending"))
    life.settle(12)
    return life.running("wanted") == wish.wanted.size


@given(wishes("guarantee", lenders=1))
def test_a_job_that_the_guarantee_covers_runs_although_a_borrower_came_first(wish: Wish) -> None:
    assert runs_when_it_comes_last(wish, "enqueue, allocate")


@pytest.mark.slow
@given(wishes("guarantee"))
@example(TWO_BORROWERS)
def test_where_queues_take_back_it_runs_although_several_borrowers_came_first(wish: Wish) -> None:
    """Without reclaim several borrowers, each within its limit, may hold together what is guaranteed to another."""
    assert runs_when_it_comes_last(wish, "enqueue, allocate, reclaim")


# --- found by the properties above


def test_what_is_put_back_leaves_room_in_the_queue_too() -> None:
    """Another queue's guarantee leaves 6 of 8 units; of five that run three have to go for a gang of four."""
    cluster = Cluster(
        (Branch("q", "root", 0, 0, None), Branch("other", "root", 2, 2, None)),
        nodes=2,
        held=(single_pods("q", 3), single_pods("q", 2)),
        claims=(Gang("q", 2, 2, 2, 0, "high"),),
    )
    life = Life(cluster.objects(), configured("gangpreempt"))
    assert len(life.step().evictions) == 3
    assert life.settle(4)
    assert life.running("s0") == 2


def test_a_gang_spares_the_pod_that_is_in_the_way() -> None:
    """One gang has a pod on each of two nodes, and the preemptor fits on the second without the pod there."""
    cluster = Cluster(
        (Branch("q", "root", 0, 0, None),),
        nodes=2,
        held=(Gang("q", 1, 1, 3, 0, "low"), single_pods("q", 2)),
        claims=(Gang("q", 2, 2, 2, 0, "high"),),
    )
    plan = plan_for(cluster.objects(), configured("gangpreempt"))
    assert [e.pod for e in plan.evictions] == ["ns/r1-1"]


def test_promised_nodes_are_kept_when_victims_come_back() -> None:
    """No one is evicted a second time because two preemptors changed places."""
    cluster = Cluster(
        (Branch("a", "root", 3, 2, None), Branch("b", "root", 1, 0, 4), Branch("c", "root", 4, 2, None)),
        nodes=2,
        held=(
            Gang("b", 5, 4, 1, 0, "low", roomy=True),
            Gang("b", 2, 1, 1, 0, "low", roomy=True),
            single_pods("b", 1),
        ),
        claims=(Gang("a", 2, 2, 1, 0, "high"), Gang("c", 2, 2, 2, 0, "high")),
    )
    life = Life(cluster.objects(), configured("reclaim", tree=True, gang=False))
    first = life.step()
    assert life.settle(6)
    assert [e.pod for plan in life.plans[1:] for e in plan.evictions] == []
    assert len(first.evictions) == 6
