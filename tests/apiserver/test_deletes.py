"""Deletes: at once, in steps, and what is refused."""

from __future__ import annotations

import asyncio

import pytest

from kilauea.apiserver.request import make_request
from kilauea.apiserver.rest import deleting
from support.api_core import ADMIN, MAPS, PODS, Api, causes, named

MERGE = "application/merge-patch+json"


def test_a_deletion_answers_with_a_status_that_names_the_object(api: Api) -> None:
    made = api.create_map("a")
    answer = api.good("DELETE", f"{MAPS}/a")
    details = {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert (answer["kind"], answer["status"], answer["details"]) == ("Status", "Success", details)
    assert api.ask("DELETE", f"{MAPS}/a").code == 404


def test_preconditions_must_hold(api: Api) -> None:
    made = api.create_map("a")["metadata"]
    answer = api.ask("DELETE", f"{MAPS}/a", {"preconditions": {"uid": "other"}})
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert (
        "the UID in the precondition (other) does not match the UID in record (" + made["uid"] in answer.body["message"]
    )
    assert api.ask("DELETE", f"{MAPS}/a", {"preconditions": {"resourceVersion": "1"}}).code == 409
    api.good("DELETE", f"{MAPS}/a", {"preconditions": {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}})


def test_finalizers_hold_an_object_up_and_no_new_ones_may_come(api: Api) -> None:
    api.good("POST", MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/wait"]}})
    assert api.good("DELETE", f"{MAPS}/a")["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:20Z"
    more = {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}}
    answer = api.ask("PATCH", f"{MAPS}/a", more, content_type=MERGE)
    assert (answer.code, causes(answer)) == (422, [("metadata.finalizers", "FieldValueForbidden")] * 2)
    api.good("PATCH", f"{MAPS}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert api.ask("GET", f"{MAPS}/a").code == 404


def test_a_pod_on_a_node_has_time_to_end(api: Api) -> None:
    api.create_pod("a", nodeName="n1", terminationGracePeriodSeconds=20)
    going = api.good("DELETE", f"{PODS}/a")["metadata"]
    assert (going["deletionGracePeriodSeconds"], going["deletionTimestamp"]) == (20, "2023-11-14T22:13:40Z")
    shorter = api.good("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 5})["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    api.good("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert api.ask("GET", f"{PODS}/a").code == 404


@pytest.mark.parametrize("options", [{}, {"gracePeriodSeconds": 2**63 - 1}])
def test_a_pod_with_more_time_than_there_is_can_be_deleted(api: Api, options: dict[str, int]) -> None:
    api.create_pod("a", nodeName="n1", terminationGracePeriodSeconds=2**62)
    going = api.good("DELETE", f"{PODS}/a", options)["metadata"]
    assert going["deletionGracePeriodSeconds"] == 2**32
    api.good("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert api.ask("GET", f"{PODS}/a").code == 404


def test_a_pod_without_a_node_goes_at_once(api: Api) -> None:
    api.create_pod("a")
    assert api.good("DELETE", f"{PODS}/a")["kind"] == "Pod"
    assert api.ask("GET", f"{PODS}/a").code == 404


def test_a_collection_is_deleted_by_selector(api: Api) -> None:
    for number in range(4):
        api.create_pod(f"p{number}", {"odd": str(number % 2)})
    assert named(api.good("DELETE", f"{PODS}?labelSelector=odd=1")) == ["p1", "p3"]
    assert named(api.good("GET", PODS)) == ["p0", "p2"]


def test_a_dry_run_deletes_nothing(api: Api) -> None:
    api.create_map("a")
    api.good("DELETE", f"{MAPS}/a?dryRun=All")
    api.good("DELETE", f"{MAPS}/a", {"dryRun": ["All"]})
    assert api.ask("GET", f"{MAPS}/a").code == 200


def test_options_that_are_wrong_are_refused(api: Api) -> None:
    api.create_map("a")
    answer = api.ask("DELETE", f"{MAPS}/a?propagationPolicy=Sometimes")
    assert (answer.code, causes(answer)) == (422, [("propagationPolicy", "FieldValueNotSupported")])
    assert api.ask("DELETE", f"{MAPS}/a?gracePeriodSeconds=x").code == 400


@pytest.mark.parametrize(
    ("path", "finalizers"),
    [
        ("/api/v1/namespaces/default/replicationcontrollers", ["orphan"]),
        ("/apis/apps/v1/namespaces/default/replicasets", None),
    ],
)
def test_pods_of_a_deleted_replication_controller_stay_unless_asked_for(
    api: Api, path: str, finalizers: list[str] | None
) -> None:
    """That is the default of Kubernetes for this kind, as it is for jobs; kubectl asks for more."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
    selector = {"a": "b"} if finalizers else {"matchLabels": {"a": "b"}}
    api.good("POST", path, {"metadata": {"name": "web"}, "spec": {"selector": selector, "template": template}})
    answer = api.good("DELETE", f"{path}/web")
    assert answer.get("metadata", {}).get("finalizers") == finalizers


def test_objects_that_finalizers_hold_are_deleted_again_in_turns(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is written a second time, so nothing else makes way for other requests."""
    for number in range(20):
        api.good("POST", MAPS, {"metadata": {"name": f"m{number}", "finalizers": ["example.com/wait"]}})
    api.good("DELETE", MAPS)
    monkeypatch.setattr(deleting, "TURN", 0.0)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def test() -> None:
        beside = asyncio.ensure_future(others())
        await api.server.handle(make_request("DELETE", MAPS, {}, b"", ADMIN))
        beside.cancel()

    api.run(test())
    assert turns >= 20
