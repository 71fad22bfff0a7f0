"""Amounts in reasons: rounded, with the name of the resource, and in the singular for one pod."""

from __future__ import annotations

import pytest

from kilauea.engine.explain.formatting import exact, human, numbers
from kilauea.engine.plan import Refusal


@pytest.mark.parametrize(
    ("resource", "asked", "left", "expected"),
    [
        ("pods", 1, 0, "requested 1 pod, available 0 pods"),
        ("pods", 2, 1, "requested 2 pods, available 1 pod"),
        ("cpu", 1000, 500, "requested 1 cpu, available 0.5 cpu"),
        ("memory", 2**30, 2**29, "requested 1Gi memory, available 512Mi memory"),
        ("cpu", 1000, 999, "requested 1 cpu, available 999m cpu"),
    ],
)
def test_amounts_are_told_with_the_name_of_their_resource(
    resource: str, asked: float, left: float, expected: str
) -> None:
    assert numbers(Refusal("Code", "", "", resource, asked, left)) == expected


def test_one_pod_is_not_one_pods() -> None:
    assert (human("pods", 1), exact("pods", 1), exact("pods", 2)) == ("1 pod", "1 pod", "2 pods")
