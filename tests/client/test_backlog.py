"""What waits to be written: who goes first, who gives way, and what is never lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.client.backlog import Backlog


def drained(backlog: Backlog[str, int]) -> list[int]:
    return [backlog.take() for _ in range(len(backlog))]


def test_what_is_important_goes_first_and_else_what_came_first() -> None:
    backlog: Backlog[str, int] = Backlog(8, 8)
    for number, important in enumerate((False, True, False, True)):
        assert backlog.put("s", str(number), number, important=important)
    assert drained(backlog) == [1, 3, 0, 2]
    with pytest.raises(KeyError):
        backlog.take()


def test_the_same_again_keeps_its_place() -> None:
    backlog: Backlog[str, int] = Backlog(8, 8)
    for item, text in enumerate(("a", "b", "a")):
        backlog.put("s", text, item, important=True)
    assert drained(backlog) == [2, 1]


def test_the_rest_is_refused_when_there_is_no_room() -> None:
    backlog: Backlog[str, int] = Backlog(8, 2)
    assert [backlog.put("s", str(n), n, important=False) for n in range(3)] == [True, True, False]
    assert backlog.put("s", "1", 9, important=False)
    assert (drained(backlog), backlog.lost) == ([0, 9], 1)


def test_under_pressure_only_the_newest_of_a_subject_is_kept() -> None:
    backlog: Backlog[str, int] = Backlog(4, 2)
    for number, subject in enumerate("aabbcc"):
        assert backlog.put(subject, str(number), number, important=True)
    assert (drained(backlog), backlog.lost) == ([0, 1, 3, 5], 2)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.booleans(), st.booleans()), max_size=200))
def test_the_last_important_word_about_each_subject_is_never_lost_while_subjects_have_room(
    puts: list[tuple[int, int, bool, bool]],
) -> None:
    backlog: Backlog[int, tuple[int, int]] = Backlog(14, 4)
    taken, last = [], {}
    for subject, text, important, take in puts:
        backlog.put(subject, str(text), (subject, text), important=important)
        if important:
            last[subject] = (subject, text)
        assert len(backlog) <= 14 + 4
        if take:
            taken.append(backlog.take())
    taken += [backlog.take() for _ in range(len(backlog))]
    assert set(last.values()) <= set(taken)
