"""Expected starts as sentences."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kilauea.cli.expected_output import expected_data, expected_text
from kilauea.cli.group_names import Owner
from kilauea.simulator.expected_start import ExpectedStart, Freed

SECOND = 1_000_000
NOW = 1_767_225_600 * SECOND  # 2026-01-01T00:00:00Z
OWNERS = {"ns/g1": Owner("Job", "ns/train")}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def starts(
    likely: int, earliest: int | None = None, latest: int | None = None, unknown: tuple[str, ...] = ()
) -> ExpectedStart:
    first, last = (NOW + each * SECOND if each is not None else None for each in (earliest, latest))
    freed = (Freed("ns/g1", NOW + likely * SECOND, "its command"),)
    return ExpectedStart("starts", NOW + likely * SECOND, first, last, freed, unknown)


CASES = [
    (
        "all is known",
        starts(60, 60, 60),
        "about 00:01:00 (in 1m), when these end: ns/train (its command)",
    ),
    (
        "there is a range",
        starts(60, 30, 4000),
        "about 00:01:00 (in 1m), between 00:00:30 and 01:06:40, when these end: ns/train (its command)",
    ),
    (
        "the latest start is not known",
        starts(60, 30),
        "about 00:01:00 (in 1m), 00:00:30 at the earliest, when these end: ns/train (its command)",
    ),
    (
        "it is another day",
        starts(90_000, 90_000, 90_000),
        "about 2026-01-02 01:00 (in 1d1h), when these end: ns/train (its command)",
    ),
    (
        "some run times are not known",
        starts(60, 60, 60, unknown=("ns/g2",)),
        "about 00:01:00 (in 1m), when these end: ns/train (its command); sooner if one ends before, as 1 running job "
        "declares no run time (ns/g2)",
    ),
    (
        "nothing is known",
        ExpectedStart("unknown", unknown=("ns/g1", "ns/g2", "ns/g3", "ns/g4")),
        "unknown: 4 running jobs declare no run time (ns/g2, ns/g3, ns/g4 and 1 more); declare it with "
        "spec.runningEstimate, activeDeadlineSeconds or the annotation kilauea.dev/run-time",
    ),
    (
        "it never starts",
        ExpectedStart("never"),
        "unknown: it would not start even if everything that runs ended",
    ),
    ("it is too far away", ExpectedStart("far"), "unknown: too much happens before it"),
]


@pytest.mark.parametrize(("found", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_an_expected_start_says_what_it_follows_from(found: ExpectedStart, text: str) -> None:
    assert expected_text(found, NOW, OWNERS) == text


def test_an_expected_start_as_data_has_times_of_kubernetes() -> None:
    assert expected_data(starts(60, 30)) == {
        "verdict": "starts",
        "time": "2026-01-01T00:01:00Z",
        "earliest": "2026-01-01T00:00:30Z",
        "latest": None,
        "follows": [{"group": "ns/g1", "end": "2026-01-01T00:01:00Z", "source": "its command"}],
        "unknown": [],
    }
