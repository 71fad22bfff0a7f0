"""Conditions of selectors by name: they mean what the selector means, and cost what the object costs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.selectors import Requirement, matches
from kilauea.apiserver.conditions import conditions_of

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["", "x", "y", "2", "10", "-3", str(2**70)])
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", ""])


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(OPERATORS)
    at_least, at_most = {"Gt": (1, 1), "Lt": (1, 1), "In": (0, 3), "NotIn": (0, 3)}.get(operator, (0, 0))
    values = draw(st.lists(VALUES, min_size=at_least, max_size=at_most, unique=True))
    return Requirement(draw(NAMES), operator, tuple(sorted(values)))


@given(st.lists(requirements(), max_size=6), st.dictionaries(NAMES, VALUES))
def test_they_hold_when_all_requirements_hold(selector: list[Requirement], labels: dict[str, str]) -> None:
    assert conditions_of(selector).match(labels) == matches(tuple(selector), labels)


class Counting(dict[str, str]):
    """Labels that count how often they are read."""

    reads = 0

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.reads += 1
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        self.reads += 1
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.reads += 1
        return super().__contains__(name)


def test_an_object_is_not_asked_for_each_of_many_conditions() -> None:
    labels = Counting(a="x", b="y")
    names = [f"n{number}" for number in range(20_000)]
    values = tuple(sorted(names))
    for selector in (
        [Requirement(name, "NotIn", ("x",)) for name in names],
        [Requirement("a", "NotIn", (name,)) for name in names],
        [Requirement(name, "DoesNotExist", ()) for name in names],
        [Requirement(name, "Exists", ()) for name in names],
        [Requirement("a", "In", values), Requirement("a", "NotIn", values)],
        [Requirement("a", "Gt", (str(number),)) for number in range(20_000)],
    ):
        conditions_of(selector).match(labels)
    assert labels.reads < 20
