"""`shared`: equal texts are one object, and are forgotten."""

from __future__ import annotations

from kilauea.api.shared import REMEMBERED, shared


def _text(number: int) -> str:
    return f"pod-{number}"  # a new object at each call


def test_equal_texts_are_one_object() -> None:
    first, second = _text(1), _text(1)
    assert first is not second
    assert shared(first) is shared(second)


def test_texts_that_are_no_longer_seen_are_forgotten() -> None:
    shared.cache_clear()
    for number in range(2 * REMEMBERED):
        shared(_text(number))
    assert shared.cache_info().currsize == REMEMBERED
