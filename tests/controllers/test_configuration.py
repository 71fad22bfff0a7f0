"""The scheduler's configuration in the config map where Volcano has it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kilauea.api.kinds import CONFIG_MAPS, NAMESPACES
from kilauea.controllers.configuration import FILE, LOOK_SECONDS, PLACE, ConfigurationController
from support.controlled import Cluster

Clusters = Callable[..., Cluster]


def told(cluster: Cluster) -> str:
    return str(cluster.get(CONFIG_MAPS, PLACE.name, PLACE.namespace)["data"][FILE])


def changed(cluster: Cluster, text: str) -> None:
    cluster.api.run(cluster.client.patch(CONFIG_MAPS, PLACE, {"data": {FILE: text}}))
    cluster.settle()


@pytest.mark.parametrize("kept", [True, False])
def test_it_is_made_with_its_namespace(cluster_of: Clusters, kept: bool) -> None:
    cluster = cluster_of(ConfigurationController(lambda: "actions: allocate\n", kept=kept))
    cluster.settle()
    assert PLACE.namespace in cluster.names(NAMESPACES)
    assert told(cluster) == "actions: allocate\n"


def test_one_that_is_a_file_s_is_mended_and_follows_the_file(cluster_of: Clusters) -> None:
    text: list[str | None] = ["one"]
    cluster = cluster_of(ConfigurationController(lambda: text[0], kept=True))
    cluster.settle()
    changed(cluster, "another")
    assert told(cluster) == "one"
    text[0] = "two"
    cluster.wait(LOOK_SECONDS)
    cluster.settle()
    assert told(cluster) == "two"


def test_one_that_is_people_s_stays_as_they_write_it(cluster_of: Clusters) -> None:
    cluster = cluster_of(ConfigurationController(lambda: "one", kept=False))
    cluster.settle()
    changed(cluster, "another")
    assert told(cluster) == "another"


def test_one_that_is_deleted_comes_back(cluster_of: Clusters) -> None:
    cluster = cluster_of(ConfigurationController(lambda: "one", kept=False))
    cluster.settle()
    cluster.api.run(cluster.client.delete(CONFIG_MAPS, PLACE))
    cluster.settle()
    assert told(cluster) == "one"


def test_a_file_that_cannot_be_read_leaves_what_it_said_before(cluster_of: Clusters) -> None:
    text: list[str | None] = ["one"]
    cluster = cluster_of(ConfigurationController(lambda: text[0], kept=True))
    cluster.settle()
    text[0] = None
    cluster.wait(LOOK_SECONDS)
    cluster.settle()
    assert told(cluster) == "one"
