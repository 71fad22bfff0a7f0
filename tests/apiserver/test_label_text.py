"""Label selectors as text: the quick way for plain ones says what the parser says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.label_text import parse_labels
from kilauea.apiserver.status import ApiFault

PARTS = [
    "app",
    "a-b",
    "example.com/app",
    "-a",
    "in",
    "notin",
    "in (a,b)",
    "=",
    "==",
    "!=",
    "!",
    "<",
    ">",
    "1",
    ",",
    " ",
]


def parsed(text: str) -> object:
    try:
        return parse_labels(text)
    except ApiFault as fault:
        return fault.encode()


@given(st.lists(st.sampled_from([*PARTS, "x" * 63, "x" * 64]), max_size=9))
def test_a_selector_means_the_same_with_white_space_which_the_parser_reads(parts: list[str]) -> None:
    text = "".join(parts)
    assert parsed(text) == parsed(f" {text}")


def test_twenty_thousand_plain_conditions_are_all_read() -> None:
    selector = parse_labels(",".join(f"key{number}!=b" for number in range(20_000)))
    assert len(selector) == 20_000
    assert selector[0] == ("key0", "NotIn", ("b",))
