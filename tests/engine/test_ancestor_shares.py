"""Shares of ancestors that follow every placement are no less fair than those of the beginning of the cycle."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.engine.plan import Plan
from support.builders import plan_in, state_of
from support.queue_trees import Cluster, Gang, branches, configured, effects


def envy(cluster: Cluster, objects: list[Object], plan: Plan) -> float:
    """How far the last unit of a subtree lies above the share of a sibling that still wants something, at most.

    0 if under every parent each unit went to the child that had the smallest part of what it deserves.
    """
    held, worst = effects(cluster, objects, plan).after, 0.0
    for parent in {branch.parent for branch in cluster.branches}:
        children = [b for b in cluster.branches if b.parent == parent and b.deserved]
        unmet = [b for b in children if held[b.name]["cpu"] < plan.queues[b.name].request.get("cpu", 0)]
        for ahead, behind in itertools.permutations(unmet, 2):
            last = (held[ahead.name]["cpu"] - 1000) / ahead.deserved
            worst = max(worst, last - held[behind.name]["cpu"] / behind.deserved)
    return worst / 1000


@st.composite
def hungry(draw: st.DrawFn, full: bool) -> Cluster:
    """A tree whose leaves all want more single pods than there is room for; some run already."""
    tree = draw(branches(limits=False))
    leaves = [leaf.name for leaf in Cluster(tree, 0, (), ()).leaves]
    nodes = draw(st.integers(1, 4))
    held = draw(st.lists(st.sampled_from(leaves), max_size=3)) if full else []
    claims = [Gang(name, 4 * nodes, 1, 1, 0, "low") for name in leaves]
    return Cluster(tree, nodes, tuple(Gang(name, 3, 1, 1, 0, "low") for name in held), tuple(claims))


def envy_with(cluster: Cluster, shares: str) -> float:
    """The envy that one cycle of allocate leaves."""
    objects = cluster.objects()
    return envy(cluster, objects, plan_in(state_of(objects), configured("backfill", tree=True, ancestorShares=shares)))


@given(hungry(full=False))
def test_with_live_shares_every_unit_goes_to_the_subtree_that_is_furthest_behind(cluster: Cluster) -> None:
    assert envy_with(cluster, "live") <= 1e-9


@pytest.mark.slow
@given(hungry(full=True))
def test_live_shares_of_ancestors_are_no_less_fair_than_those_of_the_opening(cluster: Cluster) -> None:
    assert envy_with(cluster, "live") <= envy_with(cluster, "opening") + 1e-9
