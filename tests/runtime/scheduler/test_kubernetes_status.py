"""The condition of a PodGroup of Kubernetes, in each version of its API."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kilauea.api.kubernetes_groups import KubernetesPodGroup
from kilauea.runtime.scheduler.kubernetes_status import Content, patch_of

NOW, BEFORE = "2026-01-01T00:00:09Z", "2026-01-01T00:00:01Z"


def group(**condition: Any) -> KubernetesPodGroup:
    known = [{"type": "PodGroupScheduled", "lastTransitionTime": BEFORE, **condition}] if condition else []
    metadata = {"name": "g", "uid": "u", "generation": 3}
    return msgspec.convert({"metadata": metadata, "status": {"conditions": known}}, KubernetesPodGroup)


@pytest.mark.parametrize(
    ("version", "type_"), [("v1alpha2", "PodGroupScheduled"), ("v1alpha3", "PodGroupInitiallyScheduled")]
)
def test_the_condition_has_the_name_of_its_version(version: str, type_: str) -> None:
    patch = patch_of(group(), Content("True", "Scheduled", ""), version, NOW)
    assert patch["metadata"] == {"uid": "u"}
    assert patch["status"]["conditions"] == [
        {
            "type": type_,
            "status": "True",
            "reason": "Scheduled",
            "message": "",
            "lastTransitionTime": NOW,
            "observedGeneration": 3,
        }
    ]


@pytest.mark.parametrize(("status", "since"), [("False", BEFORE), ("True", NOW)])
def test_the_time_of_a_condition_is_that_of_its_last_change(status: str, since: str) -> None:
    patch = patch_of(group(status="False", reason="Unschedulable"), Content(status, "r", "m"), "v1alpha2", NOW)
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == since
