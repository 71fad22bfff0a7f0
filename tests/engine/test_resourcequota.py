"""The plugin resourcequota: what a namespace's quotas leave decides who is admitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kilauea.api import core
from kilauea.api.meta import Object
from kilauea.engine.events import Gone
from support.builders import Objects, codes, conf, group, node, pending, phases, plan_in, plan_of, pod, state_of

ENQUEUE = conf("enqueue", ["resourcequota"])
Amounts = Mapping[str, Any]


def quota(hard: Amounts, used: Amounts | None = None, name: str = "all", namespace: str = "ns") -> Object:
    """A quota, with a status unless nothing is said about what is used."""
    data: dict[str, Any] = {"kind": "ResourceQuota", "metadata": {"name": name, "namespace": namespace}}
    data["spec"] = {"hard": dict(hard)}
    if used is not None:
        data["status"] = {"hard": dict(hard), "used": dict(used)}
    return msgspec.convert(data, core.ResourceQuota)


def waits(name: str, resources: Amounts | None, **more: Any) -> Objects:
    """A group that waits to be admitted, with this minimum."""
    return group(name, phase="Pending", resources=resources, **more)


def admitted(*objects: Objects) -> list[str]:
    """The groups that are admitted, in the order of their names."""
    return sorted(name for name, phase in phases(plan_of(*objects, conf=ENQUEUE)).items() if phase == "Inqueue")


@pytest.mark.parametrize(
    ("hard", "used", "asked", "fits"),
    [
        pytest.param({"cpu": 10}, {"cpu": 6}, {"cpu": 4}, True, id="all that is left"),
        pytest.param({"cpu": 10}, {"cpu": 6}, {"cpu": "4001m"}, False, id="a milli-core more"),
        pytest.param({"memory": "1Gi"}, {"memory": "1023Mi"}, {"memory": "1Mi"}, True, id="the last byte"),
        pytest.param({"memory": "1Gi"}, {"memory": "1023Mi"}, {"memory": 1048577}, False, id="a byte more"),
        pytest.param(
            {"memory": "9007199254740991"},
            {"memory": "9007199254740990"},
            {"memory": 1},
            True,
            id="numbers at the edge of exactness",
        ),
        pytest.param({"cpu": 1}, {"cpu": 1}, {"memory": "1Gi"}, True, id="what no quota names does not matter"),
        pytest.param({"requests.cpu": 1}, {"requests.cpu": 1}, {"cpu": 1}, True, id="names are compared as written"),
        pytest.param({"requests.cpu": 1}, {"requests.cpu": 1}, {"requests.cpu": 1}, False, id="also names of quotas"),
        pytest.param({"count/jobs.batch": 3}, {"count/jobs.batch": 3}, {"count/jobs.batch": 1}, False, id="counts"),
        pytest.param({"cpu": 1}, {"cpu": 5}, {}, True, id="who asks for nothing is admitted beyond the quota"),
        pytest.param({"cpu": 1}, {"cpu": 5}, None, True, id="so is who names no minimum"),
        pytest.param({"cpu": 1}, {}, {"cpu": 1}, True, id="what is not listed as used is not used"),
        pytest.param({"cpu": 2}, None, {"cpu": 3}, False, id="without a status the spec counts"),
        pytest.param({"cpu": 2}, None, {"cpu": 2}, True, id="and nothing is used"),
    ],
)
def test_a_minimum_against_a_quota(hard: Amounts, used: Amounts | None, asked: Amounts | None, fits: bool) -> None:
    assert admitted(quota(hard, used), waits("g", asked)) == ["g"] * fits


def test_every_quota_of_the_namespace_has_to_hold() -> None:
    quotas = [quota({"cpu": 10}, {}, "wide"), quota({"cpu": 1}, {}, "narrow"), quota({"cpu": 0}, {}, "x", "elsewhere")]
    groups = [waits("small", {"cpu": 1}, created=0), waits("large", {"cpu": 2}, created=1)]
    assert admitted(quotas, groups) == ["small"]


def test_what_was_admitted_in_the_cycle_counts() -> None:
    groups = [waits("a", {"cpu": 3}, created=0), waits("b", {"cpu": 2}, created=1), waits("c", {"cpu": 1}, created=2)]
    assert admitted(quota({"cpu": 10}, {"cpu": 6}), groups) == ["a", "c"]


def test_what_others_refused_does_not_count() -> None:
    both = conf("enqueue", ["resourcequota"], ["overcommit"])
    tiers = conf("enqueue", ["overcommit", "resourcequota"])
    groups = [waits("a", {"cpu": 3}, created=0), waits("b", {"cpu": 2}, created=1)]
    objects: list[Objects] = [node("n1", cpu=2), quota({"cpu": 4}, {}), groups]
    assert phases(plan_of(*objects, conf=tiers)).get("a", "Pending") == "Pending"
    assert phases(plan_of(*objects, conf=tiers))["b"] == "Inqueue"
    assert phases(plan_of(*objects, conf=both))["a"] == "Inqueue"


def test_who_is_refused_learns_by_how_much() -> None:
    first = waits("a", {"cpu": 3, "requests.memory": "1Gi"}, created=0)
    second = [waits("b", {"cpu": 2, "memory": "1Gi", "requests.memory": "2Gi"}, created=1), pod("p", "b")]
    hard, used = {"cpu": 10, "requests.memory": "4Gi"}, {"cpu": 6, "requests.memory": "2Gi"}
    plan = plan_of(quota(hard, used), first, second, conf=conf("enqueue", ["gang", "resourcequota"]))
    why = pending(plan)["p"]
    assert (why.code, why.resource, why.asked, why.left) == ("ResourceQuotaInsufficient", "cpu", 2000, 1000)
    assert why.message == (
        "resource quota insufficient, requested: cpu: 2, requests.memory: 2Gi, "
        "used: cpu: 6, requests.memory: 2Gi, limited: cpu: 10, requests.memory: 4Gi"
    )


def test_a_quota_that_cannot_be_read_is_left_out_and_named() -> None:
    state = state_of(quota({"cpu": "many"}, {}), quota({"cpu": 2}, {}, "good"), waits("g", {"cpu": 2}))
    assert [(p.kind, p.key) for p in state.problems.values()] == [("ResourceQuota", "ns/all")]
    assert phases(plan_in(state, ENQUEUE))["g"] == "Inqueue"


def test_a_quota_that_is_gone_counts_no_more() -> None:
    state = state_of(quota({"cpu": 1}, {}), waits("g", {"cpu": 2}), pod("p"))
    assert codes(plan_in(state, ENQUEUE)) == {"p": "ResourceQuotaInsufficient"}
    state.apply(Gone("ResourceQuota", "ns/all"))
    assert phases(plan_in(state, ENQUEUE))["g"] == "Inqueue"


def test_a_minimum_that_cannot_be_read_is_a_problem_of_its_group() -> None:
    state = state_of(waits("g", {"requests.cpu": "few"}))
    assert [(p.kind, p.key) for p in state.problems.values()] == [("PodGroup", "ns/g")]
