"""What all tests share: the hypothesis profiles and the `shared` folder.

The profile is `default`, or the one that the environment variable HYPOTHESIS_PROFILE names, or the one given to pytest
as `--hypothesis-profile=thorough`.
"""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parents[1]

# `default` draws the same examples in every run, so that a red test is red for everyone; `thorough` looks for new ones.
settings.register_profile("default", max_examples=60, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=1000, deadline=None, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure() -> None:
    """Processes hear Ctrl-C, also if the tests were started in the background, where shells have it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of garbage collections, each of which takes seconds otherwise."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside this checkout: recorded clusters and decisions that are not part of the repository."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the shared folder is not beside this checkout")
    return folder
