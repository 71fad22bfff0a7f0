"""The plugin sla: whose time is up goes first, is admitted, and may hold on to promised room."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.meta import Object
from kilauea.engine.extension import ABSTAIN, PERMIT
from kilauea.engine.session import Session
from support.builders import Data, Objects, binds, conf, gang, group, node, phases, plan_of, plugin, pod
from support.probes import inside

KEY, SHORT_KEY = "volcano.sh/sla-waiting-time", "sla-waiting-time"


def sla(limit: Any = None) -> Data:
    """The plugin, with a limit for all jobs if any."""
    return plugin("sla", None if limit is None else {"sla-waiting-time": limit})


def aged(obj: Object, minutes: int, **annotations: str) -> Object:
    """A group that was made so many minutes ago (the cycle is at midnight), with annotations `long` and `short`."""
    obj.metadata.creation_timestamp = f"2025-12-31T{23 - (minutes - 1) // 60:02d}:{-minutes % 60:02d}:00Z"
    names = {"long": KEY, "short": SHORT_KEY}
    obj.metadata.annotations = {names[name]: value for name, value in annotations.items()}
    return obj


def job(name: str, minutes: int, **annotations: str) -> Objects:
    """A group with one pod."""
    return [aged(group(name), minutes, **annotations), pod(f"{name}-p", name)]


# --- who goes first


@pytest.mark.parametrize(
    ("limit", "one", "other"),
    [
        pytest.param("1h", {"minutes": 10}, {"minutes": 20}, id="of two jobs with one limit the older goes first"),
        pytest.param("1h", {"minutes": 20}, {"minutes": 10, "long": "30m"}, id="whose time is up first goes first"),
        pytest.param(None, {"minutes": 20}, {"minutes": 10, "long": "9h"}, id="a job with a limit before one without"),
        pytest.param(None, {"minutes": 10}, {"minutes": 20}, id="without limits the older goes first"),
        pytest.param(
            None, {"minutes": 10, "long": "1h"}, {"minutes": 10, "short": "5m"}, id="the short annotation counts too"
        ),
        pytest.param(
            None,
            {"minutes": 10, "long": "1h", "short": "1m"},
            {"minutes": 10, "long": "30m", "short": "9h"},
            id="of both annotations the long one counts",
        ),
        pytest.param(
            None,
            {"minutes": 10, "short": "1h"},
            {"minutes": 10, "long": "soon", "short": "5m"},
            id="an annotation that cannot be read is passed over",
        ),
        pytest.param(
            "20m", {"minutes": 10}, {"minutes": 20, "long": "0s", "short": "-5m"}, id="so is one not above zero"
        ),
        pytest.param(
            None, {"minutes": 10, "long": "1h2m3s4ms5us6ns"}, {"minutes": 10, "long": "1h2m3s"}, id="all units"
        ),
    ],
)
def test_which_of_two_jobs_goes_first(limit: str | None, one: dict[str, Any], other: dict[str, Any]) -> None:
    objects = [node("n1", cpu=1), job("a", **one), job("b", **other)]
    assert list(binds(plan_of(objects, conf=conf("allocate", [sla(limit)])))) == ["b-p"]


def test_the_order_can_be_switched_off() -> None:
    objects = [node("n1", cpu=1), job("a", 20), job("b", 10, long="5m")]
    assert list(binds(plan_of(objects, conf=conf("allocate", [{"name": "sla", "enableJobOrder": False}])))) == ["a-p"]


# --- votes


@pytest.mark.parametrize(
    ("limit", "annotations", "expected"),
    [
        pytest.param("1h", {}, PERMIT, id="permitted as soon as the time is up"),
        pytest.param("1h0.000001s", {}, ABSTAIN, id="not a microsecond before"),
        pytest.param("59m", {}, PERMIT, id="and ever after"),
        pytest.param(None, {}, ABSTAIN, id="a job without a limit is not voted on"),
        pytest.param("1m", {"long": "2h"}, ABSTAIN, id="the job's own limit holds instead of that for all"),
        pytest.param("2h", {"short": "10m"}, PERMIT, id="also where it is the shorter"),
    ],
)
def test_votes_on_a_job_an_hour_old(limit: str | None, annotations: dict[str, str], expected: int) -> None:
    def votes(session: Session) -> tuple[Any, Any]:
        job = session.state.jobs["ns/g"]
        ((_, enqueueable),), ((_, pipelined),) = (
            session.points.walk("job_enqueueable"),
            session.points.walk("job_pipelined"),
        )
        return enqueueable(job), pipelined(job)

    found = inside(aged(group(), 60, **annotations), do=votes, conf=conf("", [sla(limit)]))
    assert found == ((expected, None), expected)


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        pytest.param([["sla"], ["overcommit"]], "Inqueue", id="in an earlier tier it overrules a rejection"),
        pytest.param([["sla", "overcommit"]], "Pending", id="in the same tier the rejection wins"),
        pytest.param([["overcommit"], ["sla"]], "Pending", id="in a later tier it comes too late"),
    ],
)
def test_an_overdue_job_is_admitted_in_spite_of_others(tiers: list[list[str]], expected: str) -> None:
    waiting = aged(group(phase="Pending", resources={"cpu": 100}), 60, long="30m")
    plan = plan_of(node("n1", cpu=1), waiting, conf=conf("enqueue", *tiers))
    assert phases(plan).get("g", "Pending") == expected


@pytest.mark.parametrize(
    ("limit", "expected"), [pytest.param("1h", True, id="its time is up"), pytest.param("2h", False, id="it is not")]
)
def test_an_overdue_gang_holds_on_to_promised_room(limit: str, expected: bool) -> None:
    of_two, *pods = gang("g", 2)
    objects = [node("n1", cpu=1), aged(of_two, 60), *pods]
    two_tiers = conf("", [sla(limit)], ["gang"])
    assert inside(objects, do=lambda s: s.job_pipelined(s.state.jobs["ns/g"]), conf=two_tiers) is expected


# --- the argument


@pytest.mark.parametrize(
    "limit",
    [
        pytest.param("soon", id="no duration"),
        pytest.param("-1h", id="below zero"),
        pytest.param("0s", id="zero"),
        pytest.param(60, id="no text"),
    ],
)
def test_a_limit_that_cannot_be_used_is_warned_about_and_is_none(limit: Any) -> None:
    objects = [node("n1", cpu=1), job("a", 20), job("b", 10, long="100h")]
    plan = plan_of(objects, conf=conf("allocate", [sla(limit)]))
    assert list(binds(plan)) == ["b-p"]
    assert [(f.where, f.error) for f in plan.findings] == [("plugin sla", False)]
    assert "sla-waiting-time" in plan.findings[0].message
