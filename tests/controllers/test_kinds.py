"""The kinds that controllers know which are about objects of every kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kilauea.api.kinds import BUILT_IN
from kilauea.api.ports import Key, Outcome, Resource, View
from kilauea.client import kept
from kilauea.controllers.kinds import DEFINED_KINDS, stored_kinds
from kilauea.controllers.objects import NOTHING
from support.controlled import Cluster
from support.definitions import DEFINITIONS, establish, trees

MERGE = "application/merge-patch+json"
LONG = trees({"type": "object", "description": "x" * 100_000})
"""A definition that is too large to be kept decoded."""


class AboutAll:
    """A controller that does nothing about objects of every kind."""

    name = "about-all"
    interests = (DEFINED_KINDS,)

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        return NOTHING


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(AboutAll())


def defined(cluster: Cluster) -> list[Resource]:
    """The kinds besides those built in."""
    found = list(stored_kinds(cluster.cache))
    assert found[: len(BUILT_IN)] == list(BUILT_IN)
    return found[len(BUILT_IN) :]


def test_a_kind_is_known_from_when_it_is_established_until_its_definition_goes(cluster: Cluster) -> None:
    cluster.refresh()
    assert defined(cluster) == []
    cluster.api.good("POST", DEFINITIONS, LONG)
    cluster.refresh()
    assert defined(cluster) == []
    establish(cluster.api, LONG)
    cluster.refresh()
    assert defined(cluster) == [Resource("example.com", "v1", "trees", "Tree", namespaced=False)]
    path = f"{DEFINITIONS}/{LONG['metadata']['name']}"
    cluster.api.good("DELETE", path)
    cluster.api.good("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
    cluster.refresh()
    assert defined(cluster) == []


def test_a_look_at_a_key_reads_no_definition(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.api.good("POST", DEFINITIONS, LONG)
    establish(cluster.api, LONG)
    cluster.refresh()

    def refuse(_: object) -> None:
        raise AssertionError("an object was read")

    monkeypatch.setattr(kept, "split", refuse)
    monkeypatch.setattr(kept, "_unpack", refuse)
    assert len(defined(cluster)) == 1
