"""Results that are kept for as long as a part of an object is the very same."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.controllers.remembering import MOST_CHARACTERS, MOST_KEPT, MOST_VALUES, Remembered, is_small


class Reader:
    """Counts how often it reads."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, part: dict[str, Any], more: int = 0) -> int:
        self.times += 1
        return int(part["replicas"]) + more


def test_the_very_same_part_is_read_once_and_an_equal_one_again() -> None:
    reader = Reader()
    replicas = Remembered(reader)
    first, second = {"replicas": 1}, {"replicas": 1}
    assert [replicas(each) for each in (first, second, first, second)] == [1, 1, 1, 1]
    assert reader.times == 2


def test_other_arguments_count_as_well() -> None:
    replicas, part = Remembered(Reader()), {"replicas": 1}
    assert [replicas(part, 1), replicas(part, 2), replicas(part, 1)] == [2, 3, 2]


def test_no_more_than_a_bounded_number_is_kept_and_the_oldest_goes_first() -> None:
    reader = Reader()
    replicas = Remembered(reader)
    parts = [{"replicas": number} for number in range(MOST_KEPT + 1)]
    assert list(map(replicas, parts)) == list(range(MOST_KEPT + 1))
    replicas(parts[1])
    assert reader.times == MOST_KEPT + 1
    replicas(parts[0])
    assert reader.times == MOST_KEPT + 2


LARGE: list[dict[str, Any]] = [
    {"replicas": 1, "tasks": [{}] * MOST_VALUES},
    {"replicas": 1, "labels": {str(number): "" for number in range(MOST_VALUES)}},
    {"replicas": 1, "command": ["x" * MOST_CHARACTERS, "y"]},
    {"replicas": 1, "x" * MOST_CHARACTERS: 1},
]


@pytest.mark.parametrize("part", LARGE, ids=["many values", "many names", "a long text", "a long name"])
def test_a_large_part_is_read_each_time(part: dict[str, Any]) -> None:
    reader = Reader()
    replicas = Remembered(reader)
    assert [replicas(part), replicas(part)] == [1, 1]
    assert reader.times == 2
    assert not is_small(part)
