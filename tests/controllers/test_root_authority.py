"""The certificate of the authority, in every namespace."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kilauea.api.kinds import CONFIG_MAPS, NAMESPACES
from kilauea.api.ports import Key
from kilauea.controllers.root_authority import RootAuthorityController
from support.controlled import Cluster

AUTHORITY = "-----BEGIN CERTIFICATE-----\n"
NAME = "kube-root-ca.crt"


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    made = cluster_of(RootAuthorityController(AUTHORITY))
    made.create(NAMESPACES, {"metadata": {"name": "team"}})
    made.settle()
    return made


def test_every_namespace_has_it(cluster: Cluster) -> None:
    found = {each["metadata"]["namespace"]: each["data"] for each in cluster.all(CONFIG_MAPS)}
    assert set(found) == {"default", "kube-node-lease", "kube-public", "kube-system", "team"}
    assert all(data == {"ca.crt": AUTHORITY} for data in found.values())


def test_one_that_is_deleted_comes_back(cluster: Cluster) -> None:
    cluster.delete(CONFIG_MAPS, NAME)
    cluster.settle()
    assert cluster.get(CONFIG_MAPS, NAME)["data"] == {"ca.crt": AUTHORITY}


def test_one_that_is_changed_is_mended_and_others_are_left_alone(cluster: Cluster) -> None:
    cluster.create(CONFIG_MAPS, {"metadata": {"name": "mine"}, "data": {"a": "b"}})
    cluster.patch(CONFIG_MAPS, NAME, {"data": {"ca.crt": "another", "more": "x"}})
    cluster.settle()
    assert cluster.get(CONFIG_MAPS, NAME)["data"] == {"ca.crt": AUTHORITY}
    assert cluster.get(CONFIG_MAPS, "mine")["data"] == {"a": "b"}


def test_a_namespace_that_goes_is_given_none(cluster: Cluster) -> None:
    cluster.delete(NAMESPACES, "team")
    cluster.api.run(cluster.client.delete(CONFIG_MAPS, Key("team", NAME)))
    cluster.settle()
    assert "team" in cluster.names(NAMESPACES)
    assert "team" not in {each["metadata"]["namespace"] for each in cluster.all(CONFIG_MAPS)}
