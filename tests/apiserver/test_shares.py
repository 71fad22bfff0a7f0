"""A namespace that stores all it can: it gets a clear error, and everybody else can still write."""

from __future__ import annotations

from typing import Any

import pytest

from support.api_core import PODS, Answer, Api

TEAM, OTHER = (f"/api/v1/namespaces/{name}/configmaps" for name in ("team", "default"))
TEAM_PODS = PODS.replace("default", "team")
MERGE = "application/merge-patch+json"
FREE = 8 << 20
"""Bytes that are free at first."""
TEXT = "x" * 1_000_000


def patch(api: Api, path: str, change: dict[str, Any]) -> Answer:
    return api.ask("PATCH", path, change, content_type=MERGE)


@pytest.fixture
def full(api: Api) -> Api:
    """A server with a namespace that has used up its share."""
    api.good("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "demo"}]}}
    api.good("POST", TEAM_PODS, pod)
    usage = api.backend.store.usage
    usage.limit = usage.total + FREE
    for size in (len(TEXT), 100_000, 10_000, 1000, 1):
        number = 0
        while api.ask("POST", TEAM, {"metadata": {"name": f"m{size}-{number}"}, "data": {"a": "x" * size}}).code == 201:
            number += 1
    assert 0.7 < usage.of("team") / FREE < 0.8
    return api


def test_a_new_object_is_rejected_with_the_usage_and_the_share(full: Api) -> None:
    answer = full.ask("POST", TEAM, {"metadata": {"name": "new"}})
    usage = full.backend.store.usage
    assert (answer.code, answer.body["reason"]) == (403, "Forbidden")
    assert answer.body["message"] == (
        'configmaps "new" is forbidden: the objects of namespace team take 6.0 MiB, and may take 6.0 MiB of the '
        f"{(usage.limit or 0) / (1 << 20):.1f} MiB that this server has for all: delete some of them, "
        "or give it more memory and disk"
    )
    assert full.ask("GET", f"{TEAM}/new").code == 404


def test_others_can_write(full: Api) -> None:
    assert full.ask("POST", OTHER, {"metadata": {"name": "a"}, "data": {"a": TEXT}}).code == 201
    assert full.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "another"}}).code == 201


def test_there_is_room_for_status_but_not_for_objects_that_grow_without_end(full: Api) -> None:
    started = {"status": {"phase": "Running", "message": "x" * 1000}}
    assert patch(full, f"{TEAM_PODS}/p/status", started).code == 200
    answer = patch(full, f"{TEAM}/m1000-0", {"data": {"b": TEXT}})
    assert answer.code == 403
    assert answer.body["message"].startswith('configmaps "m1000-0" is forbidden: the objects of namespace team take ')


def test_an_object_may_shrink_although_the_others_have_taken_the_rest(full: Api) -> None:
    full.backend.store.usage.limit = full.backend.store.usage.total
    assert patch(full, f"{TEAM}/m1000000-0", {"data": {"a": "x"}}).code == 200
    assert full.good("GET", f"{TEAM}/m1000000-0")["data"] == {"a": "x"}


def test_deletions_are_never_rejected_and_make_room(full: Api) -> None:
    usage = full.backend.store.usage
    patch(full, f"{TEAM}/m1000000-0", {"metadata": {"finalizers": ["example.com/wait"]}})
    usage.limit = usage.total  # as if the others had taken the rest
    assert full.ask("DELETE", f"{TEAM_PODS}/p?gracePeriodSeconds=30").code == 200
    assert full.ask("DELETE", f"{TEAM}/m1000000-0").code == 200
    assert patch(full, f"{TEAM}/m1000000-0", {"data": {"b": "x"}}).code == 403
    assert patch(full, f"{TEAM}/m1000000-0", {"metadata": {"finalizers": None}}).code == 200
    assert full.ask("GET", f"{TEAM}/m1000000-0").code == 404
    assert full.ask("DELETE", f"{TEAM}/m1000000-1").code == 200
    assert full.ask("POST", TEAM, {"metadata": {"name": "new"}}).code == 201


def test_the_metrics_have_the_bytes_of_all_objects(full: Api) -> None:
    start = 'apiserver_storage_size_bytes{storage_cluster_id="etcd-0"} '
    (line,) = [each for each in full.ask("GET", "/metrics").body.splitlines() if each.startswith(start)]
    assert float(line.removeprefix(start)) == full.backend.store.usage.total
