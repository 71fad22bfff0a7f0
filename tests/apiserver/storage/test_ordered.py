"""The ordered objects of a resource against a sorted list of the same keys."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.storage import Stored, ordered
from kilauea.apiserver.storage.ordered import Ordered

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
