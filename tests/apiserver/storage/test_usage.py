"""The bytes that the objects of each namespace take, and the share that each may take."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.storage import Retention, Store, Usage
from kilauea.apiserver.storage.usage import CREATES, OVERHEAD, UPDATES, namespace_of

KEYS = [f"/core/pods/{namespace}/{name}" for namespace in "ab" for name in "xyz"] + ["/core/nodes/n"]
MEBIBYTE = 1 << 20
WRITES = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 3000)), max_size=30)


def test_a_key_has_a_namespace_or_none() -> None:
    assert namespace_of("/core/pods/a/x") == "a"
    assert namespace_of("/apps/deployments/a-b/x.y") == "a-b"
    assert namespace_of("/core/nodes/n") == ""


@given(WRITES)
def test_the_usage_is_that_of_the_current_objects_also_after_a_restart(
    tmp_path_factory: pytest.TempPathFactory, writes: Sequence[tuple[str, int | None]]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    expected: Counter[str] = Counter()

    async def write() -> Usage:
        store = await Store.open(folder, "normal", retention=Retention(seconds=-1, revisions=3))
        sizes: dict[str, int] = {}
        for key, size in writes:
            if size is None:
                if sizes.pop(key, None) is not None:
                    await store.write(key, None, None)
            else:
                sizes[key] = size
                await store.write(key, None, lambda revision, size=size: b"x" * size)  # type: ignore[misc]
        for key, size in sizes.items():
            expected[namespace_of(key)] += size + OVERHEAD
        await store.close()
        return store.usage

    async def read() -> Usage:
        store = await Store.open(folder, "normal")
        await store.close()
        return store.usage

    for usage in (asyncio.run(write()), asyncio.run(read())):
        assert usage.total == expected.total()
        assert {each: usage.of(each) for each in ("a", "b", "")} == {each: expected[each] for each in ("a", "b", "")}


def filled(store: Store, namespaces: str, share: int) -> dict[str, int]:
    """Let namespaces take turns to write a MiB each until none has room; their usages."""

    async def fill() -> None:
        number, left = 0, set(namespaces)
        while left:
            for each in sorted(left):
                number += 1
                if not store.usage.has_room(each, MEBIBYTE + OVERHEAD, share):
                    left.remove(each)
                    continue
                await store.write(f"/core/configmaps/{each}/{number}", 0, lambda revision: bytes(MEBIBYTE))

    asyncio.run(fill())
    return {each: store.usage.of(each) for each in namespaces}


@pytest.mark.parametrize(("namespaces", "part"), [("a", 3 / 4), ("ab", 3 / 7), ("abcd", 3 / 13)])
def test_namespaces_that_take_all_they_can_get_equal_parts_and_leave_something(namespaces: str, part: float) -> None:
    store = asyncio.run(Store.open(None, limit=128 * MEBIBYTE))
    for usage in filled(store, namespaces, CREATES).values():
        assert abs(usage / store.usage.limit - part) < 0.02  # type: ignore[operator]
        assert usage <= store.usage.share(namespaces[0])
    assert store.usage.has_room("another", 4 * MEBIBYTE, CREATES)


def test_a_namespace_without_room_for_new_objects_may_still_update_them() -> None:
    store = asyncio.run(Store.open(None, limit=128 * MEBIBYTE))
    filled(store, "a", CREATES)
    assert not store.usage.has_room("a", 2 * MEBIBYTE, CREATES)
    assert store.usage.has_room("a", 2 * MEBIBYTE, UPDATES)
    assert store.usage.has_room("a", -1, CREATES)


def test_without_a_limit_there_is_room() -> None:
    store = asyncio.run(Store.open(None))
    assert store.usage.has_room("a", 1 << 40, CREATES)
