"""Sums of what placed pods and their terms say about a pod: as when each of them is compared with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.selectors import Selector, matches
from kilauea.engine.model import placed_terms
from kilauea.engine.model.namespaces import Namespaces
from kilauea.engine.model.neighbours import Neighbours, Wanted
from kilauea.engine.model.placed_terms import Around, PlacedTerms
from kilauea.engine.model.placements import LabelClass
from kilauea.engine.model.tasks import Task
from kilauea.engine.state import ClusterState
from support.builders import (
    HOSTNAME,
    Data,
    away,
    binds,
    conf,
    group,
    namespace,
    need,
    node,
    plan_of,
    pod,
    rather,
    state_of,
)

KEYS = st.sampled_from([HOSTNAME, "zone"])
NUMBERS = st.integers(0, 11)
NEEDS = st.builds(
    need, st.sampled_from(["app", "v"]), st.sampled_from(["In", "NotIn"]), NUMBERS.map(str), NUMBERS.map(str)
) | st.builds(need, st.sampled_from(["app", "v"]), st.sampled_from(["Exists", "DoesNotExist"]))
SELECTORS = st.lists(NEEDS, max_size=2).map(lambda found: {"matchExpressions": found}) | st.builds(
    lambda value: {"matchLabels": {"app": value}}, st.sampled_from("01")
)
AFFINITIES: st.SearchStrategy[Data] = st.one_of(
    st.builds(away, SELECTORS, KEYS),
    st.builds(away, SELECTORS, KEYS, namespaceSelector=st.just({})),
    st.builds(rather, st.integers(1, 9), SELECTORS, KEYS, away=st.booleans()),
)
PODS = st.lists(
    st.tuples(
        st.fixed_dictionaries({"app": st.sampled_from("01"), "v": NUMBERS.map(str)}),
        AFFINITIES,
        st.sampled_from(["default", "other"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=24,
)
STEPS = st.lists(st.tuples(st.integers(0, 23), st.integers(0, 3), st.booleans()), max_size=40)
"""Pods and nodes: the pod goes there, or leaves where it is; and whether all sums are asked for then."""

Sums = dict[str, dict[str, dict[str, int]]]
"""By kind, topology key and domain, those that are not zero."""


def cluster(pods: list[tuple[dict[str, str], Data, str, bool]]) -> ClusterState:
    """Four nodes, the last without a zone, and pods that wait."""
    nodes = [node(f"n{i}", labels={"zone": "ab"[i % 2]} if i < 3 else {}) for i in range(4)]
    made = [
        pod(f"p{i}", labels=labels, namespace=where, affinity=affinity)
        for i, (labels, affinity, where, _) in enumerate(pods)
    ]
    return state_of(nodes, group(), made, namespace("default"), namespace("other"))


def expected(state: ClusterState, placed: list[tuple[Task, int, bool]], mine: LabelClass) -> Sums:
    """The sums about pods of a class by placed pods (task, node, whether it terminates), term by term."""
    out: dict[str, dict[str, Counter[str]]] = {"repelling": {}, "ending": {}, "wishes": {}}
    for task, row, ends in placed:
        terms = [(0, term) for term in task.spec.anti_affinity] + [(w, t) for w, t in task.spec.preferred_pods]
        for weight, term in terms:
            within = mine.namespace in term.namespaces or term.namespace_selector is not None
            column = state.nodes.label(term.topology_key)
            if matches(term.selector, mine.labels) and within and column.ids[row] >= 0:
                for kind in ["wishes"] if weight else ["repelling", "ending"][: 1 + ends]:
                    domains = out[kind].setdefault(term.topology_key, Counter())
                    domains[column.values[column.ids[row]]] += weight or 1
    return nonzero(out)


def found(state: ClusterState, around: Around) -> Sums:
    """The sums as they were found."""
    kinds = {"repelling": around.repelling, "ending": around.ending, "wishes": around.wishes}
    return nonzero(
        {
            kind: {
                key: dict(zip(state.nodes.label(key).values, sums.tolist(), strict=True)) for key, sums in by.items()
            }
            for kind, by in kinds.items()
        }
    )


def nonzero(sums: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Sums:
    """The sums that are not zero."""
    kept = {
        kind: {key: {domain: n for domain, n in domains.items() if n} for key, domains in keys.items()}
        for kind, keys in sums.items()
    }
    return {kind: {key: domains for key, domains in keys.items() if domains} for kind, keys in kept.items()}


@given(PODS, STEPS, st.sampled_from([1, 100]))
def test_sums_are_those_of_all_terms_of_placed_pods(
    pods: list[tuple[dict[str, str], Data, str, bool]], steps: list[tuple[int, int, bool]], most: int
) -> None:
    state = cluster(pods)
    terms = PlacedTerms(state.nodes, state.classes, Namespaces(state.namespaces))
    terms.most_classes = most
    tasks = sorted(state.tasks.values(), key=lambda task: task.key)
    classes = [state.classes.get(number) for number in range(len(state.classes))]
    placed = {task.key: (task, at % 4, True) for at, task in enumerate(tasks) if pods[int(task.name[1:])][3]}
    for task, row, _ in placed.values():
        terms.placed(task.spec, row, 1, ending=True)
    for at, row, asked in [*steps, (0, 0, True)]:
        task = tasks[at % len(tasks)]
        there = placed.get(task.key)
        if there is None:
            placed[task.key] = (task, row, False)
            terms.placed(task.spec, row, 1)
        elif not there[2]:
            terms.placed(task.spec, there[1], -1)
            del placed[task.key]
        for mine in classes if asked else ():
            assert found(state, terms.around(mine)) == expected(state, list(placed.values()), mine)


@given(PODS, STEPS)
def test_counts_of_matching_pods_catch_up(
    pods: list[tuple[dict[str, str], Data, str, bool]], steps: list[tuple[int, int, bool]]
) -> None:
    state = cluster(pods)
    counts = Neighbours(state.nodes, state.placements, state.classes, Namespaces(state.namespaces), (), needed=True)
    tasks = sorted(state.tasks.values(), key=lambda task: task.key)
    wanted = {Wanted((term,)) for task in tasks for term in task.spec.anti_affinity}
    placed: dict[str, int] = {}
    for at, row, asked in [*steps, (0, 0, True)]:
        task = tasks[at % len(tasks)]
        before = placed.pop(task.key, None)
        if before is None:
            placed[task.key] = row
        state.placements.node[task.row] = placed.get(task.key, -1)
        counts.placed(task, row if before is None else before, 1 if before is None else -1)
        for each in wanted if asked else ():
            expect = np.zeros(4, dtype=np.int64)
            for other in tasks:
                if other.key in placed and counts.matches(each, state.classes.get(other.label_class)):
                    expect[placed[other.key]] += 1
            count, key = counts.matching(each), each.terms[0].topology_key
            assert count.by_node.tolist() == expect.tolist()
            ids = state.nodes.label(key).ids
            by_domain = [int(expect[ids == d].sum()) for d in range(len(state.nodes.label(key).values))]
            assert count.domain(state.nodes, key).tolist() == by_domain


def test_pods_that_each_repel_all_others_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    pods, compared = 60, 0

    def compare(selector: Selector | None, labels: Mapping[str, str]) -> bool:
        nonlocal compared
        compared += 1
        return matches(selector, labels)

    monkeypatch.setattr(placed_terms, "matches", compare)
    made = [
        pod(
            f"p{i}",
            labels={"v": f"{i}"},
            affinity=away({"matchExpressions": [need("v", "NotIn", f"{i}"), need("v", "Exists")]}),
        )
        for i in range(pods)
    ]
    plan = plan_of(group(), [node(f"n{i}") for i in range(pods)], made, conf=conf("allocate", ["gang"], ["predicates"]))
    assert sorted(binds(plan).values()) == sorted(f"n{i}" for i in range(pods))
    assert compared < 2 * pods
