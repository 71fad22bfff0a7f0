"""Usage over time as stacked bars."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.dashboard.usage_chart import HEIGHT, MOST_NAMES, OTHERS, ranks, usage_chart


def test_the_largest_queue_is_the_lowest_bar_and_the_first_line() -> None:
    chart = usage_chart([{"a": 1.0, "b": 3.0}, {}, {"a": 1.0}])
    assert [(line.name, line.total) for line in chart.lines] == [("b", 3.0), ("a", 2.0)]
    assert [(bar.x, bar.rank, bar.y, bar.height) for bar in chart.bars] == [
        (0, 0, 25.0, 75.0),
        (0, 1, 0.0, 25.0),
        (2, 1, 75.0, 25.0),
    ]
    assert (chart.top, chart.width) == (4.0, 3)


def test_many_small_queues_are_one() -> None:
    chart = usage_chart([{f"queue-{number}": float(number) for number in range(1, 10)}])
    assert [line.name for line in chart.lines][-1] == OTHERS
    assert chart.lines[-1].total == 1 + 2 + 3
    assert len(chart.lines) == MOST_NAMES + 1


def test_nothing_in_use_has_no_bars() -> None:
    assert usage_chart([{}, {"a": 0.0}]).bars == []


amounts = st.dictionaries(st.sampled_from("abcdefghij"), st.floats(0, 1e6), max_size=10)


@given(st.lists(amounts, max_size=8))
def test_bars_stand_on_each_other_within_the_chart(parts: list[dict[str, float]]) -> None:
    chart = usage_chart(parts)
    for x in range(len(parts)):
        edge = HEIGHT
        for bar in (bar for bar in chart.bars if bar.x == x):
            assert bar.y + bar.height == pytest.approx(edge, abs=0.02)
            edge = bar.y
        assert edge >= -0.1


def test_a_queue_has_the_same_colour_in_all_charts() -> None:
    cpu, gpu = [{"a": 9.0, "b": 1.0, "c": 2.0}], [{"b": 50.0, "a": 5.0}]
    colours = ranks([cpu, gpu])
    assert colours == {"b": 0, "a": 1, "c": 2}
    shown = [{line.name: line.rank for line in usage_chart(each, colours).lines} for each in (cpu, gpu)]
    assert shown == [{"a": 1, "c": 2, "b": 0}, {"b": 0, "a": 1}]


@pytest.mark.parametrize(
    ("amount", "edge"), [(4.0, 4.0), (4.1, 5.0), (0.0123, 0.015), (960.0, 1000.0), (1000.0, 1000.0), (0.0, 0.0)]
)
def test_the_upper_edge_is_a_short_number(amount: float, edge: float) -> None:
    assert usage_chart([{"a": amount}]).top == pytest.approx(edge)
