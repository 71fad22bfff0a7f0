"""Numbers in texts that users choose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.numbers import LARGEST, plural, whole_number
from kilauea.controllers.deployments.scaling import scaled
from kilauea.controllers.jobs.indexes import parse_indexes
from kilauea.nodes.annotations import read_exit_code
from kilauea.nodes.script import read_script

LONG, ZEROS = "9" * 5000, "0" * 5000
"""Texts of more digits than Python reads."""


@given(st.integers(0, 2**80), st.integers(0, 30))
def test_digits_are_their_number_up_to_the_largest(number: int, zeros: int) -> None:
    assert whole_number("0" * zeros + str(number)) == min(number, LARGEST)


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", " 1", "1_0", "\u0661", "²", "1e3"])
def test_anything_else_is_no_number(text: str) -> None:
    assert whole_number(text) is None


def test_any_number_of_digits_is_read() -> None:
    assert whole_number(LONG) == LARGEST
    assert whole_number(ZEROS) == 0
    assert whole_number(ZEROS + "7") == 7


def test_controllers_and_simulated_pods_read_any_number_of_digits() -> None:
    assert scaled(f"{LONG}%", 3, up=False) > 100
    assert parse_indexes(f"1-{LONG},{LONG}", 4) == {1, 2, 3}
    assert (read_exit_code(ZEROS), read_exit_code(LONG)) == (0, None)
    assert read_script(("sh", "-c", f"exit {ZEROS}3"), (), ()).exit_code == 3


def test_one_thing_is_named_in_the_singular() -> None:
    assert [plural(n, "pod") for n in (0, 1, 2, 1000)] == ["0 pods", "1 pod", "2 pods", "1,000 pods"]
