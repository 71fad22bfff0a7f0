"""The life of a job in the order in which it happened."""

from __future__ import annotations

import pytest

from kilauea.api.times import SECOND
from kilauea.history.records import Event, JobRecord, PodRecord
from kilauea.history.timeline import timeline

JOB = JobRecord(uid="j", namespace="a", name="train", kind="Job", submitted=0)


def pod(bound: int) -> PodRecord:
    return PodRecord(uid=f"p{bound}", namespace="a", name=f"p{bound}", job="j", bound=bound * SECOND, node="n")


def admitted(at: int) -> Event:
    return Event(time=at * SECOND, what="Admitted", namespace="a", job="j")


@pytest.mark.parametrize(
    ("binds", "admissions", "shown"),
    [
        pytest.param([5], [4], ["4 Admitted", "5 Bound"], id="seen in time"),
        pytest.param([5, 6], [7], ["5 Admitted", "5 Bound", "6 Bound"], id="seen after the binds"),
        pytest.param([5, 99], [4, 98], ["4 Admitted", "5 Bound", "98 Admitted", "99 Bound"], id="admitted twice"),
        pytest.param([5], [4, 6], ["4 Admitted", "5 Bound", "6 Admitted"], id="the bind has its admission"),
        pytest.param([5], [60], ["5 Bound", "60 Admitted"], id="much later, which is another one"),
    ],
)
def test_an_admission_stands_before_the_bind_that_it_led_to(
    binds: list[int], admissions: list[int], shown: list[str]
) -> None:
    entries = timeline(JOB, [pod(at) for at in binds], [admitted(at) for at in admissions])
    found = [f"{each.time // SECOND} {each.what}" for each in entries]
    assert found == ["0 Submitted", *shown]
