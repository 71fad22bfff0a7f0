"""Kinds that the scheduler may not read: it starts, says what it does without them, and reads them once it may."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from kilauea.api.kinds import DEVICE_CLASSES, KUBERNETES_GROUP, RESOURCE_CLAIMS, RESOURCE_SLICES
from kilauea.api.ports import ApiError
from kilauea.runtime.inputs.resources import OPTIONAL, RESOURCES, versions_of
from kilauea.runtime.scheduler.optional_kinds import WITHOUT
from support.live_world import Live, live_world

GPU = "example.com/gpu"


def refuse(
    live: Live, *plurals: str, verb: str = "list", when: Callable[[], bool] = lambda: True, group: str = ""
) -> list[str]:
    """Let the server refuse to list (or watch) kinds, of a group or of all; returns the targets that were refused."""
    refused: list[str] = []

    def look(target: str) -> None:
        plural = target.partition("?")[0].rsplit("/", 1)[-1]
        if plural in plurals and group in target and when():
            refused.append(target)
            raise ApiError(403, "Forbidden", f'User "s" cannot {verb} resource "{plural}"')

    async def before(method: str, target: str) -> None:
        if method == "GET":
            look(target)

    if verb == "watch":
        live.wire.watching = look
    else:
        live.wire.before = before
    return refused


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "cannot be read" in each.getMessage()]


@pytest.mark.parametrize("kind", sorted(OPTIONAL - {"NodeShard"}))
def test_a_kind_that_may_not_be_listed_is_named_once_and_scheduling_goes_on(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with live_world() as live:
        live.node("n1")
        live.pod("p")
        plural = RESOURCES[kind].plural
        refused = refuse(live, plural, group=RESOURCES[kind].group)
        live.start()
        live.wait(60)
        assert live.node_of("p") == "n1"
        (said,) = warnings(caplog)
        name = f"{plural}.{RESOURCES[kind].group}" if kind == KUBERNETES_GROUP else plural
        assert said.startswith(f'{name} cannot be read: User "s" cannot list resource "{plural}"')
        assert WITHOUT[kind] in said
        assert said.endswith(
            f"grant the scheduler get, list and watch on {plural}.{RESOURCES[kind].group}".removesuffix(".")
        )
        looks = len(refused) // len(versions_of(RESOURCES[kind]))
        assert 3 <= looks <= 6  # after 5, 15 and 35 seconds


def test_a_kind_is_listed_whole_only_once() -> None:
    """The scheduler asks for one object to see if it may read a kind."""
    asked: list[str] = []
    with live_world() as live:
        for number in range(3):
            live.create(DEVICE_CLASSES, f"c{number}", spec={"selectors": []})

        async def before(method: str, target: str) -> None:
            if method == "GET" and "/deviceclasses" in target:
                asked.append(target.partition("?")[2])

        live.wire.before = before
        live.start()
        live.wait(2)
    assert [each for each in asked if "limit=1" not in each.split("&")] == asked[1:2]


def test_every_optional_kind_says_what_is_ignored_without_it() -> None:
    assert set(WITHOUT) == OPTIONAL


def test_a_kind_is_read_as_soon_as_the_rights_are_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with live_world() as live:
        live.node("n1")
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d", "nodeName": "n1", "pool": pool, "devices": [{"name": "a"}]}
        live.create(RESOURCE_SLICES, "s", spec=spec)
        live.create(DEVICE_CLASSES, "gpu", spec={"selectors": []})
        live.create(
            RESOURCE_CLAIMS,
            "c",
            spec={"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu"}}]}},
        )
        live.pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
        refused = True
        refuse(live, "resourceslices", when=lambda: refused)
        live.start()
        live.wait(10)
        assert live.node_of("p") == ""
        refused = False
        live.wait(30)
        assert live.node_of("p") == "n1"
        assert "resourceslices can be read now" in caplog.text


def test_a_kind_that_may_be_listed_but_not_watched_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """What is listed once and not watched would be out of date soon."""
    with live_world() as live:
        live.node("n1")
        live.create(DEVICE_CLASSES, "gpu", spec={"selectors": []})
        refuse(live, "deviceclasses", verb="watch")
        live.start()
        live.wait(60)
        (said,) = warnings(caplog)
        assert 'cannot watch resource "deviceclasses"' in said
        assert live.scheduler.feed.state.resource_claims.classes == {}


def test_a_watch_that_is_refused_later_is_a_fault_and_what_is_known_stays(caplog: pytest.LogCaptureFixture) -> None:
    with live_world() as live:
        live.node("n1")
        live.create(DEVICE_CLASSES, "gpu", spec={"selectors": []})
        live.start()
        live.wait(1)
        live.create(DEVICE_CLASSES, "other", spec={"selectors": []})
        live.wait(1)
        refused = refuse(live, "deviceclasses", verb="watch")
        live.wait(1200)
        assert refused
        assert warnings(caplog) == []
        assert sorted(live.scheduler.feed.state.resource_claims.classes) == ["gpu", "other"]


def test_without_claims_no_device_serves_an_extended_resource() -> None:
    """It is unknown which devices are in use."""
    with live_world() as live:
        live.node("n1")
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d", "nodeName": "n1", "pool": pool, "devices": [{"name": "a"}]}
        live.create(RESOURCE_SLICES, "s", spec=spec)
        live.create(DEVICE_CLASSES, "gpu", spec={"selectors": [], "extendedResourceName": GPU})
        amounts = {"cpu": "1", GPU: "1"}
        resources = {"requests": amounts, "limits": {GPU: "1"}}
        live.pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
        refused = True
        refuse(live, "resourceclaims", when=lambda: refused)
        live.start()
        live.wait(10)
        assert live.node_of("p") == ""
        refused = False
        live.wait(30)
        assert live.node_of("p") == "n1"


def test_a_version_that_is_refused_does_not_hide_one_that_may_be_read() -> None:
    with live_world() as live:
        live.node("n1")
        live.create(DEVICE_CLASSES, "gpu", spec={"selectors": []})
        asked: list[str] = []

        async def before(method: str, target: str) -> None:
            if method == "GET" and "deviceclasses" in target:
                asked.append(target.partition("?")[0])
                if "/v1/" in target:
                    raise ApiError(403, "Forbidden", "no")

        live.wire.before = before
        live.start()
        live.wait(1)
        assert asked[:2] == ["/apis/resource.k8s.io/v1/deviceclasses", "/apis/resource.k8s.io/v1beta2/deviceclasses"]
