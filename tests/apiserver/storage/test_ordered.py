"""The ordered objects of a resource against a sorted list of the same keys."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.storage import Event, Stored, ordered
from kilauea.apiserver.storage.objects import Objects
from kilauea.apiserver.storage.ordered import Ordered
from kilauea.apiserver.storage.usage import Usage

KEYS = st.text("abc/-", max_size=4)
CHANGES = st.lists(st.tuples(st.booleans(), KEYS), max_size=200)


@given(CHANGES, KEYS, KEYS, st.none() | st.integers(0, 30))
def test_what_lies_between_two_keys_is_what_a_sorted_list_has_there(
    changes: list[tuple[bool, str]], first: str, end: str, most: int | None
) -> None:
    small, ordered.CHUNK = ordered.CHUNK, 4
    try:
        naive, tested = {}, Ordered()
        for revision, (puts, key) in enumerate(changes):
            if puts:
                naive[key] = Stored(key, b"", revision, revision)
                tested.put(naive[key])
            elif naive.pop(key, None):
                tested.remove(key)
    finally:
        ordered.CHUNK = small
    wanted = [naive[key] for key in sorted(naive) if first <= key < end]
    assert tested.between("", "~") == [naive[key] for key in sorted(naive)]
    if first <= end:
        assert tested.between(first, end, most) == (wanted if most is None else wanted[:most])
        assert tested.count(first, end) == len(wanted)


def test_an_object_that_is_looked_up_again_and_again_is_looked_for_once_until_the_next_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []
    get = Ordered.get

    def noted(self: Ordered, key: str) -> Stored | None:
        looked.append(key)
        return get(self, key)

    monkeypatch.setattr(Ordered, "get", noted)
    objects = Objects(Usage())
    one, two, other = (Stored(f"/g/r/{name}", b"", number, 1) for number, name in enumerate("aab", 1))
    objects.apply(Event("added", one, None))
    objects.apply(Event("added", other, None))
    assert [objects.get(one.key), objects.get(one.key), objects.get(other.key)] == [one, one, other]
    assert looked == [one.key, other.key]
    objects.apply(Event("modified", two, one))
    assert objects.get(one.key) is two
    objects.apply(Event("deleted", two, two))
    assert objects.get(one.key) is None


def test_the_order_takes_one_reference_for_each_object() -> None:
    made = [Stored(f"/g/r/{number:05}", b"", number, 1) for number in range(20_000)]
    tracemalloc.start()
    try:
        ordered = Ordered()
        for each in made:
            ordered.put(each)
        assert tracemalloc.get_traced_memory()[0] < 12 * len(made)
    finally:
        tracemalloc.stop()
