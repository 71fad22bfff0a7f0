"""What events say about refused pods, as plans and explanations of a live cluster show it."""

from __future__ import annotations

import pytest

from kilauea.api.kinds import EVENTS, NAMESPACES
from kilauea.controllers.vcjobs.refusals import POD_REFUSED
from kilauea.runtime.inputs.snapshot import read_snapshot
from support.live_world import live_world


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        pytest.param("default", {"u": "no room"}, id="its own namespace"),
        pytest.param("victim", {}, id="another namespace, of which the writer may know nothing"),
    ],
)
def test_an_event_is_about_objects_of_its_namespace(about: str, expected: dict[str, str]) -> None:
    with live_world() as live:
        live.create(NAMESPACES, "victim")
        live.create(
            EVENTS,
            "e",
            involvedObject={"kind": "Job", "namespace": about, "name": "train", "uid": "u"},
            reason=POD_REFUSED.reason,
            message=f"{POD_REFUSED.words}no room",
            type="Warning",
            eventTime="2026-01-01T00:00:00.000000Z",
            action="Create",
            reportingComponent="example.com/writer",
            reportingInstance="w",
        )
        found = live.world.run(read_snapshot(live.calm))
    assert found.refusals == expected
