"""The roles of the chart: what is watched may be listed and watched, and a right more or less is found.

That each right is used, and none is missing, is shown at the real Kubernetes (`tests/cluster/test_rights.py`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kilauea.admission.lookups import INTERESTS
from kilauea.api.ports import Resource
from kilauea.controllers.registry import volcano_controllers
from kilauea.engine.model.shards import SOFT, Sharding
from kilauea.runtime.doctor.installation import CONTROLLERS, SCHEDULER, WEBHOOKS
from kilauea.runtime.doctor.rights import NEEDED, rights_in
from kilauea.runtime.inputs.resources import RESOURCES
from kilauea.runtime.scheduler.live import LiveOptions

KUBERNETES = Path(__file__).parent / "kubernetes"
sys.path.insert(0, str(KUBERNETES))
try:
    import rights
finally:
    sys.path.remove(str(KUBERNETES))


def watched(component: str) -> set[tuple[str, str]]:
    """Groups and plurals of the kinds that a component watches."""
    kinds: dict[str, list[Resource]] = {
        "scheduler": [RESOURCES[kind] for kind in LiveOptions(sharding=Sharding(SOFT)).kinds],
        "controllers": [interest.resource for each in volcano_controllers() for interest in each.interests],
        "admission": [interest.resource for interest in INTERESTS],
    }
    return {(each.group, each.plural) for each in kinds[component]}


@pytest.mark.parametrize("component", rights.COMPONENTS)
def test_exactly_the_kinds_that_are_watched_may_be_watched(component: str) -> None:
    may = {verb: {each[1:3] for each in rights.granted(component) if each.verb == verb} for verb in ("list", "watch")}
    assert may["watch"] == watched(component)
    registered = {kind for kind in may["list"] if kind[0] == "admissionregistration.k8s.io"}
    assert may["list"] - registered == watched(component)


@pytest.mark.parametrize("component", rights.COMPONENTS)
def test_no_right_is_granted_on_all_of_something(component: str) -> None:
    for each in rights.granted(component):
        assert "*" not in (each.verb, each.group, each.resource), str(each)


@pytest.mark.parametrize("component", [SCHEDULER, CONTROLLERS, WEBHOOKS])
def test_the_doctor_asks_for_no_right_that_the_chart_does_not_grant(component: str) -> None:
    granted = rights.granted({WEBHOOKS: "admission"}.get(component, component))
    for each in rights_in(NEEDED[component]):
        wanted = rights.Right(each.verb, each.group, each.resource)
        assert any(right.covers(wanted) for right in granted), str(wanted)


def test_a_right_more_or_less_is_found() -> None:
    lists, binds = rights.Right("list", "", "pods"), rights.Right("create", "", "pods/binding")
    asked = rights.Requests({lists, rights.Right("create", "", "pods/binding", "default", ("p",))}, set())
    assert rights.faults("scheduler", [lists, binds], asked, {}) == []
    missing = ["scheduler: asked, but not granted: create pods/binding p in default"]
    assert rights.faults("scheduler", [lists], asked, {}) == missing
    extra = rights.Right("delete", "", "nodes")
    assert rights.faults("scheduler", [lists, binds, extra], asked, {}) == [
        "scheduler: granted, but never asked: delete nodes"
    ]
    assert rights.faults("scheduler", [lists, binds, extra], asked, {"delete nodes": "reason"}) == []
    assert rights.faults("scheduler", [lists, binds], asked, {"list pods": "reason"}) == [
        "scheduler: has a reason not to be asked, but is: list pods"
    ]
    refused = rights.Requests(asked.asked, {"no"})
    assert rights.faults("scheduler", [lists, binds], refused, {}) == ["scheduler: refused: no"]


@pytest.mark.parametrize(
    ("right", "asked", "covered"),
    [
        (("get", "", "secrets", "system", ("one",)), ("get", "", "secrets", "system", ("one",)), True),
        (("get", "", "secrets", "system", ("one",)), ("get", "", "secrets", "system", ("two",)), False),
        (("get", "", "secrets", "system", ("one",)), ("get", "", "secrets", "default", ("one",)), False),
        (("list", "", "secrets", "", ("one",)), ("list", "", "secrets"), False),
        (("list", "", "secrets", "system"), ("list", "", "secrets"), False),
        (("list", "", "secrets"), ("list", "", "secrets", "default"), True),
        (("list", "", "secrets"), ("watch", "", "secrets", "default"), False),
        (("list", "", "jobs"), ("list", "batch", "jobs"), False),
        (("get", "", "pods"), ("get", "", "pods/status", "default", ("p",)), False),
    ],
)
def test_a_right_covers_requests_as_roles_do(right: tuple[Any, ...], asked: tuple[Any, ...], covered: bool) -> None:
    assert rights.Right(*right).covers(rights.Right(*asked)) == covered
