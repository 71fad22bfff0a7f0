"""Cluster roles that are put together of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import CLUSTER_ROLES
from kilauea.controllers.cluster_roles import ClusterRoleAggregation
from support.controlled import Cluster

WIDGETS = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}
TO_VIEW = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(ClusterRoleAggregation())


def rules(cluster: Cluster, name: str) -> Any:
    cluster.settle()
    return cluster.get(CLUSTER_ROLES, name, "").get("rules") or []


def test_rules_of_a_role_with_a_label_become_those_of_view_edit_and_admin(cluster: Cluster) -> None:
    before = {name: rules(cluster, name) for name in ("view", "edit", "admin")}
    cluster.create(CLUSTER_ROLES, {"metadata": {"name": "widgets", "labels": TO_VIEW}, "rules": [WIDGETS]})
    for name, own in before.items():
        assert WIDGETS not in own
        assert WIDGETS in rules(cluster, name)
    cluster.patch(CLUSTER_ROLES, "widgets", {"metadata": {"labels": dict.fromkeys(TO_VIEW)}}, "")
    assert {name: rules(cluster, name) for name in before} == before


def test_a_rule_is_there_once_and_a_role_without_matches_has_none(cluster: Cluster) -> None:
    for name in ("a", "b"):
        labels = {"collect": "widgets"}
        cluster.create(CLUSTER_ROLES, {"metadata": {"name": name, "labels": labels}, "rules": [WIDGETS]})
    for name, value in (("some", "widgets"), ("none", "others")):
        rule = {"clusterRoleSelectors": [{"matchLabels": {"collect": value}}]}
        cluster.create(CLUSTER_ROLES, {"metadata": {"name": name}, "aggregationRule": rule, "rules": []})
    assert rules(cluster, "some") == [WIDGETS]
    assert rules(cluster, "none") == []


def test_roles_at_rest_are_not_written(cluster: Cluster) -> None:
    cluster.settle()
    before = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in cluster.all(CLUSTER_ROLES)}
    cluster.settle()
    after = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in cluster.all(CLUSTER_ROLES)}
    assert after == before
