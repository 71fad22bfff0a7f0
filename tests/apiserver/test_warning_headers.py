"""Warning headers: whatever is in a warning, the header is one that may be sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.warning_headers import MOST, warning_headers


def test_a_warning_is_quoted_and_told_once() -> None:
    assert warning_headers(['unknown field "a"'] * 2) == [("Warning", r'299 - "unknown field \"a\""')]


def test_what_may_not_stand_in_a_header_is_shown_by_its_number() -> None:
    assert warning_headers(["a\nb\x1f\u200b"]) == [("Warning", r'299 - "a\\x0ab\\x1f\\u200b"')]


def test_many_warnings_are_cut_and_the_last_left_out() -> None:
    headers = warning_headers([f"{number:03}{'x' * 300}" for number in range(100)])
    assert len(headers) == MOST // 256
    assert {len(value) for _, value in headers} == {256 + len('299 - ""')}


def test_one_long_warning_is_told_whole() -> None:
    assert len(warning_headers(["x" * 3000])[0][1]) == 3000 + len('299 - ""')


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_every_header_may_be_sent(texts: list[str]) -> None:
    assert all(value.isprintable() for _, value in warning_headers(texts))
