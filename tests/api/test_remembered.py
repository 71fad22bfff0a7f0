"""Answers that are remembered by text."""

from __future__ import annotations

from kilauea.api.remembered import remembered


def test_an_answer_is_made_once_unless_its_text_is_long_or_too_many_came_since() -> None:
    asked: list[str] = []

    @remembered(2, longest=3)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [length(text) for text in ("a", "b", "a", "long", "long", "c", "a")] == [1, 1, 1, 4, 4, 1, 1]
    assert asked == ["a", "b", "long", "long", "c", "a"]
