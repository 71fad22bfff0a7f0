"""Results that are kept for as long as a part of an object is the very same."""

from __future__ import annotations

from functools import lru_cache

from kilauea.controllers.identity import Same


def test_only_the_very_same_thing_is_equal() -> None:
    spec: dict[str, int] = {"replicas": 1}
    assert Same(spec) == Same(spec)
    assert Same(spec) != Same({"replicas": 1})


def test_a_cache_reads_the_very_same_thing_once_and_another_again() -> None:
    asked = []

    @lru_cache(maxsize=2)
    def replicas(spec: Same[dict[str, int]]) -> int:
        asked.append(spec.thing)
        return spec.thing["replicas"]

    first, second = {"replicas": 1}, {"replicas": 1}
    assert [replicas(Same(each)) for each in (first, second, first, second)] == [1, 1, 1, 1]
    assert len(asked) == 2
