"""The plugin cdp: pods that have just been placed are left alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kilauea.api.core import PodCondition
from kilauea.api.meta import Object
from kilauea.engine.session import Session
from support.builders import Data, Objects, binds, conf, group, node, plan_of, pod, priority_class, queue
from support.probes import inside

KEY = "volcano.sh/cooldown-time"
CDP = conf("", ["cdp"])


def placed(
    name: str = "p",
    ago: int | None = 300,
    label: str | None = None,
    annotation: str | None = None,
    phase: str = "Running",
    status: str = "True",
    **more: Any,
) -> Object:
    """A pod that was scheduled so many seconds before the cycle (which is at midnight), with a cooldown time."""
    labels, annotations = ({} if text is None else {KEY: text} for text in (label, annotation))
    made: Any = pod(name, node="n", phase=phase, labels=labels, annotations=annotations, **more)
    if ago is not None:
        minutes, seconds = divmod(24 * 3600 - ago, 60)
        at = f"2025-12-31T{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}Z"
        other = PodCondition(type="Ready", status="True", last_transition_time="2026-01-01T00:00:00Z")
        made.status.conditions = [other, PodCondition(type="PodScheduled", status=status, last_transition_time=at)]
    return made  # type: ignore[no-any-return]


def may_go(session: Session, point: str) -> bool:
    """Whether the pod `p` may be evicted."""
    task = session.state.tasks["ns/p"]
    return task in getattr(session, point)(session.state.tasks["ns/mine"], [task])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, True, id="it does not ask for it"),
        pytest.param({"label": "10m"}, False, id="a label: scheduled five minutes ago, ten are wanted"),
        pytest.param({"annotation": "600s"}, False, id="an annotation"),
        pytest.param({"label": "4m"}, True, id="the time is over"),
        pytest.param({"label": "5m"}, True, id="just over"),
        pytest.param({"label": "5m0.000001s"}, False, id="not quite over"),
        pytest.param({"label": "1m", "annotation": "10m"}, True, id="the label counts before the annotation"),
        pytest.param({"label": "10m", "annotation": "1m"}, False, id="in both directions"),
        pytest.param({"label": "soon", "annotation": "10m"}, True, id="even if it cannot be read"),
        pytest.param({"label": "-10m"}, True, id="less than no time"),
        pytest.param({"label": "10m", "ago": None}, True, id="no one says when it was scheduled"),
        pytest.param({"label": "10m", "status": "False"}, True, id="it is said not to be"),
        pytest.param({"label": "10m", "phase": "Pending"}, True, id="it does not run yet"),
        pytest.param({"label": "10m", "ago": 1}, False, id="scheduled just now"),
    ],
)
@pytest.mark.parametrize("point", ["preemptable", "reclaimable"])
def test_which_pods_are_left_alone(given: Mapping[str, Any], expected: bool, point: str) -> None:
    objects = [node("n"), group(), placed(**given), group("other"), pod("mine", "other")]
    assert inside(objects, do=lambda s: may_go(s, point), conf=CDP) is expected


def test_the_first_condition_of_its_kind_decides() -> None:
    made: Any = placed(label="10m", ago=3600)
    late = PodCondition(type="PodScheduled", status="True", last_transition_time="2026-01-01T00:00:00Z")
    made.status.conditions.append(late)
    assert inside(node("n"), group(), made, pod("mine"), do=lambda s: may_go(s, "preemptable"), conf=CDP)


@pytest.mark.parametrize("time", [None, "", "yesterday"])
def test_a_time_that_cannot_be_read_protects_nothing(time: str | None) -> None:
    made: Any = placed(label="10m")
    made.status.conditions[1].last_transition_time = time
    assert inside(node("n"), group(), made, pod("mine"), do=lambda s: may_go(s, "preemptable"), conf=CDP)


def preemption(label: str) -> Data:
    """What a cycle does in which an important job wants the room of a pod with a cooldown."""
    classes = [priority_class("low", 1), priority_class("high", 9)]
    objects: list[Objects] = [
        [node("n", cpu=1), classes, queue()],
        [group("low", minimum=0, priority="low", phase="Running"), placed("victim", 300, label, group="low")],
        [group("high", priority="high"), pod("mine", "high")],
    ]
    plan = plan_of(objects, conf=conf("allocate, preempt", ["priority", "gang", "cdp"], ["predicates"]))
    findings = [str(f) for f in plan.findings]
    return {"evicted": [e.pod for e in plan.evictions], "bound": binds(plan), "findings": findings}


def test_preemption_waits_for_the_end_of_the_cooldown() -> None:
    assert preemption("10m") == {"evicted": [], "bound": {}, "findings": []}
    assert preemption("4m") == {"evicted": ["ns/victim"], "bound": {}, "findings": []}


def test_a_cooldown_that_cannot_be_read_is_named_once() -> None:
    found = preemption("soon")
    assert found["evicted"] == ["ns/victim"]
    (message,) = found["findings"]
    assert message.startswith('pod ns/victim: its cooldown time protects nothing: "soon" is not a duration')
