"""Pods are told their colocation configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import COLOCATIONS, PODS
from kilauea.controllers.colocation import ColocationController
from support.controlled import Cluster


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    made = cluster_of(ColocationController(), volcano=True)
    for name, app in (("p", "web"), ("q", "db")):
        spec = {"containers": [{"name": "c", "image": "busybox:1"}]}
        made.create(PODS, {"metadata": {"name": name, "labels": {"app": app}}, "spec": spec})
    return made


def configuration(cluster: Cluster, name: str, selector: dict[str, Any] | None, **ratios: int) -> None:
    spec = {"memoryQos": ratios, **({} if selector is None else {"selector": selector})}
    cluster.create(COLOCATIONS, {"metadata": {"name": name}, "spec": spec})
    cluster.wait(2)


def told(cluster: Cluster, pod: str) -> tuple[str | None, str | None]:
    annotations = cluster.get(PODS, pod)["metadata"].get("annotations") or {}
    return annotations.get("volcano.sh/colocation-config-name"), annotations.get("volcano.sh/colocation-config")


def test_selected_pods_are_told_and_others_not(cluster: Cluster) -> None:
    configuration(cluster, "c", {"matchLabels": {"app": "web"}}, highRatio=80, lowRatio=10, minRatio=5)
    assert told(cluster, "p") == ("c", '{"memoryQos":{"highRatio":80,"lowRatio":10,"minRatio":5}}')
    assert told(cluster, "q") == (None, None)


@pytest.mark.parametrize(("selector", "selected"), [({}, True), (None, False)])
def test_an_empty_selector_selects_all_and_none_at_all_nothing(
    cluster: Cluster, selector: dict[str, Any] | None, selected: bool
) -> None:
    configuration(cluster, "c", selector)
    assert [told(cluster, pod)[0] for pod in "pq"] == (["c", "c"] if selected else [None, None])


def test_the_newest_counts_and_what_is_gone_is_undone(cluster: Cluster) -> None:
    configuration(cluster, "old", {}, highRatio=50)
    configuration(cluster, "new", {"matchLabels": {"app": "web"}}, highRatio=60)
    assert (told(cluster, "p")[0], told(cluster, "q")[0]) == ("new", "old")
    cluster.delete(COLOCATIONS, "new")
    cluster.wait(2)
    assert told(cluster, "p")[0] == "old"
    cluster.delete(COLOCATIONS, "old")
    cluster.wait(2)
    assert told(cluster, "p") == told(cluster, "q") == (None, "{}")


def test_a_changed_configuration_reaches_its_pods_and_a_changed_label_its_pod(cluster: Cluster) -> None:
    configuration(cluster, "c", {"matchLabels": {"app": "web"}}, highRatio=80)
    cluster.patch(COLOCATIONS, "c", {"spec": {"memoryQos": {"highRatio": 70}}})
    cluster.patch(PODS, "q", {"metadata": {"labels": {"app": "web"}}})
    cluster.wait(2)
    assert told(cluster, "p") == told(cluster, "q")
    assert '"highRatio":70' in (told(cluster, "q")[1] or "")


def test_text_that_only_looks_different_is_left_and_nonsense_is_mended(cluster: Cluster) -> None:
    configuration(cluster, "c", {}, highRatio=80, lowRatio=0, minRatio=0)
    spaced = '{"memoryQos": {"minRatio": 0, "lowRatio": 0, "highRatio": 80}}'
    cluster.patch(PODS, "p", {"metadata": {"annotations": {"volcano.sh/colocation-config": spaced}}})
    cluster.patch(PODS, "q", {"metadata": {"annotations": {"volcano.sh/colocation-config": "{"}}})
    cluster.wait(2)
    assert told(cluster, "p") == ("c", spaced)
    assert told(cluster, "q")[1] != "{"
