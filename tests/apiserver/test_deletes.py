"""Deletes: at once, in steps, with dependents; and what the upkeep does for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kilauea.apiserver.upkeep.garbage import collect_garbage
from kilauea.apiserver.upkeep.namespaces import empty_namespaces
from support.api_core import MAPS, PODS, Api, causes, named

MERGE = "application/merge-patch+json"


@pytest.fixture
def kept(api: Api) -> Iterator[Api]:
    """An API with the upkeep beside it."""
    tasks = [api.loop.create_task(work(api.server)) for work in (empty_namespaces, collect_garbage)]
    yield api
    for task in tasks:
        task.cancel()
    api.run(_ended(tasks))


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def wait_until_gone(api: Api, *paths: str) -> None:
    """Let the upkeep work until nothing is at these paths."""
    for _ in range(300):
        if all(api.ask("GET", path).code == 404 for path in paths):
            return
        api.run(asyncio.sleep(0.01))
    raise AssertionError(f"still there: {[path for path in paths if api.ask('GET', path).code != 404]}")


def own(api: Api, name: str, owner: dict[str, Any], **more: Any) -> None:
    """A ConfigMap that another one owns."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], **more}
    reference["uid"] = owner["metadata"]["uid"]
    api.good("POST", MAPS, {"metadata": {"name": name, "ownerReferences": [reference]}})


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


def test_a_namespace_is_emptied_before_it_goes(kept: Api) -> None:
    kept.good("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    kept.good("POST", "/api/v1/namespaces/team/configmaps", {"metadata": {"name": "a"}})
    going = kept.good("DELETE", "/api/v1/namespaces/team")
    assert going["status"]["phase"] == "Terminating"
    wait_until_gone(kept, "/api/v1/namespaces/team", "/api/v1/namespaces/team/configmaps/a")


def test_dependents_go_after_their_owner(kept: Api) -> None:
    owner = kept.create_map("owner")
    own(kept, "child", owner)
    kept.good("DELETE", f"{MAPS}/owner")
    wait_until_gone(kept, f"{MAPS}/child")


def test_an_owner_that_waits_goes_after_its_dependents(kept: Api) -> None:
    owner = kept.create_map("owner")
    own(kept, "child", owner, blockOwnerDeletion=True)
    kept.good("PATCH", f"{MAPS}/child", {"metadata": {"finalizers": ["example.com/wait"]}}, content_type=MERGE)
    going = kept.good("DELETE", f"{MAPS}/owner?propagationPolicy=Foreground")
    assert going["metadata"]["finalizers"] == ["foregroundDeletion"]
    for _ in range(10):
        kept.run(asyncio.sleep(0.01))
    assert kept.ask("GET", f"{MAPS}/owner").code == 200
    kept.good("PATCH", f"{MAPS}/child", {"metadata": {"finalizers": None}}, content_type=MERGE)
    wait_until_gone(kept, f"{MAPS}/owner", f"{MAPS}/child")


def test_orphans_forget_their_owner(kept: Api) -> None:
    owner = kept.create_map("owner")
    own(kept, "child", owner)
    kept.good("DELETE", f"{MAPS}/owner?propagationPolicy=Orphan")
    wait_until_gone(kept, f"{MAPS}/owner")
    assert "ownerReferences" not in kept.good("GET", f"{MAPS}/child")["metadata"]


def test_an_object_whose_owner_never_was_is_collected(kept: Api) -> None:
    own(kept, "child", {"metadata": {"name": "none", "uid": "0"}})
    wait_until_gone(kept, f"{MAPS}/child")
