"""A gang that needs pods of tasks that wait for the gang is found, with what to change; others are not blamed."""

from __future__ import annotations

import pytest

from kilauea.api.task_order import OrderedTask, endless_wait


def task(name: str, replicas: int, minimum: int | None = None, needs: str = "", *, any_of: bool = False) -> OrderedTask:
    least = replicas if minimum is None else minimum
    return OrderedTask(name, replicas, least, least, needs.split(), not any_of)


WAITS = "is ready (dependsOn), which waits for the gang, and the gang needs them (minAvailable): set"


@pytest.mark.parametrize(
    ("tasks", "min_available", "expected"),
    [
        (
            [task("a", 1), task("b", 3, needs="a")],
            4,
            f"pods of b are made once a {WAITS} minAvailable of b to 0 and spec.minAvailable to at most 1",
        ),
        (
            [task("a", 9, 1), task("b", 2, needs="a")],
            3,
            f"pods of b are made once a {WAITS} minAvailable of b to 0",
        ),
        (
            [task("a", 1), task("b", 1, needs="a"), task("c", 1, needs="b")],
            3,
            f"pods of b, c are made once a, b {WAITS} minAvailable of b, c to 0 and spec.minAvailable to at most 1",
        ),
        (
            [task("a", 2), task("b", 2, needs="a")],
            3,
            f"pods of b are made once a {WAITS} minAvailable of b to 0 and spec.minAvailable to at most 2",
        ),
        (
            [task("a", 2), task("b", 2, 0, needs="a")],
            3,
            "pods of b are made once a is ready (dependsOn), which waits for the gang, and the gang needs them "
            "(minAvailable): set spec.minAvailable to at most 2",
        ),
    ],
)
def test_a_gang_that_can_never_be_complete_is_explained(
    tasks: list[OrderedTask], min_available: int, expected: str
) -> None:
    assert endless_wait(tasks, min_available) == f"the job never starts: {expected}"


@pytest.mark.parametrize(
    ("tasks", "min_available"),
    [
        ([task("a", 1), task("b", 3, 0, needs="a")], 1),
        ([task("a", 2), task("b", 2, needs="a")], 2),  # fewer than the tasks need together: only the sum counts
        ([task("a", 1, 0), task("b", 3, needs="a")], 4),  # a counts as ready without any pod
        ([task("a", 1, 0), task("x", 1), task("b", 3, needs="a x", any_of=True)], 5),
        ([task("a", 1), task("b", 0, needs="a")], 1),
        ([task("a", 1), task("b", 1)], 2),
        ([], 0),
    ],
)
def test_a_gang_that_can_be_complete_is_not_blamed(tasks: list[OrderedTask], min_available: int) -> None:
    assert endless_wait(tasks, min_available) == ""
