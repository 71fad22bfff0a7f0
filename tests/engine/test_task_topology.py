"""The plugin task-topology: tasks of a job that share a node, and tasks that stay apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.engine.plan import Plan
from kilauea.engine.plugins.task_topology.relations import relations_of
from kilauea.engine.session import Session
from support.builders import Data, Objects, binds, conf, gang, group, node, plan_of, plugin, pod
from support.probes import inside, scores_of

V = "volcano.sh/task-topology-"


def topology_conf(actions: str = "allocate", **arguments: Any) -> Data:
    given = {f"task-topology.{key}": value for key, value in arguments.items()}
    return conf(actions, ["gang"], ["predicates", plugin("task-topology", given)])


def job(minimum: int = 1, /, **annotations: str) -> Object:
    """A pod group with annotations `affinity`, `anti_affinity` and `task_order`."""
    obj = group(minimum=minimum)
    obj.metadata.annotations = {V + key.replace("_", "-"): text for key, text in annotations.items()}
    return obj


def tasks(of: str = "g", /, **counts: int) -> list[Object]:
    """Pods of tasks, so many of each, of one cpu."""
    return [pod(f"{of}-{role}-{i}", of, role=role) for role, count in counts.items() for i in range(count)]


def all_scores(session: Session, name: str) -> list[float]:
    """Scores of all nodes for a task, by this plugin alone."""
    (scorer,) = [s for _, s in session.points.walk("batch_node_score")]
    shape = session.shape_of(session.state.tasks[f"ns/{name}"])
    return [float(score) for score in scorer.function(shape, session.nodes.all())]


def of_server(session: Session) -> list[float]:
    return all_scores(session, "g-ps-0")


# --- annotations


@pytest.mark.parametrize(
    ("annotations", "together", "apart", "order"),
    [
        pytest.param(("ps,worker", "", ""), {("ps", "worker"), ("worker", "ps")}, set(), {}, id="a group of two"),
        pytest.param(("ps", "", ""), {("ps", "ps")}, set(), {}, id="a group of one"),
        pytest.param(("ps;worker", "", ""), {("ps", "ps"), ("worker", "worker")}, set(), {}, id="several groups"),
        pytest.param(
            ("", "ps,worker,chief", ""),
            set(),
            {(a, b) for a in ("ps", "worker", "chief") for b in ("ps", "worker", "chief") if a != b},
            {},
            id="each pair of a larger group",
        ),
        pytest.param(("", "", "chief, ps"), set(), set(), {"chief": 2, "ps": 1}, id="the first is the highest"),
        pytest.param((";, ;ps,,worker;", "", ","), {("ps", "worker"), ("worker", "ps")}, set(), {}, id="empty names"),
    ],
)
def test_annotations_are_read(
    annotations: tuple[str, str, str], together: set[Any], apart: set[Any], order: dict[str, int]
) -> None:
    assert tuple(relations_of(annotations, ["ps", "worker", "chief"])) == (together, apart, order)


@pytest.mark.parametrize(
    ("annotations", "role", "expected"),
    [
        (("", "a", ""), "a", 4),
        (("a,b", "a", ""), "a", 4),
        (("a,b;a", "", ""), "a", 3),
        (("a", "a,b", ""), "a", 2),
        (("", "a,b", ""), "a", 1),
        (("a,b", "", ""), "c", 0),
    ],
)
def test_the_strongest_relation_of_a_task_is_its_rank(
    annotations: tuple[str, str, str], role: str, expected: int
) -> None:
    assert relations_of(annotations, ["a", "b", "c"]).rank(role) == expected


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ({"affinity": "ps,wroker"}, "'wroker' is not a task of the job (tasks: ps, worker)"),
        ({"affinity": "ps,worker", "task_order": "ps,chief"}, "'chief' is not a task of the job (tasks: ps, worker)"),
        ({"anti_affinity": "ps,worker,ps"}, "'ps' is twice in 'ps,worker,ps'"),
    ],
)
def test_annotations_with_a_mistake_are_ignored_and_named(annotations: dict[str, str], why: str) -> None:
    nodes = [node("n1"), node("n2")]
    objects: list[Objects] = [job(**annotations), tasks(ps=1, worker=2)]
    plan = plan_of(nodes, objects, conf=topology_conf())
    assert [(f.where, f.code, f.message) for f in plan.findings] == [
        ("pod group ns/g", "InvalidTaskTopology", f"its annotations for task topology are ignored: {why}")
    ]
    assert len(binds(plan)) == 3
    assert scores_of(nodes, objects, conf=topology_conf()) == {"n1": 0, "n2": 0}


def test_a_task_whose_pods_are_still_to_come_may_be_named() -> None:
    obj = job(affinity="ps,worker")
    obj.spec.min_task_member = {"ps": 1, "worker": 1}  # type: ignore[attr-defined]
    assert plan_of(node("n1"), obj, tasks(ps=1), conf=topology_conf()).findings == ()


# --- scores: the worked example, a parameter server and two workers


def together() -> list[Objects]:
    return [job(3, affinity="ps,worker"), tasks(ps=1, worker=2)]


def test_a_node_that_takes_the_whole_bucket_scores_100_and_others_their_part() -> None:
    nodes = [node("three", 3), node("two", 2), node("one", 1)]
    found = scores_of(nodes, together(), conf=topology_conf())
    assert found == pytest.approx({"three": 100, "two": 200 / 3, "one": 100 / 3})


def test_the_weight_scales_the_score() -> None:
    nodes = [node("three", 3), node("two", 2)]
    assert scores_of(nodes, together(), conf=topology_conf(weight=3)) == pytest.approx({"three": 300, "two": 200})
    assert scores_of(nodes, together(), conf=topology_conf(weight=0)) == {"three": 0, "two": 0}


def test_tasks_that_run_already_draw_the_others_to_their_node() -> None:
    ps = pod("g-ps-0", role="ps", node="n2")
    nodes = [node("n1", 4), node("n2", 4)]
    found = scores_of(nodes, job(affinity="ps,worker"), ps, tasks(worker=2), conf=topology_conf())
    assert found == pytest.approx({"n1": 200 / 3, "n2": 100})


def test_a_large_task_is_left_out_before_small_ones() -> None:
    pods = [
        pod("g-ps-0", role="ps", cpu=1),
        pod("g-worker-0", role="worker", cpu=1),
        pod("g-worker-1", role="worker", cpu=8),
    ]
    nodes = [node("n1", 2), node("n2", 2)]
    usable = conf("allocate", ["gang"], ["predicates", plugin("task-topology"), "priority"])
    objects: list[Objects] = [nodes, job(affinity="ps,worker"), pods]

    assert inside(*objects, do=of_server, conf={**usable, "actions": ""}) == pytest.approx([200 / 3, 200 / 3])


def test_room_that_is_being_freed_counts() -> None:
    leaving = [group("r"), pod("r", "r", node="n2", cpu=2, deleting=True)]
    found = scores_of(node("n1", 2), node("n2", 3), leaving, together(), conf=topology_conf())
    assert found == pytest.approx({"n1": 200 / 3, "n2": 100})


# --- where tasks go


def spots(plan: Plan) -> dict[str, str]:
    return {name.removeprefix("g-"): where for name, where in binds(plan).items()}


def test_tasks_with_affinity_share_a_node_although_another_comes_first() -> None:
    assert spots(plan_of(node("n1", 2), node("n2", 4), together(), conf=topology_conf())) == {
        "ps-0": "n2",
        "worker-0": "n2",
        "worker-1": "n2",
    }


def test_without_the_plugin_or_annotations_the_order_of_nodes_decides() -> None:
    plain = plan_of(node("n1", 2), node("n2", 4), together(), conf=conf("allocate", ["gang"], ["predicates"]))
    bare = plan_of(node("n1", 2), node("n2", 4), job(3), tasks(ps=1, worker=2), conf=topology_conf())
    assert list(spots(plain).values()).count("n1") == list(spots(bare).values()).count("n1") == 2


def test_pods_of_a_task_that_stays_apart_go_to_different_nodes() -> None:
    plan = plan_of([node(f"n{i}", 4) for i in range(3)], job(anti_affinity="ps"), tasks(ps=3), conf=topology_conf())
    assert sorted(spots(plan).values()) == ["n0", "n1", "n2"]


def test_tasks_that_stay_apart_from_each_other_do_so() -> None:
    nodes = [node("n1", 8), node("n2", 8)]
    plan = plan_of(nodes, job(affinity="a;b", anti_affinity="a,b"), tasks(a=2, b=2), conf=topology_conf())
    by_node = {where: sorted(n[0] for n, w in spots(plan).items() if w == where) for where in ("n1", "n2")}
    assert sorted(by_node.values()) == [["a", "a"], ["b", "b"]]


def test_a_pod_that_ran_before_the_cycle_is_stayed_away_from() -> None:
    held = pod("g-ps-0", role="ps", node="n1")
    plan = plan_of(
        node("n1"),
        node("n2"),
        job(anti_affinity="ps"),
        held,
        tasks(ps=0),
        pod("g-ps-1", role="ps"),
        conf=topology_conf(),
    )
    assert spots(plan) == {"ps-1": "n2"}


def test_anti_affinity_is_a_wish_and_keeps_no_pod_waiting() -> None:
    plan = plan_of(node("n1", 4), job(anti_affinity="ps"), tasks(ps=3), conf=topology_conf())
    assert set(spots(plan).values()) == {"n1"}


def test_tasks_without_a_relation_or_a_name_are_placed_as_ever() -> None:
    nodes = [node("n1", 1), node("n2", 4)]
    others = [pod("g-x-0", role="x"), pod("g-nameless")]
    found = spots(plan_of(nodes, job(affinity="ps,worker"), tasks(ps=1, worker=1), others, conf=topology_conf()))
    assert (found["ps-0"], found["worker-0"]) == ("n2", "n2")
    assert sorted((found["x-0"], found["nameless"])) == ["n1", "n2"]


# --- order


def order(*objects: Objects) -> list[str]:
    """Waiting tasks in the order in which they are placed."""

    def look(session: Session) -> list[str]:
        return [task.name for task in session.in_order(session.state.tasks.values())]

    return inside(node("n1", 64), *objects, do=look, conf={**topology_conf(), "actions": ""})


@pytest.mark.parametrize(
    ("annotations", "counts", "expected"),
    [
        pytest.param(
            {"affinity": "a,b", "task_order": "b,a"}, {"a": 1, "b": 1}, ["g-b-0", "g-a-0"], id="as the annotation says"
        ),
        pytest.param({"affinity": "b,c"}, {"a": 1, "b": 1, "c": 1}, ["g-b-0", "g-c-0", "g-a-0"], id="buckets first"),
        pytest.param(
            {"affinity": "a,b", "anti_affinity": "a,c;b,c"},
            {"c": 1, "a": 2, "b": 1},
            ["g-a-0", "g-b-0", "g-a-1", "g-c-0"],
            id="the largest bucket first",
        ),
        pytest.param({"task_order": "b,a"}, {"a": 1, "b": 1}, ["g-b-0", "g-a-0"], id="an order alone holds, too"),
        pytest.param({}, {"a": 1, "b": 1}, ["g-a-0", "g-b-0"], id="without annotations by index and name"),
    ],
)
def test_the_order_of_tasks(annotations: dict[str, str], counts: dict[str, int], expected: list[str]) -> None:
    assert order(job(**annotations), tasks(**counts)) == expected


def test_tasks_of_a_bucket_come_before_those_of_other_jobs() -> None:
    assert order(gang("early", 1), job(affinity="a,b"), tasks(a=1, b=1))[-1] == "early-w-0"


# --- what is undone


def test_what_a_discarded_gang_placed_is_forgotten() -> None:
    """Four pods of a gang of five find room; when they are given back, the scores are as before."""
    objects: list[Objects] = [node("n1", 2), node("n2", 2), job(5, affinity="ps,worker"), tasks(ps=1, worker=4)]

    before = inside(*objects, do=of_server, conf={**topology_conf(), "actions": ""})
    assert inside(*objects, do=of_server, conf=topology_conf("allocate")) == before == pytest.approx([40, 40])


def test_a_pod_that_is_evicted_no_longer_holds_its_bucket_to_the_node() -> None:
    objects: list[Objects] = [
        node("n1", 4),
        node("n2", 4),
        job(affinity="ps,worker"),
        pod("g-ps-0", role="ps", node="n2"),
        tasks(worker=2),
    ]

    def score(session: Session) -> list[list[float]]:
        seen: list[list[float]] = []

        def look() -> None:
            seen.append([round(score) for score in all_scores(session, "g-worker-0")])

        look()
        statement = session.statement()
        statement.evict(session.state.tasks["ns/g-ps-0"], "test", "")
        look()
        statement.discard()
        look()
        return seen

    assert inside(*objects, do=score, conf={**topology_conf(), "actions": ""}) == [[67, 100], [67, 67], [67, 100]]


def test_a_job_without_pods_that_wait_is_not_looked_at() -> None:
    held = pod("g-ps-0", role="ps", node="n1")
    bad = job(affinity="nonsense")
    assert plan_of(node("n1"), bad, held, conf=topology_conf()).findings == ()


def test_topology_in_a_configuration_is_this_plugin() -> None:
    usable = conf("allocate", ["gang"], ["predicates", "topology"])
    assert set(spots(plan_of(node("n1", 2), node("n2", 4), together(), conf=usable)).values()) == {"n2"}


@pytest.mark.parametrize("gone", [0, 1, 2, 3])
def test_the_smallest_of_a_bucket_count_first_after_some_have_come_and_gone(gone: int) -> None:
    """On five cores, beside the server with two: half a core, then one, then one and a half, as far as they wait."""
    sizes = ["1500m", "500m", "3", "1"]

    def act(session: Session) -> list[float]:
        waiting = [session.state.tasks[f"ns/g-w-{i}"] for i in range(4)]
        statement = session.statement()
        for task in waiting[:gone]:
            statement.allocate(task, 1)
        before = of_server(session)[0]
        statement.allocate(waiting[3], 1)
        statement.roll_back(gone)
        assert of_server(session)[0] == before
        return of_server(session)

    pods = [pod(f"g-w-{i}", role="w", cpu=size) for i, size in enumerate(sizes)]
    objects = [node("n1", cpu=5), node("n2", cpu=8), job(affinity="ps,w"), pod("g-ps-0", role="ps", cpu="2"), *pods]
    expected = [4, 3, 2, 2][gone]
    found = inside(objects, do=act, conf={**topology_conf(), "actions": ""})
    assert found[0] == expected / 5 * 100


@given(
    free=st.lists(st.integers(0, 9), min_size=2, max_size=4),
    cpus=st.lists(st.integers(1, 4), min_size=2, max_size=6),
    moves=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=5),
)
def test_the_score_counts_tasks_one_by_one_whatever_was_placed_and_taken_back(
    free: list[int], cpus: list[int], moves: list[tuple[int, int, bool]]
) -> None:
    pods = [pod(f"g-w-{i}", role="w", cpu=cpu) for i, cpu in enumerate(cpus)]
    nodes = [node(f"n{i}", cpu) for i, cpu in enumerate(free)]

    def expected(placed: dict[int, int], first: int) -> list[float]:
        out = []
        others = sorted(cpu for i, cpu in enumerate(cpus) if i != first and i not in placed)
        for row, cpu in enumerate(free):
            mates = [i for i, at in placed.items() if at == row]
            room, count = cpu - sum(cpus[i] for i in mates), 0
            for asked in (cpus[first], *others):
                room -= asked
                if room < 0:
                    break
                count += 1
            out.append(100 * (count + len(mates)) / len(cpus) if count else 0.0)
        return out

    def act(session: Session) -> None:
        placed: dict[int, int] = {}
        for number, row, undone in (*moves, (0, 0, True)):
            first = next((i for i in range(len(cpus)) if i not in placed), None)
            if first is None:
                return
            assert all_scores(session, f"g-w-{first}") == pytest.approx(expected(placed, first))
            task = session.state.tasks[f"ns/g-w-{number % len(cpus)}"]
            at = row % len(free)
            if number % len(cpus) in placed or not session.fits(task, at):
                continue
            statement = session.statement()
            statement.allocate(task, at)
            if undone:
                statement.discard()
            else:
                placed[number % len(cpus)] = at

    inside(*nodes, job(affinity="w"), pods, do=act, conf={**topology_conf(), "actions": ""})
