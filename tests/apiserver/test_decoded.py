"""The objects that were written last are kept decoded, too, and shared by all that read them: none may be changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kilauea.api.ports import LARGEST_DECODED
from kilauea.apiserver.storage import Stored, store
from support.api_core import MAPS, PODS, Api

MERGE = "application/merge-patch+json"
KEY = "/core/pods/default/web"
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
BINDING = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n"}}


def stored(api: Api) -> Stored:
    """The pod `web`."""
    found = api.backend.store.get(KEY)
    assert found is not None
    return found


@pytest.fixture
def api(api: Api) -> Api:
    """A server that keeps objects decoded."""
    api.backend.store.most_decoded = 100
    return api


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[dict[str, Any], bytes]]]:
    """All objects that are shared in a test, with their texts: at its end, each still says what its text says."""
    seen: list[tuple[dict[str, Any], bytes]] = []
    keep = store.Store._keep_decoded

    def noted(self: store.Store, of: Stored, decoded: dict[str, Any] | None) -> None:
        keep(self, of, decoded)
        if decoded is not None:
            seen.append((decoded, of.value))

    monkeypatch.setattr(store.Store, "_keep_decoded", noted)
    yield seen
    for decoded, value in seen:
        assert msgspec.json.decode(value) == decoded


def write(api: Api, step: str) -> None:
    """One of the writes in the life of a pod."""
    status = f"{PODS}/web/status"
    if step == "bind":
        api.good("POST", f"{PODS}/web/binding", BINDING)
    elif step == "start":
        state = {
            "phase": "Running",
            "conditions": [{**SCHEDULED, "lastProbeTime": None}],
            "podIPs": [{"ip": "10.0.0.1"}],
        }
        api.good("PATCH", status, {"status": state}, content_type=MERGE)
    elif step == "message":
        api.good("PATCH", status, {"status": {"message": "well"}}, content_type=MERGE)
    elif step == "label":
        api.good("PATCH", f"{PODS}/web", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    elif step == "put":
        pod = api.good("GET", f"{PODS}/web")
        pod["spec"]["containers"][0]["image"] = "demo:2"
        api.good("PUT", f"{PODS}/web", pod)
    elif step == "evict":
        api.good("POST", f"{PODS}/web/eviction", {"metadata": {"name": "web"}})


@pytest.mark.parametrize("step", ["bind", "message", "label", "put", "evict"])
def test_a_write_shares_what_it_stored_and_leaves_what_was_shared_before(
    api: Api, shared: list[tuple[dict[str, Any], bytes]], step: str
) -> None:
    api.create_pod("web", automountServiceAccountToken=False)
    if step == "evict":
        write(api, "bind")
    write(api, "start")
    before = stored(api)
    write(api, step)
    assert [decoded["metadata"]["name"] for decoded, _ in shared[-2:]] == ["web", "web"]
    assert stored(api).decoded == msgspec.json.decode(stored(api).value)
    assert before.decoded is None


def test_a_bind_is_the_same_whether_the_pod_is_kept_decoded_or_not(api: Api) -> None:
    pods = []
    for kept in (True, False):
        api.create_pod("web", automountServiceAccountToken=False)
        if not kept:
            stored(api).decoded = None
        write(api, "bind")
        pods.append(api.good("GET", f"{PODS}/web"))
        api.good("DELETE", f"{PODS}/web?gracePeriodSeconds=0")
    own = ("uid", "resourceVersion")
    one, other = ({**pod, "metadata": {k: v for k, v in pod["metadata"].items() if k not in own}} for pod in pods)
    assert msgspec.json.encode(one).replace(b"-1", b"") == msgspec.json.encode(other).replace(b"-1", b"")


def test_only_the_objects_that_were_written_last_are_kept_decoded(api: Api) -> None:
    api.backend.store.most_decoded = 2
    for name in "abc":
        api.create_map(name, key=name)
    api.good("PATCH", f"{MAPS}/b", {"data": {"key": "again"}}, content_type=MERGE)
    api.good("DELETE", f"{MAPS}/c")
    kept = {each.key: each.decoded for each in api.backend.store.list("/core/configmaps/default/").items}
    assert [key for key, decoded in kept.items() if decoded is not None] == ["/core/configmaps/default/b"]


def test_large_objects_are_not_kept_decoded(api: Api) -> None:
    """They take ten times as much decoded, and little where they are kept compressed."""
    api.backend.store.most_decoded = 100
    for name, size in (("small", 1000), ("large", LARGEST_DECODED), ("first-small", 1000)):
        api.create_map(name, key="x" * size)
    api.good("PATCH", f"{MAPS}/first-small", {"data": {"key": "x" * LARGEST_DECODED}}, content_type=MERGE)
    kept = [each.key for each in api.backend.store.list("/core/configmaps/default/").items if each.decoded is not None]
    assert kept == ["/core/configmaps/default/small"]
