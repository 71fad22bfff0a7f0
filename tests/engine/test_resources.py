"""Amounts of resources: comparisons and arithmetic, and what a pod asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kilauea.engine.model.resources import (
    ResourceAxis,
    add,
    cap,
    dominant_share,
    exceeded,
    insufficient,
    is_empty,
    largest,
    less_equal,
    names,
    ranked_shares,
    share,
)
from support.builders import GI, GPU, pod, state_of

Amounts = dict[str, float]


@pytest.mark.parametrize(
    ("a", "b", "fits"),
    [
        pytest.param({"cpu": 100.05}, {"cpu": 100}, True, id="a twentieth more is within the tolerance"),
        pytest.param({"cpu": 100.2}, {"cpu": 100}, False, id="a fifth more is not"),
        pytest.param({GPU: 1000}, {}, False, id="a scalar that the right side lacks does not fit"),
        pytest.param({}, {GPU: 1000}, True, id="a scalar that only the right side has is not looked at"),
        pytest.param({}, {"cpu": -5}, False, id="cpu is compared even when the left side does not list it"),
        pytest.param({"cpu": 1, "memory": 2}, {"cpu": 1, "memory": 1}, False, id="one dimension too many is enough"),
        pytest.param({}, {}, True, id="nothing fits into nothing"),
    ],
)
def test_less_equal(a: Amounts, b: Amounts, fits: bool) -> None:
    assert less_equal(a, b) is fits


@pytest.mark.parametrize(
    ("a", "limit", "asked", "short"),
    [
        pytest.param({"cpu": 100.05}, {"cpu": 100}, {"cpu": 1}, ["cpu"], id="there is no tolerance"),
        pytest.param({"cpu": 100}, {"cpu": 100}, {"cpu": 1}, [], id="all of it is not too much"),
        pytest.param({"cpu": 9}, {"cpu": 1}, {"memory": 1}, [], id="what is not asked for is not looked at"),
        pytest.param({"cpu": 9}, {"cpu": 1}, {"cpu": 0}, [], id="asking for none is not asking"),
        pytest.param({"pods": 9}, {"pods": 1}, {"pods": 1}, [], id="pod slots are not looked at"),
        pytest.param({GPU: 1000}, {}, {GPU: 1000}, [GPU], id="a scalar without a limit is limited to nothing"),
        pytest.param(
            {"z/z": 2, "memory": 2, "a/a": 2, "cpu": 2},
            {},
            {"z/z": 1, "memory": 1, "a/a": 1, "cpu": 1},
            ["cpu", "memory", "a/a", "z/z"],
            id="cpu comes first, then memory, then the others by name",
        ),
    ],
)
def test_insufficient(a: Amounts, limit: Amounts, asked: Amounts, short: list[str]) -> None:
    assert insufficient(a, limit, asked) == short


@pytest.mark.parametrize(
    ("a", "b", "left"),
    [
        pytest.param({"cpu": 3, GPU: 2}, {"cpu": 4, GPU: 1}, {"cpu": 0, "memory": 0, GPU: 1}, id="never below zero"),
        pytest.param({GPU: 2}, {GPU: 2}, {"cpu": 0, "memory": 0}, id="a scalar that is used up is absent, not zero"),
        pytest.param({"cpu": 5}, {}, {"cpu": 5, "memory": 0}, id="without a right side all of it"),
        pytest.param({}, {GPU: 3}, {"cpu": 0, "memory": 0}, id="of nothing, nothing"),
    ],
)
def test_exceeded(a: Amounts, b: Amounts, left: Amounts) -> None:
    assert exceeded(a, b) == left


@pytest.mark.parametrize(
    ("missing_is_zero", "gpu"),
    [
        pytest.param(False, 2, id="a scalar without a limit stays"),
        pytest.param(True, 0, id="or becomes zero if that is wanted"),
    ],
)
def test_cap(missing_is_zero: bool, gpu: int) -> None:
    capped = cap({"cpu": 4, "memory": 8, GPU: 2}, {"cpu": 6, "memory": 3}, missing_is_zero=missing_is_zero)
    assert capped == {"cpu": 4, "memory": 3, GPU: gpu}


def test_cap_counts_absent_cpu_and_memory_of_the_limit_as_zero() -> None:
    assert cap({"cpu": 4, "memory": 8}, {"cpu": 1}) == {"cpu": 1, "memory": 0}


def test_cap_adds_no_scalar_that_only_the_limit_has() -> None:
    assert GPU not in cap({"cpu": 4}, {"cpu": 6, GPU: 3})


def test_largest_takes_scalars_of_both_sides() -> None:
    assert largest({"cpu": 1, "a/a": 5}, {"cpu": 2, "b/b": 7}) == {"cpu": 2, "a/a": 5, "b/b": 7}


@pytest.mark.parametrize(
    ("amounts", "empty"),
    [
        pytest.param({}, True, id="nothing is empty"),
        pytest.param({"pods": 1}, True, id="a pod slot alone is empty"),
        pytest.param({"cpu": 0.09}, True, id="less than the tolerance is empty"),
        pytest.param({"cpu": 1}, False, id="one milli-core is something"),
        pytest.param({GPU: 1}, False, id="a scalar is something"),
    ],
)
def test_is_empty(amounts: Amounts, empty: bool) -> None:
    assert is_empty(amounts) is empty


def test_names_leaves_out_what_there_is_none_of() -> None:
    assert names({"z/z": 1, "pods": 2, "memory": 3, "cpu": 0}) == ["memory", "pods", "z/z"]


def test_add_creates_what_is_missing_and_takes_away() -> None:
    amounts: Amounts = {"cpu": 3}
    add(amounts, {"cpu": 1, GPU: 2})
    add(amounts, {"cpu": 4}, -1)
    assert amounts == {"cpu": 0, GPU: 2}


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        pytest.param(3, 4, 0.75, id="a part of a whole"),
        pytest.param(0, 0, 0.0, id="none of nothing"),
        pytest.param(1, 0, 1.0, id="some of nothing is all of it"),
    ],
)
def test_share(part: float, whole: float, expected: float) -> None:
    assert share(part, whole) == expected


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        pytest.param({"cpu": 1, "memory": 6}, {"cpu": 10, "memory": 10}, 0.6, id="the largest share counts"),
        pytest.param({GPU: 5}, {"cpu": 10}, 0.0, id="a resource that the whole lacks does not count"),
        pytest.param({"cpu": 5}, {}, 0.0, id="of nothing at all the share is zero"),
    ],
)
def test_dominant_share(part: Amounts, whole: Amounts, expected: float) -> None:
    assert dominant_share(part, whole) == expected


def test_ranked_shares_are_of_what_the_whole_has() -> None:
    assert ranked_shares({"memory": 6, GPU: 5}, {"cpu": 10, "memory": 10, "pods": 0}) == [0.6, 0.0]


def test_axis_keeps_rows_and_leaves_out_what_it_does_not_know() -> None:
    axis = ResourceAxis()
    axis.admit([GPU, "cpu", GPU])
    axis.admit(["a/a"])
    assert axis.names == ["cpu", "memory", "pods", GPU, "a/a"]
    assert axis.vector({"a/a": 4, "cpu": 1, "b/b": 9}).tolist() == [1, 0, 0, 0, 4]
    assert axis.amounts(np.array([0, 2, 0, 3, 0])) == {"memory": 2, GPU: 3}


# --- what a pod asks for


def asked(cpu: str, memory: str = "0", **more: Any) -> dict[str, Any]:
    """A container."""
    return {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu", "memory"),
    [
        pytest.param({"containers": [asked("1500m", "1Gi")]}, 1500, GI, id="one container"),
        pytest.param(
            {"initContainers": [asked("2", "3Gi")], "containers": [asked("2", "1Gi"), asked("1", "1Gi")]},
            3000,
            3 * GI,
            id="the sum of the containers or the largest init step, by resource",
        ),
        pytest.param(
            {"initContainers": [asked("1", **SIDECAR), asked("2")], "containers": [asked("1")]},
            3000,
            0,
            id="a sidecar runs beside later init containers",
        ),
        pytest.param(
            {"initContainers": [asked("2"), asked("1", **SIDECAR)], "containers": [asked("1")]},
            2000,
            0,
            id="but not beside earlier ones",
        ),
        pytest.param(
            {"initContainers": [asked("1", **SIDECAR)], "containers": [asked("1")]},
            2000,
            0,
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {"containers": [asked("1", "1Gi")], "resources": {"requests": {"cpu": "5"}}},
            5000,
            GI,
            id="what the pod asks for as a whole replaces the sum, by resource",
        ),
        pytest.param(
            {"containers": [asked("1")], "overhead": {"cpu": "250m", "memory": "1Gi"}},
            1250,
            GI,
            id="overhead comes on top",
        ),
        pytest.param({"containers": [asked("1"), {"name": "d"}]}, 1000, 0, id="a container may ask for nothing"),
    ],
)
def test_requests_of_a_pod(spec: dict[str, Any], cpu: int, memory: int) -> None:
    requests = state_of(pod("p", **spec)).tasks["ns/p"].spec.requests
    assert (requests.get("cpu", 0), requests.get("memory", 0), requests["pods"]) == (cpu, memory, 1)


@pytest.mark.parametrize(
    ("requests", "counted"),
    [
        pytest.param({GPU: 2}, {GPU: 2000}, id="an extended resource counts in thousandths"),
        pytest.param({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": 4 << 20}, id="huge pages count in bytes"),
        pytest.param({"count/jobs.batch": 3}, {}, id="a count of objects is not a resource"),
        pytest.param({"storage": "1Gi"}, {}, id="a name without a domain is not a resource"),
        pytest.param({"requests.nvidia.com/gpu": 3}, {}, id="a name of a quota is not a resource"),
    ],
)
def test_which_requests_count(requests: dict[str, Any], counted: dict[str, int]) -> None:
    assert state_of(pod("p", requests=requests)).tasks["ns/p"].spec.requests == {**counted, "pods": 1}


@pytest.mark.parametrize(
    ("requests", "empty"),
    [
        pytest.param({}, True, id="no requests"),
        pytest.param({"cpu": "0", "memory": "0"}, True, id="requests of zero"),
        pytest.param({"cpu": "1m"}, False, id="a milli-core"),
        pytest.param({GPU: 1}, False, id="a GPU"),
    ],
)
def test_which_pods_are_best_effort(requests: dict[str, Any], empty: bool) -> None:
    assert state_of(pod("p", requests=requests)).tasks["ns/p"].spec.best_effort is empty
