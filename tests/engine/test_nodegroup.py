"""The plugin nodegroup: queues keep to the groups of nodes that they name."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.meta import Object
from kilauea.engine.plan import Plan
from support.builders import (
    Data,
    Objects,
    binds,
    conf,
    gang,
    group,
    node,
    nominations,
    pending,
    plan_of,
    plugin,
    pod,
    priority_class,
    queue,
)
from support.probes import scores_of

LABEL = "volcano.sh/nodegroup-name"
LIMITS = "volcano.sh/nodegroup-resource-limits"
KEPT, RATHER = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"


def groups_conf(actions: str = "allocate", *, tree: bool = False, **arguments: Any) -> Data:
    return conf(actions, ["gang"], ["predicates", plugin("nodegroup", arguments, enableHierarchy=tree)])


def grouped(name: str, of: str | None = None, **more: Any) -> Object:
    """A node in a group; without one named, in the group of its own name."""
    return node(name, labels={LABEL: of or name}, **more)


def choosy(name: str = "q", /, **lists: list[str]) -> Object:
    """A queue with lists `need`, `want`, `shun` and `rather_not`."""
    near = {KEPT: lists.get("need", []), RATHER: lists.get("want", [])}
    far = {KEPT: lists.get("shun", []), RATHER: lists.get("rather_not", [])}
    return queue(name, affinity={"nodeGroupAffinity": near, "nodeGroupAntiAffinity": far})


def limited(text: str, **lists: list[str]) -> Object:
    obj = choosy(**lists)
    obj.metadata.annotations = {LIMITS: text}
    return obj


def why(plan: Plan, name: str = "p") -> str:
    return pending(plan)[name].message


# --- which groups a queue may use

NOT_FOUND, NOT_SPECIFIED = "node group label not found", "node group affinity not specified"
DENIED = "node does not satisfy the node group affinity"


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        pytest.param({"need": ["a"]}, None, id="required affinity allows"),
        pytest.param({"want": ["a"]}, None, id="preferred affinity allows"),
        pytest.param({"rather_not": ["a"]}, None, id="preferred anti-affinity allows"),
        pytest.param({"shun": ["a"]}, DENIED, id="required anti-affinity denies"),
        pytest.param({"need": ["a"], "shun": ["a"]}, DENIED, id="it outweighs required affinity"),
        pytest.param({"want": ["a"], "shun": ["a"]}, DENIED, id="and preferred affinity"),
        pytest.param({"rather_not": ["a"], "shun": ["a"]}, None, id="preferred anti-affinity outweighs it"),
        pytest.param({"need": ["b"]}, DENIED, id="a group that is not named is denied"),
        pytest.param({"shun": ["b"]}, DENIED, id="also when only others are to be avoided"),
        pytest.param({}, NOT_SPECIFIED, id="four empty lists name nothing"),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_the_lists_of_a_queue_decide_which_groups_it_uses(
    lists: dict[str, list[str]], expected: str | None, strict: bool
) -> None:
    plan = plan_of(grouped("a"), choosy(**lists), group(), pod("p"), conf=groups_conf(strict=strict))
    if expected is None:
        assert binds(plan) == {"p": "a"}
    else:
        assert why(plan) == f"0/1 nodes are unavailable: 1 {expected}."


@pytest.mark.parametrize(
    ("made", "strict", "expected"),
    [
        pytest.param(queue("q"), True, NOT_FOUND, id="strict keeps queues that name nothing from all nodes"),
        pytest.param(queue("q"), False, None, id="else they use nodes in no group"),
        pytest.param(choosy(need=["a"]), False, NOT_FOUND, id="which others never use"),
    ],
)
def test_nodes_in_no_group(made: Object, strict: bool, expected: str | None) -> None:
    plan = plan_of(node("n1"), made, group(), pod("p"), conf=groups_conf(strict=strict))
    assert (binds(plan) == {"p": "n1"}) is (expected is None)
    assert expected is None or why(plan) == f"0/1 nodes are unavailable: 1 {expected}."


def test_each_reason_is_counted_with_its_nodes() -> None:
    nodes = [grouped("a"), grouped("b"), node("c"), grouped("d", "a", cpu=0)]
    plan = plan_of(nodes, choosy(need=["x"]), group(), pod("p"), conf=groups_conf())
    assert why(plan) == (
        "0/4 nodes are unavailable: 1 Insufficient cpu, 1 node group label not found, "
        "2 node does not satisfy the node group affinity."
    )


def test_equal_pods_of_two_queues_each_keep_to_their_groups() -> None:
    queues = [choosy("q1", need=["a"]), choosy("q2", need=["b"])]
    jobs = [gang("g1", 1, queue="q1"), gang("g2", 1, queue="q2")]
    plan = plan_of(grouped("a"), grouped("b"), queues, jobs, conf=groups_conf())
    assert binds(plan) == {"g1-w-0": "a", "g2-w-0": "b"}


def test_with_its_predicate_off_every_group_is_open() -> None:
    off = conf("allocate", ["gang"], [plugin("nodegroup", enablePredicate=False)])
    assert binds(plan_of(grouped("a"), choosy(need=["b"]), group(), pod("p"), conf=off)) == {"p": "a"}


# --- scores


@pytest.mark.parametrize(
    ("arguments", "lists", "expected"),
    [
        pytest.param(
            {},
            {"need": ["a"], "want": ["b", "c"], "rather_not": ["d"]},
            {"a": 100, "b": 50, "c": 50, "d": -1},
            id="required, preferred, and rather not",
        ),
        pytest.param({}, {"need": ["a", "b"], "want": ["a"]}, {"a": 150, "b": 100}, id="both add up"),
        pytest.param({}, {"need": ["a", "b"], "rather_not": ["a"]}, {"a": -1, "b": 100}, id="rather not sets it"),
        pytest.param(
            {"enablePreferredOrder": True},
            {"want": ["b", "c"]},
            {"b": 50, "c": 25},
            id="ordered, the first is the best",
        ),
        pytest.param(
            {"enablePreferredOrder": True},
            {"want": ["a", "b", "a"]},
            {"a": 0, "b": 25},
            id="ordered, a name that is there twice has its last place",
        ),
    ],
)
def test_scores_of_groups(arguments: Data, lists: dict[str, list[str]], expected: dict[str, float]) -> None:
    nodes = [grouped(name) for name in "abcd"]
    found = scores_of(nodes, choosy(**lists), group(), pod("p"), conf=groups_conf(**arguments))
    assert found == expected


# --- queues in a tree

TREE = [queue("root"), choosy("up", need=["a"]), queue("mid", parent="up")]


@pytest.mark.parametrize(
    ("queues", "tree", "expected"),
    [
        pytest.param([*TREE, queue("q", parent="mid")], True, "a", id="from the nearest that names any"),
        pytest.param([*TREE, queue("q", parent="mid")], False, None, id="only if enabled"),
        pytest.param([*TREE, choosy("q", need=["b"])], True, "b", id="its own come first"),
        pytest.param([*TREE, queue("q", parent="mid", affinity={})], True, None, id="an empty affinity is one"),
        pytest.param([*TREE, queue("q", parent="gone")], True, None, id="a parent that is missing ends it"),
        pytest.param([queue("q", parent="r"), queue("r", parent="q")], True, None, id="a cycle ends it"),
        pytest.param([choosy("root", need=["b"]), queue("q")], True, "b", id="root is above all"),
    ],
)
def test_a_queue_has_the_groups_of_a_queue_above_it(queues: list[Object], tree: bool, expected: str | None) -> None:
    plan = plan_of(grouped("a"), grouped("b"), queues, group(), pod("p"), conf=groups_conf(tree=tree))
    assert binds(plan) == ({"p": expected} if expected else {})


# --- limits


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [("1", {"p": "a"}), ("1001m", {})],
    ids=["up to the limit", "not a thousandth more"],
)
def test_a_queue_uses_no_more_of_a_group_than_its_limit(cpu: str, expected: dict[str, str]) -> None:
    held = [group("r", phase="Running"), pod("r-0", "r", cpu=9, node="a2")]
    nodes = [grouped("a", cpu=16), grouped("a2", "a", cpu=16)]
    limit = limited('{"a": {"cpu": "10"}}', need=["a"])
    plan = plan_of(nodes, limit, held, group(), pod("p", cpu=cpu, memory="8Gi"), conf=groups_conf())
    assert binds(plan) == expected
    assert expected or why(plan) == "0/2 nodes are unavailable: 2 node group resource limit exceeded."


def test_pods_placed_in_the_same_cycle_count_for_the_limit() -> None:
    nodes = [grouped("a", cpu=16), grouped("a2", "a", cpu=16)]
    plan = plan_of(nodes, limited('{"a": {"cpu": 3}}', need=["a"]), gang("g", 5, 1), conf=groups_conf())
    assert len(binds(plan)) == 3


def test_a_gang_that_does_not_fit_gives_its_part_of_the_limit_back() -> None:
    nodes = grouped("a", cpu=16)
    jobs = [gang("big", 4, created=0), gang("small", 3, created=1)]
    plan = plan_of(nodes, limited('{"a": {"cpu": 3}}', need=["a"]), jobs, conf=groups_conf())
    assert sorted(binds(plan)) == ["small-w-0", "small-w-1", "small-w-2"]


def test_a_limit_holds_for_its_group_and_its_queue_only() -> None:
    nodes = [grouped("a", cpu=8), grouped("b", cpu=8)]
    queues = [limited('{"a": {"cpu": 1}}', need=["a", "b"]), choosy("other", need=["a"])]
    jobs = [gang("g", 4, cpu=2), gang("o", 4, queue="other", cpu=2)]
    placed = binds(plan_of(nodes, queues, jobs, conf=groups_conf()))
    assert {name: placed[name] for name in sorted(placed)} == {
        **{f"g-w-{i}": "b" for i in range(4)},
        **{f"o-w-{i}": "a" for i in range(4)},
    }


def test_a_pod_that_only_the_limit_keeps_out_preempts_a_pod_of_its_queue() -> None:
    low = [group("low", phase="Running", minimum=0), pod("low-0", "low", cpu=2, node="a", priority=1)]
    high = [priority_class("high", 9), group("high", priority="high"), pod("high-0", "high", cpu=2, priority=9)]
    usable = conf("allocate, preempt", ["priority", "gang"], ["predicates", "nodegroup"])
    plan = plan_of(grouped("a", cpu=16), limited('{"a": {"cpu": 3}}', need=["a"]), low, high, conf=usable)
    assert [e.pod for e in plan.evictions] == ["ns/low-0"]
    assert nominations(plan) == {"high-0": "a"}


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"a": 3}', '{"a": {"cpu": "lots"}}', '{"a": {"cpu": true}}', '{"a": {"cpu": -1}}', "[" * 100_000],
)
def test_limits_that_cannot_be_read_keep_the_queue_s_pods_waiting_and_say_so(text: str) -> None:
    others: list[Objects] = [choosy("other", need=["a"]), gang("o", 1, queue="other")]
    plan = plan_of(grouped("a"), limited(text, need=["a"]), others, group(), pod("p"), conf=groups_conf())
    assert why(plan) == "0/1 nodes are unavailable: 1 node group resource limit annotation invalid."
    (finding,) = plan.findings
    assert (finding.where, finding.code) == ("queue q", "InvalidNodeGroupLimits")
    assert finding.message.startswith(f"annotation {LIMITS} is invalid: {text[:200]}")
    assert 'write resources by node group, such as {"g1": {"cpu": "10"}}' in finding.message
    assert binds(plan) == {"o-w-0": "a"}


def test_the_queue_s_wishes_are_served() -> None:
    plan = plan_of(grouped("a"), limited('{"a": {"cpu": 3}}', need=["a"]), gang("g", 1), conf=groups_conf())
    assert (plan.queues["q"].conditions, plan.findings) == ((), ())


def test_arguments_of_the_wrong_type_are_warned_about_and_change_nothing() -> None:
    plan = plan_of(node("n1"), gang("g", 1), conf=groups_conf(strict="sometimes"))
    assert [str(finding) for finding in plan.findings] == [
        "plugin nodegroup: strict takes true or false, not 'sometimes'; True is kept"
    ]
    assert binds(plan) == {}
