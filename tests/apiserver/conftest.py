"""An API in memory for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.api_core import Api


@pytest.fixture
def api() -> Iterator[Api]:
    """The core of the API server without a transport."""
    made = Api()
    yield made
    made.close()
