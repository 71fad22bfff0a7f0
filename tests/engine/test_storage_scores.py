"""Nodes scored by how full their storage gets: `volumebinding.shape`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kilauea.api.meta import Object
from kilauea.engine.plugins.predicates.volume_score import curve_of
from support.builders import HOSTNAME, binds, conf, group, labels_of, node, plan_of
from support.device_objects import claim as device_claim
from support.device_objects import device_class, slice_, way
from support.volume_objects import claim, local, room, storage_class, tracking, user, volume

EMPTY = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
FULL = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
DRIVER = [storage_class(provisioner="csi"), tracking("csi")]


def nodes(count: int) -> list[Object]:
    return [node(f"n{i}", cpu=9, labels={HOSTNAME: f"n{i}"}) for i in range(1, count + 1)]


def disk(name: str, capacity: str, of: str = "slow") -> Object:
    return room(f"on-{name}-{of}", of, capacity, labels_of({HOSTNAME: name}))


def chosen(objects: list[Object], shape: Any, **arguments: Any) -> str:
    """The node of the pod `p`."""
    given = {"volumebinding.shape": shape, **arguments}
    plan = plan_of(group("g"), *objects, conf=conf("allocate", ["gang"], [("predicates", given)]))
    return binds(plan)["p"]


@pytest.mark.parametrize(
    ("shape", "scores"),
    [
        (EMPTY, {0: 100, 25: 75, 99: 1, 100: 0}),
        (FULL, {0: 0, 33: 33, 100: 100}),
        ([{"utilization": 50, "score": 3}], {0: 30, 50: 30, 100: 30}),
        ([{"utilization": 20, "score": 2}, {"utilization": 80, "score": 9}], {0: 20, 20: 20, 50: 55, 80: 90, 100: 90}),
        ([{"utilization": 0, "score": 10}, {"utilization": 3, "score": 0}], {1: 67, 2: 34, 3: 0, 4: 0}),
        ([{"score": 5}, {"utilization": 10}], {0: 50, 5: 25, 10: 0}),
    ],
)
def test_between_two_points_the_score_is_on_the_line(shape: list[Any], scores: dict[int, int]) -> None:
    curve = curve_of(shape)
    assert {use: int(curve[use]) for use in scores} == scores


@pytest.mark.parametrize(
    ("shape", "where"),
    [
        (["x"], "[0]: 'x' is not a map"),
        ([{"utilization": -1}], "[0].utilization: -1 is not an integer from 0 to 100"),
        ([{"utilization": 1, "score": 11}], "[0].score: 11 is not an integer from 0 to 10"),
        ([{"utilization": True}], "[0].utilization: True"),
        ([{"utilization": float("nan")}], "[0].utilization: nan"),
        ([{"utilization": 5}, {"utilization": 5}], "[1].utilization: 5 is not above 5"),
        ([{"utilization": 1e300}], "[0].utilization: 1e+300"),
    ],
)
def test_a_shape_that_cannot_be_read_is_named_and_scores_nothing(shape: list[Any], where: str) -> None:
    given = {"volumebinding.shape": shape}
    configured = conf("allocate", ["gang"], [("predicates", given)])
    objects = [*nodes(2), *DRIVER, disk("n1", "4Gi"), disk("n2", "8Gi"), claim(), user("p", "data")]
    plan = plan_of(group("g"), *objects, conf=configured)
    assert binds(plan) == {"p": "n1"}
    assert any(where in f"{each.where}{each.message}" or where in each.message for each in plan.findings)


@pytest.mark.parametrize(("shape", "node_name"), [(EMPTY, "n2"), (FULL, "n1"), ([], "n1")])
def test_volumes_are_made_where_the_room_suits_the_shape(shape: list[Any], node_name: str) -> None:
    objects = [*nodes(2), *DRIVER, disk("n1", "2Gi"), disk("n2", "8Gi"), claim(), user("p", "data")]
    assert chosen(objects, shape) == node_name


@pytest.mark.parametrize(("shape", "node_name"), [(EMPTY, "n1"), (FULL, "n2")])
def test_volumes_that_there_are_count_by_what_they_hold(shape: list[Any], node_name: str) -> None:
    volumes = [volume("big", "9Gi", nodeAffinity=local("n1")), volume("small", "1Gi", nodeAffinity=local("n2"))]
    objects = [*nodes(2), storage_class(), *volumes, claim(), user("p", "data")]
    assert chosen(objects, shape) == node_name


def test_each_class_has_its_own_share() -> None:
    other = storage_class("fast", provisioner="csi")
    rooms = [disk("n1", "2Gi"), disk("n1", "10Gi", "fast"), disk("n2", "4Gi"), disk("n2", "4Gi", "fast")]
    claims = [claim("a"), claim("b", of="fast")]
    objects = [*nodes(2), *DRIVER, other, *rooms, *claims, user("p", "a", "b")]
    assert chosen(objects, EMPTY) == "n2"  # 75 and 75, against 50 and 90


def test_the_room_that_pods_of_the_cycle_take_counts() -> None:
    rooms = [disk("n1", "10Gi"), disk("n2", "9Gi")]
    pods = [claim("a", "4Gi"), claim("b", "4Gi"), user("p0", "a"), user("p1", "b")]
    given = {"volumebinding.shape": EMPTY}
    configured = conf("allocate", ["gang"], [("predicates", given)])
    assert binds(plan_of(group("g"), *nodes(2), *DRIVER, *rooms, *pods, conf=configured)) == {"p0": "n1", "p1": "n2"}


def test_the_weight_is_that_of_the_score_among_others() -> None:
    objects = [node("n1", cpu=9, labels={HOSTNAME: "n1"}), node("n2", cpu=4, labels={HOSTNAME: "n2"})]
    objects += [*DRIVER, disk("n1", "2Gi"), disk("n2", "8Gi"), claim(), user("p", "data")]
    order = ("nodeorder", {"leastrequested.weight": 5})
    for weight, expected in ((0, "n1"), (50, "n2")):
        given = {"volumebinding.shape": EMPTY, "volumebinding.weight": weight}
        configured = conf("allocate", ["gang"], [("predicates", given), order])
        assert binds(plan_of(group("g"), *objects, conf=configured)) == {"p": expected}


def test_a_driver_without_room_to_tell_scores_nothing() -> None:
    objects = [*nodes(2), storage_class(provisioner="csi"), claim(), user("p", "data")]
    assert chosen(objects, EMPTY) == "n1"


def test_alternatives_of_device_claims_and_storage_count_together() -> None:
    """Both are scores of the plugin predicates that look at the whole cluster."""
    ways = {"name": "r", "firstAvailable": [way("large", count=2), way("small")]}
    devices = [device_class(), slice_("", "a", "b"), device_claim("c", ways)]
    objects = [*nodes(2), *DRIVER, disk("n1", "2Gi"), disk("n2", "8Gi"), claim(), *devices]
    both = user("p", "data", resourceClaims=[{"name": "x", "resourceClaimName": "c"}])
    assert chosen([*objects, both], EMPTY) == "n2"


def test_a_curve_is_made_of_integers() -> None:
    assert curve_of(EMPTY).dtype == np.int64
