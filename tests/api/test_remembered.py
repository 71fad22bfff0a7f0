"""Answers that are remembered by text."""

from __future__ import annotations

import tracemalloc

from kilauea.api.cron import parse_schedule
from kilauea.api.names import (
    data_key_problems,
    label_problems,
    label_value_problems,
    path_segment_problems,
    qualified_name_problems,
    service_name_problems,
    subdomain_problems,
)
from kilauea.api.quantity import resource_amounts
from kilauea.api.remembered import remembered, remembered_items, remembered_parts
from kilauea.api.selectors import is_label_key, is_label_value
from kilauea.nodes.script import read_script


def test_an_answer_is_made_once_unless_its_text_is_long_or_too_many_came_since() -> None:
    asked: list[str] = []

    @remembered(2, longest=3)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [length(text) for text in ("a", "b", "a", "long", "long", "c", "a")] == [1, 1, 1, 4, 4, 1, 1]
    assert asked == ["a", "b", "long", "long", "c", "a"]


def test_long_parts_are_not_remembered() -> None:
    asked: list[int] = []

    @remembered_parts(4, longest=10)
    def count(words: tuple[str, ...], pairs: tuple[tuple[str, str], ...] = ()) -> int:
        asked.append(1)
        return len(words) + len(pairs)

    for _ in range(3):
        assert count(("a", "b")) == 2
    assert len(asked) == 1
    for _ in range(3):
        assert count(("a",), (("x", "y" * 10),)) == 2
    assert len(asked) == 4


def test_checks_of_names_do_not_keep_what_clients_send() -> None:
    checks = [subdomain_problems, label_problems, qualified_name_problems, label_value_problems, data_key_problems]
    checks += [service_name_problems, path_segment_problems]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(20):
        for check in checks:
            check(f"{number}-" + "a" * 500_000)
        is_label_key(f"{number}-" + "a" * 500_000)
        is_label_value(f"{number}-" + "a" * 500_000)
        assert not read_script(("echo", f"{number} " + "a" * 500_000), ()).tells_time
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 3_000_000


def test_long_tuples_are_not_remembered() -> None:
    asked: list[int] = []

    @remembered_items(4, longest=2)
    def count(items: tuple[int, ...]) -> int:
        asked.append(len(items))
        return len(items)

    assert [count(items) for items in ((1,), (1,), (1, 2, 3), (1, 2, 3))] == [1, 1, 3, 3]
    assert asked == [1, 3, 3]


def test_a_schedule_of_a_megabyte_is_not_remembered() -> None:
    usual, long = "*/5 * * * *", f"{'1,' * 50_000}1 * * * *"
    assert parse_schedule(usual) is parse_schedule(usual)
    assert parse_schedule(long) is not parse_schedule(long)


def test_long_texts_in_short_tuples_are_not_kept() -> None:
    asked: list[int] = []

    @remembered_items(4, longest=2, characters=10)
    def count(items: tuple[tuple[str, str], ...]) -> int:
        asked.append(len(items))
        return len(items)

    for _ in range(3):
        count((("cpu", "1"), ("memory", "2")))  # 11 characters
    assert asked == [2, 2, 2]
    for _ in range(3):
        count((("cpu", "1"), ("pods", "2")))
    assert asked == [2, 2, 2, 2]


def test_the_memory_for_quantities_is_bounded_whatever_clients_send() -> None:
    tracemalloc.start()
    try:
        for number in range(300):
            resource_amounts({f"example.com/{number}-{'x' * 100_000}": "1"})
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 3_000_000  # of 30 million characters
