"""An API server of others, and an API in memory that hands on to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from support.aggregated_server import AggregatedServer, Aggregation, aggregation


@pytest.fixture(scope="session")
def front_proxy() -> trustme.CA:
    """The authority of the front proxy."""
    return trustme.CA()


@pytest.fixture
def server(front_proxy: trustme.CA) -> Iterator[AggregatedServer]:
    """An API server of others."""
    made = AggregatedServer(front_proxy)
    yield made
    made.close()


@pytest.fixture
def behind(tmp_path: Path, front_proxy: trustme.CA, server: AggregatedServer) -> Iterator[Aggregation]:
    """An API in memory whose APIServices are checked; it ends before the server does."""
    with aggregation(tmp_path, front_proxy) as made:
        yield made
