"""The array maths of the hot loop: its forms for few and for many nodes give the same results, to the last bit."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kilauea.engine.evaluation import kernels

Array = np.ndarray[Any, Any]
AMOUNTS = st.integers(0, 2**45)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    """Used amounts, amounts asked for, and allocatable amounts of one to eight nodes; sizes repeat, as in clusters."""
    count = draw(st.integers(1, kernels.FEW))
    sizes = draw(st.lists(st.integers(1, 2**45), min_size=1, max_size=3))
    allocatable = np.array([[draw(st.sampled_from(sizes)) for _ in range(count)] for _ in range(2)])
    free = draw(st.sampled_from([0, 1, 7]))
    used = np.array([[draw(st.integers(0, int(most) + free)) for most in row] for row in allocatable])
    return used, np.array([[draw(AMOUNTS)], [draw(AMOUNTS)]]), allocatable


def both(function: Callable[[], Array]) -> tuple[Array, Array]:
    """The results of a function in its form for few nodes, and in that for many."""
    few = function()
    with patch.object(kernels, "FEW", 0):
        return few, function()


@given(nodes(), st.integers(0, 100), st.integers(0, 100))
def test_few_nodes_are_scored_as_many_are(some: tuple[Array, Array, Array], by_cpu: int, by_memory: int) -> None:
    used, asked, allocatable = some
    weights = np.array([[by_cpu], [by_memory]], dtype=float)
    for function in (
        lambda: kernels.balance_gain(used, asked, allocatable, True),
        lambda: kernels.fullness(used, asked, allocatable, weights, True),
        lambda: kernels.mean_hundredths(np.maximum(allocatable - used, 0), allocatable, True),
    ):
        few, many = both(function)
        assert few.dtype == many.dtype
        assert few.tolist() == many.tolist()
