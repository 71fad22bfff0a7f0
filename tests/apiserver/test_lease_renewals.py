"""A node's lease that is renewed by this process: the same as if anyone had patched it, in fewer steps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from kilauea.api.times import SECOND
from kilauea.apiserver.request import ApiResponse, make_request
from kilauea.apiserver.rest import patching, update
from kilauea.apiserver.storage import Conflict, Store, Stored
from support.api_core import ADMIN, Api

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE = f"{LEASES}/n"
MERGE = "application/merge-patch+json"
RENEWAL = {"spec": {"renewTime": "2026-01-01T00:00:10.000000Z"}}
SPEC = {"holderIdentity": "n", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"}


@pytest.fixture
def with_lease() -> Iterator[Callable[..., Api]]:
    """Makes servers with a lease, ten seconds after that was made."""
    made: list[Api] = []

    def make(**more: Any) -> Api:
        api = Api()
        made.append(api)
        api.backend.store.most_decoded = 100
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}
        metadata = {"name": "n", "labels": {"a": "b"}, "ownerReferences": [owner], **more}
        api.good("POST", LEASES, {"metadata": metadata, "spec": SPEC}, user_agent="kubelet/1")
        api.now += 10 * SECOND
        return api

    yield make
    for each in made:
        each.close()


def patch(api: Api, body: Any, *, is_ours: bool, query: str = "", agent: str = "kubelet/1") -> tuple[int, Any]:
    """The answer to a patch of the lease."""
    headers = {"user-agent": agent, "content-type": MERGE}
    request = make_request("PATCH", LEASE + query, headers, msgspec.json.encode(body), ADMIN)
    request.is_ours = is_ours
    answer = api.run(api.server.handle(request))
    assert isinstance(answer, ApiResponse)
    assert isinstance(answer.body, bytes)
    return answer.status, msgspec.json.decode(answer.body)


def lease_of(api: Api) -> Stored:
    """The lease as it is stored."""
    found = api.backend.store.get("/coordination.k8s.io/leases/kube-node-lease/n")
    assert found is not None
    return found


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of objects that were changed by the general rules for updates, in a test."""
    changed: list[str] = []
    change = update.change_object

    async def noted(call: Any, *args: Any, **options: Any) -> bytes:
        changed.append(call.info.name)
        return await change(call, *args, **options)

    monkeypatch.setattr(patching, "change_object", noted)
    return changed


def test_a_renewal_takes_none_of_the_steps_of_an_update(with_lease: Callable[..., Api], general: list[str]) -> None:
    api = with_lease()
    assert patch(api, RENEWAL, is_ours=True)[0] == 200
    assert general == []
    assert patch(api, {"spec": {"renewTime": SPEC["renewTime"]}}, is_ours=False)[0] == 200
    assert general == ["n"]


def test_a_renewal_leaves_what_was_shared_and_shares_what_it_stored(with_lease: Callable[..., Api]) -> None:
    api = with_lease()
    before = lease_of(api).decoded
    assert before is not None
    kept = copy.deepcopy(before)
    patch(api, RENEWAL, is_ours=True)
    assert before == kept
    assert lease_of(api).decoded == msgspec.json.decode(lease_of(api).value)


@pytest.mark.parametrize(
    "body",
    [
        RENEWAL,
        {"spec": {"renewTime": SPEC["renewTime"]}},
        {"spec": {"renewTime": "2026-01-01T01:00:10.000000+01:00"}},
        {"spec": {"renewTime": "2026-01-01T00:00:10Z"}},
        {"spec": {"renewTime": "2026-02-30T00:00:10.000000Z"}},
        {"spec": {"renewTime": None}},
        {"spec": {"renewTime": 7}},
        {"spec": None},
        {"spec": {**RENEWAL["spec"], "leaseDurationSeconds": 0}},
        {"spec": {**RENEWAL["spec"], "color": "red"}},
        {**RENEWAL, "metadata": {"labels": {"a": "c"}}},
        {**RENEWAL, "metadata": {"resourceVersion": "1"}},
        {**RENEWAL, "kind": "Pod"},
        [],
    ],
)
def test_the_outcome_is_that_of_any_patch(with_lease: Callable[..., Api], body: Any) -> None:
    outcomes = []
    for is_ours in (True, False):
        api = with_lease()
        outcomes.append((patch(api, body, is_ours=is_ours), lease_of(api).value))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("query", ["?dryRun=All", "?fieldManager=other", "?dryRun=Some"])
def test_options_are_heeded(with_lease: Callable[..., Api], query: str) -> None:
    outcomes = []
    for is_ours in (True, False):
        api = with_lease()
        outcomes.append((patch(api, RENEWAL, is_ours=is_ours, query=query), lease_of(api).value))
    assert outcomes[0] == outcomes[1]


def test_who_renews_the_lease_of_another_becomes_a_manager(with_lease: Callable[..., Api]) -> None:
    stored = []
    for is_ours in (True, False):
        api = with_lease()
        patch(api, RENEWAL, is_ours=is_ours, agent="other/1")
        patch(api, {"spec": {"renewTime": "2026-01-01T00:00:20.000000Z"}}, is_ours=is_ours)
        stored.append(lease_of(api).value)
    assert stored[0] == stored[1]
    managers = msgspec.json.decode(stored[0])["metadata"]["managedFields"]
    assert [each["manager"] for each in managers] == ["kubelet"]


def test_a_lease_that_is_held_up_while_it_is_deleted_is_renewed(with_lease: Callable[..., Api]) -> None:
    api = with_lease(finalizers=["example.com/hold"])
    api.good("DELETE", LEASE)
    assert patch(api, RENEWAL, is_ours=True)[1]["metadata"]["finalizers"] == ["example.com/hold"]
    assert api.good("GET", LEASE)["spec"]["renewTime"] == RENEWAL["spec"]["renewTime"]


def test_a_lease_that_is_not_there_is_not_found(with_lease: Callable[..., Api]) -> None:
    api = with_lease()
    api.good("DELETE", LEASE)
    assert patch(api, RENEWAL, is_ours=True)[0] == 404


def test_webhooks_and_policies_are_asked(
    with_lease: Callable[..., Api], general: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = with_lease()
    assert api.backend.dynamic is not None
    monkeypatch.setattr(api.backend.dynamic, "has_any", lambda: True)
    assert patch(api, RENEWAL, is_ours=True)[0] == 200
    assert general == ["n"]


def test_a_renewal_that_another_write_overtakes_is_made_on_the_newer_lease(
    with_lease: Callable[..., Api], general: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = with_lease()
    write, overtaken = Store.write, [True]

    async def late(self: Store, key: str, *args: Any, **options: Any) -> Stored:
        if overtaken and overtaken.pop():
            raise Conflict(lease_of(api))
        return await write(self, key, *args, **options)

    monkeypatch.setattr(Store, "write", late)
    code, lease = patch(api, RENEWAL, is_ours=True)
    assert (code, lease["spec"]["renewTime"]) == (200, RENEWAL["spec"]["renewTime"])
    assert general == ["n"]


def test_fields_for_coordinated_elections_are_not_stored(with_lease: Callable[..., Api]) -> None:
    """As in the real server, where they are behind a feature gate that is off by default."""
    api = with_lease()
    spec = {"strategy": "OldestEmulationVersion", "preferredHolder": "m", "leaseTransitions": 1}
    assert patch(api, {"spec": spec}, is_ours=False)[1]["spec"] == SPEC | {"leaseTransitions": 1}
