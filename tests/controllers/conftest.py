"""Clusters for tests of controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.controlled import Cluster


@pytest.fixture
def cluster_of() -> Iterator[Callable[..., Cluster]]:
    """Makes clusters with controllers, and ends them."""
    made: list[Cluster] = []

    def make(*controllers: Any, volcano: bool = False) -> Cluster:
        made.append(Cluster(*controllers, volcano=volcano))
        return made[-1]

    yield make
    for each in made:
        each.close()
