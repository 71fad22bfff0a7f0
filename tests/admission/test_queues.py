"""Queues: defaults, own amounts, the place in the tree, amounts in the tree, deletion; and trees that are let in."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.admission import queues
from kilauea.admission.lookups import INTERESTS
from kilauea.admission.registry import HOOKS, mutations
from kilauea.admission.review import Settings
from kilauea.api.kinds import POD_GROUPS, QUEUES
from kilauea.api.ports import Seen
from kilauea.api.wellknown import HIERARCHY, HIERARCHY_WEIGHTS, PAUSED
from kilauea.apiserver.patch.json_patch import json_patch
from kilauea.client.view import Cache
from support.admitted import Data, denial, queue, review_of, view_of

SETTINGS = Settings()


def made(name: str, parent: str = "root", **spec: Any) -> Data:
    """A queue with amounts."""
    found = queue(name, parent)
    found["spec"].update(spec)
    return found


def cpu(kind: str, amount: str) -> Data:
    """An amount of cpu as the spec of a queue has it."""
    return {kind: {"resource": {"cpu": amount}} if kind == "guarantee" else {"cpu": amount}}


def annotated(name: str, path: str, weights: str) -> Data:
    """A queue with a path in its annotations."""
    found = queue(name)
    found["metadata"]["annotations"] = {HIERARCHY: path, HIERARCHY_WEIGHTS: weights}
    return found


def seen(*given: Data) -> Cache:
    """A view of queues; the given ones stand for those that are always there."""
    view = Cache()
    for interest in INTERESTS:
        view.declare(interest.resource, interest.labels, interest.indexes)
    everyone = {each["metadata"]["name"]: each for each in (queue("root"), queue("default"), *given)}
    for each in everyone.values():
        view.declare(QUEUES).on_events([Seen("ADDED", msgspec.json.encode(each), "1")])
    return view


def refusal(new: Data | None, *others: Data, old: Data | None = None, settings: Settings = SETTINGS) -> str:
    """Why a queue may not be created, changed or deleted beside others; empty if it may."""
    operation: Any = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
    there = [*others, *([old] if old else [])]
    review = review_of(new if new is not None else old, operation, old, QUEUES)
    if new is None:
        review = type(review)(operation, QUEUES, "", review.name, None, old)
    return denial(queues.validate, review, seen(*there), settings)


def completed(obj: Data) -> Any:
    """A queue with what is filled in."""
    patch = queues.mutate(review_of(obj, resource=QUEUES), view_of(), SETTINGS)
    return json_patch(copy.deepcopy(obj), patch)


# --- defaults


def test_a_new_queue_gives_back_and_has_a_weight_of_one() -> None:
    assert completed({"metadata": {"name": "q"}})["spec"] == {"reclaimable": True, "weight": 1}
    assert completed(made("q", weight=0))["spec"] == {"parent": "root", "reclaimable": True, "weight": 1}
    assert completed(made("q", weight=3, reclaimable=False))["spec"]["reclaimable"] is False


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("eng/dev", ("root/eng/dev", "1/2/8")),
        ("root/eng", ("root/eng", "2/8")),
        ("rootless/a", ("root/rootless/a", "1/2/8")),
    ],
)
def test_paths_begin_at_root(path: str, expected: tuple[str, str]) -> None:
    annotations = completed(annotated("q", path, "2/8"))["metadata"]["annotations"]
    assert (annotations[HIERARCHY], annotations[HIERARCHY_WEIGHTS]) == expected


# --- own amounts


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"capability": {"cpu": "-1"}}, '.capability.cpu: Invalid value: "-1": must be greater than or equal to 0'),
        ({"deserved": {"pods": "1500m"}}, '.deserved.pods: Invalid value: "1500m": must be an integer'),
        ({"deserved": {"a.io/gpu": "0.5"}}, '.deserved.a.io/gpu: Invalid value: "0.5": must be an integer'),
        (cpu("guarantee", "4"), '.deserved.cpu: Invalid value: "<nil>": deserved[cpu] must be >= guarantee[cpu]=4'),
        (
            cpu("deserved", "4") | cpu("guarantee", "5"),
            '.deserved.cpu: Invalid value: "4": deserved[cpu]=4 must be >= guarantee[cpu]=5',
        ),
        (
            cpu("deserved", "5") | cpu("capability", "4"),
            '.deserved.cpu: Invalid value: "5": deserved[cpu]=5 must be <= capability[cpu]=4',
        ),
    ],
)  # fmt: skip
def test_amounts_that_cannot_be(spec: Data, message: str) -> None:
    assert refusal(made("q", **spec)) == f"requestBody.spec{message}"


def test_all_faults_of_a_queue_are_told_at_once() -> None:
    words = refusal(made("q", capability={"cpu": "-1", "memory": "-1"}))
    assert words.startswith("[requestBody.spec.capability.cpu: ")
    assert ", requestBody.spec.capability.memory: " in words


def test_memory_beyond_thousandths_is_counted_and_beyond_counting_is_refused() -> None:
    assert refusal(made("q", capability={"memory": "4Pi"})) == ""
    assert 'Invalid value: "32Pi"' in refusal(made("q", capability={"memory": "32Pi"}))


@pytest.mark.parametrize("state", ["Open", "Closed", "Closing", "Unknown"])
def test_a_queue_in_any_state_can_be_edited(state: str) -> None:
    old = queue("q", state=state)
    assert refusal(old | {"spec": {"parent": "root", "weight": 2}}, old=old) == ""


@pytest.mark.parametrize(
    ("path", "weights", "why"),
    [
        ("root/a", "1", "volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights"),
        ("root/a", "1/x", 'x in the 1/x is invalid number: strconv.ParseFloat: parsing "x": invalid syntax'),
        ("root/a", "1/0", "0 in the 1/0 must be larger than 0"),
        ("root/eng", "1/1", "root/eng is not allowed to be in the sub path of root/eng/dev of queue dev"),
    ],
)
def test_paths_that_cannot_be(path: str, weights: str, why: str) -> None:
    words = refusal(annotated("q", path, weights), annotated("dev", "root/eng/dev", "1/2/8"))
    assert words.startswith("requestBody.metadata.annotations: Invalid value: ")
    assert words.endswith(why)


# --- the place


def chain(depth: int) -> list[Data]:
    """Queues `q1` to `qN`, each under the one before."""
    return [queue(f"q{level}", f"q{level - 1}" if level > 1 else "root") for level in range(1, depth + 1)]


@pytest.mark.parametrize(
    ("new", "others", "message"),
    [
        (queue("q", "q"), [], "queue q cannot use itself as parent"),
        (
            queue("q", "ghost"),
            [],
            'failed to get parent queue ghost of queue q: queue.scheduling.volcano.sh "ghost" not found',
        ),
        (queue("q6", "q5"), chain(5), "queue q6 exceeds the maximum allowed depth of 5"),
    ],
)
def test_places_that_cannot_be(new: Data, others: list[Data], message: str) -> None:
    assert refusal(new, *others) == message


def test_a_queue_does_not_move_under_its_own_children() -> None:
    first, *others = chain(3)
    words = "queue q1 cannot have queue q3 as parent because that creates a cycle: q1 > q2 > q3 > q1"
    assert refusal(queue("q1", "q3"), *others, old=first) == words


def test_a_queue_does_not_move_so_that_those_under_it_lie_too_deep() -> None:
    others = [*chain(4), queue("below", "moved")]
    assert refusal(queue("moved", "q3"), *others, old=queue("moved")) == ""
    words = "queue below exceeds the maximum allowed depth of 5"
    assert refusal(queue("moved", "q4"), *others, old=queue("moved")) == words


def with_groups(view: Cache, *phases: str) -> Cache:
    """A view with pod groups in the queue `par`."""
    indexer = view.declare(POD_GROUPS)
    for number, phase in enumerate(phases):
        group = {
            "metadata": {"name": f"g{number}", "namespace": "ns"},
            "spec": {"queue": "par"},
            "status": {"phase": phase},
        }
        indexer.on_events([Seen("ADDED", msgspec.json.encode(group), "1")])
    return view


def test_a_queue_with_work_does_not_become_a_parent() -> None:
    new = review_of(queue("q", "par"), resource=QUEUES)
    busy = with_groups(view_of(queue("par")), "Running", "Completed", "Pending")
    words = "queue par cannot be the parent queue of queue q because it has PodGroups that are not Completed: 2"
    assert denial(queues.validate, new, busy) == words
    assert denial(queues.validate, new, with_groups(view_of(queue("par")), "Completed")) == ""
    parent = with_groups(view_of(queue("par"), queue("old", "par")), "Running")
    assert denial(queues.validate, new, parent) == ""


def test_a_queue_with_allocated_pods_does_not_become_a_parent() -> None:
    par = queue("par") | {"status": {"state": "Open", "allocated": {"pods": "3"}}}
    words = "queue par cannot be the parent queue of queue q because it has allocated Pods: 3"
    assert refusal(queue("q", "par"), par) == words


# --- amounts in the tree


@pytest.mark.parametrize(
    ("new", "others", "message"),
    [
        (
            made("c2", "p1", **cpu("deserved", "3")),
            [made("p1", **cpu("deserved", "4")), made("c1", "p1", **cpu("deserved", "3"))],
            "parent queue p1 validation failed: sum of children's deserved (cpu 6000.00, memory 0.00) exceeds parent's "
            "deserved limit (cpu 4000.00, memory 0.00)",
        ),
        (
            made("c", "p", deserved={"nvidia.com/gpu": "2", "memory": "1Gi"}),
            [made("p", deserved={"memory": "2Gi"})],
            "parent queue p validation failed: sum of children's deserved (cpu 0.00, memory 1073741824.00, "
            "nvidia.com/gpu 2000.00) exceeds parent's deserved limit (cpu 0.00, memory 2147483648.00)",
        ),
        (
            made("c", "p", **cpu("capability", "4500m")),
            [made("g", **cpu("capability", "4")), made("p", "g")],
            "queue c capability[cpu]=4500m exceeds its ancestor's capability=4",
        ),
        (
            made("c", "p", capability={"nvidia.com/gpu": "4"}),
            [made("p", capability={"nvidia.com/gpu": "2"})],
            "queue c capability[nvidia.com/gpu]=4000.00 exceeds its ancestor's capability=2000.00",
        ),
    ],
)
def test_children_that_would_have_more_than_their_parents(new: Data, others: list[Data], message: str) -> None:
    assert refusal(new, *others) == message


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            cpu("capability", "2") | cpu("deserved", "2"),
            "queue p capability[cpu]=2 is smaller than its descendants' max capability=3",
        ),
        (
            cpu("deserved", "1"),
            "queue p validation failed: sum of children's deserved (cpu 2000.00, memory 0.00) exceeds parent's "
            "deserved limit (cpu 1000.00, memory 0.00)",
        ),
        (
            {},
            "queue p validation failed: sum of children's deserved (cpu 2000.00, memory 0.00) exceeds parent's "
            "deserved limit (cpu 0.00, memory 0.00)",
        ),
    ],
)
def test_parents_that_would_have_less_than_their_children(spec: Data, message: str) -> None:
    old = made("p", **cpu("capability", "4"), **cpu("deserved", "2"))
    others = [made("c", "p", **cpu("deserved", "2")), made("d", "c", **cpu("capability", "3"))]
    assert refusal(made("p", **spec), *others, old=old) == message


def test_nothing_of_what_a_parent_lacks_is_promised_by_a_zero() -> None:
    child = made("c", "p", deserved={"nvidia.com/gpu": "0", "cpu": "1"})
    assert refusal(child, made("p", deserved={"cpu": "2"})) == ""


def test_what_is_under_root_is_limited_by_no_one() -> None:
    assert refusal(made("q", **cpu("deserved", "1000")), made("root", "", **cpu("deserved", "1"))) == ""


def test_a_change_that_touches_no_amount_is_let_in_though_the_tree_is_wrong() -> None:
    old = made("c", "p", **cpu("deserved", "2"))
    assert refusal(old | {"spec": old["spec"] | {"weight": 7}}, made("p"), old=old) == ""


@pytest.mark.parametrize("parent", ["q", "root", "missing"])
def test_root_never_gets_a_parent(parent: str) -> None:
    new = {"metadata": {"name": "root"}, "spec": {"parent": parent}}
    words = f"queue root cannot have queue {parent} as parent because it is above all queues"
    assert refusal(new, queue("q"), old=queue("root")) == words
    assert refusal(new, queue("q")) == words
    assert refusal({**new, "spec": {"parent": parent, "weight": 2}}, queue("q"), old=new) == ""


def test_the_amounts_of_root_are_protected_unless_told_otherwise() -> None:
    old, new = queue("root"), {"metadata": {"name": "root"}, "spec": cpu("capability", "3")}
    words = "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
    assert refusal(new, old=old) == words
    assert refusal(new, old=old, settings=Settings(protect_root=False)) == ""
    assert refusal(queue("root") | {"spec": {"weight": 2}}, old=old) == ""


# --- deletion


@pytest.mark.parametrize(
    ("name", "others", "settings", "message"),
    [
        ("default", [], SETTINGS, "`default` queue can not be deleted"),
        ("root", [], SETTINGS, "`root` queue can not be deleted"),
        (
            "p",
            [queue("b", "p"), queue("a", "p")],
            SETTINGS,
            "queue p can not be deleted because it has 2 child queues: a, b",
        ),
        ("p", [], SETTINGS, ""),
        (
            "p",
            [],
            Settings(check_allocated_pods=True),
            "queue p cannot be deleted because it has allocated Pods: 3",
        ),
    ],
)
def test_queues_that_cannot_be_deleted(name: str, others: list[Data], settings: Settings, message: str) -> None:
    old = queue(name) | {"status": {"allocated": {"pods": 3}}}
    assert refusal(None, *others, old=old, settings=settings) == message


# --- trees


NAMES = ("a", "b", "c", "d", "e")
AMOUNT = st.sampled_from([None, 0, 1, 2, 4])


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, str | None, dict[str, int | None]]:
    """A write of a queue: its name, its parent (None to delete it) and its amounts."""
    parent = draw(st.sampled_from([None, "root", "root", *NAMES]))
    return (
        draw(st.sampled_from(NAMES)),
        parent,
        {kind: draw(AMOUNT) for kind in ("capability", "deserved", "guarantee")},
    )


def value(found: Data, kind: str) -> int:
    """The cpus of a queue; 0 if it does not say."""
    spec = found["spec"].get(kind) or {}
    return int((spec.get("resource") or {} if kind == "guarantee" else spec).get("cpu", 0))


def check_tree(tree: dict[str, Data]) -> None:
    """No circle, no missing parent, no sum and no ceiling above what is over it."""
    for name, found in tree.items():
        above, at = [], found
        while at["spec"]["parent"] != "root":
            at = tree[at["spec"]["parent"]]
            above.append(at)
            assert at is not found, f"{name} is in a circle"
        assert len(above) < 5
        ceilings = [value(each, "capability") for each in above if value(each, "capability")]
        assert not ceilings or value(found, "capability") <= ceilings[0]
        children = [each for each in tree.values() if each["spec"]["parent"] == name]
        for kind in ("deserved", "guarantee") if children else ():
            assert sum(value(child, kind) for child in children) <= value(found, kind)


@given(st.lists(steps(), max_size=14))
def test_trees_that_were_let_in_are_in_order(writes: list[tuple[str, str | None, dict[str, int | None]]]) -> None:
    tree: dict[str, Data] = {}
    for name, parent, amounts in writes:
        old = tree.get(name)
        others = [each for key, each in tree.items() if key != name]
        if parent is None:
            if old is not None and not refusal(None, *others, old=old):
                del tree[name]
        else:
            spec: Data = {}
            for kind, amount in amounts.items():
                spec |= {} if amount is None else cpu(kind, str(amount))
            new = made(name, parent, **spec)
            if not refusal(new, *others, old=old):
                tree[name] = new
        check_tree(tree)


JUNK = st.recursive(
    st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=2), max_leaves=3
)


@given(st.dictionaries(st.sampled_from(["parent", "capability", "weight", "guarantee"]), JUNK), JUNK)
def test_queues_of_any_form_are_completed_without_a_fault_or_left_alone(spec: Data, annotations: Any) -> None:
    hook = next(each for each in HOOKS if each.path == "/queues/mutate")
    obj = {"metadata": {"name": "q", "annotations": annotations}, "spec": spec}
    json_patch(copy.deepcopy(obj), mutations(hook, review_of(obj, resource=QUEUES), view_of(), SETTINGS))


@pytest.mark.parametrize(("value", "allowed"), [("true", True), ("false", True), ("", False), ("yes", False)])
def test_a_queue_is_paused_by_true_or_false(value: str, allowed: bool) -> None:
    paused = queue("q")
    paused["metadata"]["annotations"] = {PAUSED: value}
    why = refusal(paused)
    assert (why == "") == allowed
    assert allowed or f'metadata.annotations[kilauea.dev/paused]: Invalid value: "{value}": use true or false' in why
