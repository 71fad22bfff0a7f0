"""Disruption budgets follow their pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import BUDGETS, PODS, STATEFUL_SETS
from kilauea.api.ports import Outcome, finished
from kilauea.controllers import disruption
from kilauea.controllers.disruption import DisruptionController
from kilauea.controllers.statefulsets.controller import StatefulSetController
from support.controlled import Cluster, template

LABELS = {"app": "db"}


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    made = cluster_of(DisruptionController(), StatefulSetController())
    spec = {"serviceName": "db", "replicas": 4, "selector": {"matchLabels": LABELS}, "template": template(LABELS)}
    made.create(STATEFUL_SETS, {"metadata": {"name": "db"}, "spec": {**spec, "podManagementPolicy": "Parallel"}})
    made.settle()
    return made


def budget(cluster: Cluster, selector: dict[str, str] = LABELS, **spec: Any) -> dict[str, Any]:
    cluster.create(BUDGETS, {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": selector}, **spec}})
    cluster.settle()
    return figures(cluster)


def figures(cluster: Cluster) -> dict[str, Any]:
    status = cluster.get(BUDGETS, "b")["status"]
    names = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    return {name: status[name] for name in names}


def numbers(*values: int) -> dict[str, int]:
    return dict(zip(("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"), values, strict=True))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 3}, numbers(4, 3, 4, 1)),
        ({"minAvailable": "50%"}, numbers(4, 2, 4, 2)),
        ({"minAvailable": "51%"}, numbers(4, 3, 4, 1)),
        ({"maxUnavailable": 1}, numbers(4, 3, 4, 1)),
        ({"maxUnavailable": "100%"}, numbers(4, 0, 4, 4)),
        ({"minAvailable": 9}, numbers(4, 9, 4, 0)),
    ],
)
def test_a_budget_says_how_many_pods_may_go(cluster: Cluster, spec: dict[str, Any], expected: dict[str, int]) -> None:
    cluster.say_all("Running")
    assert budget(cluster, **spec) == expected


def test_a_percentage_is_of_the_pods_that_are_wanted_not_of_those_there_are(cluster: Cluster) -> None:
    cluster.say_all("Running")
    cluster.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 8}})
    cluster.settle()
    assert budget(cluster, maxUnavailable="25%") == numbers(8, 6, 4, 0)


def test_a_budget_of_nothing_allows_nothing(cluster: Cluster) -> None:
    assert budget(cluster, {"app": "none"}, maxUnavailable=1) == numbers(0, 0, 0, 0)
    (condition,) = cluster.get(BUDGETS, "b")["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionAllowed",
        "False",
        "InsufficientPods",
    )


def test_an_eviction_is_counted_once_until_its_pod_is_gone_or_was_not_deleted(cluster: Cluster) -> None:
    cluster.say_all("Running")
    budget(cluster, minAvailable=3)
    pod = cluster.get(PODS, "db-0")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "db-0", "namespace": "default"}}
    answer = cluster.api.ask("POST", "/api/v1/namespaces/default/pods/db-0/eviction", eviction)
    assert answer.code == 201
    answer = cluster.api.ask(
        "POST", "/api/v1/namespaces/default/pods/db-1/eviction", {**eviction, "metadata": {"name": "db-1"}}
    )
    assert answer.code == 429
    cluster.settle()
    assert (
        "disruptedPods" not in cluster.get(BUDGETS, "b")["status"]
        or not cluster.get(BUDGETS, "b")["status"]["disruptedPods"]
    )
    assert figures(cluster) == numbers(4, 3, 3, 0)
    cluster.say_all("Running")
    cluster.settle()
    cluster.say_all("Running")
    cluster.settle()
    assert cluster.get(PODS, "db-0")["metadata"]["uid"] != pod["metadata"]["uid"]
    assert figures(cluster) == numbers(4, 3, 4, 1)


def test_a_look_at_budgets_that_are_right_asks_for_nothing(cluster: Cluster) -> None:
    cluster.say_all("Running")
    budget(cluster, minAvailable=1)
    key = next(iter(DisruptionController.interests[0].keys(cluster.get(BUDGETS, "b"))))
    assert not finished(DisruptionController().reconcile(key, cluster.cache, cluster.api.now)).operations


def test_a_budget_that_selects_no_pod_is_told_once(cluster: Cluster) -> None:
    told = ("b", "NoPods", "No matching pods found")
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "none"}}}}
    cluster.create(BUDGETS, budget)
    cluster.settle()
    cluster.wait(60)
    assert cluster.told.count(told) == 1


def test_many_budgets_of_many_pods_are_looked_at_in_steps(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disruption, "READ_PER_STEP", 2)
    monkeypatch.setattr(disruption, "MATCHES_PER_STEP", 10)
    for number in range(8):
        spec = {"minAvailable": 1, "selector": {"matchLabels": LABELS}}
        cluster.create(BUDGETS, {"metadata": {"name": f"b{number}"}, "spec": spec})
    cluster.refresh()
    (key,) = DisruptionController.interests[0].keys(cluster.get(BUDGETS, "b0"))
    steps = DisruptionController().reconcile(key, cluster.cache, cluster.api.now)
    assert not isinstance(steps, Outcome)
    written = [len(operations) for operations in steps]
    assert written == [0, 0, 2, 2, 2, 2]  # four pods are read in two steps; then budgets two by two
    cluster.settle()
    assert {each["status"]["expectedPods"] for each in cluster.all(BUDGETS)} == {4}
