"""Quotas hold under concurrency, and their status is what the objects add up to, whatever happens."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilauea.apiserver.admission.amounts import texts
from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.admission.quota import accounts, usage
from kilauea.apiserver.admission.quota.account import Account
from kilauea.apiserver.admission.quota.accounts import TOGETHER, NamespaceAccounts
from kilauea.apiserver.admission.quota.usage import usage_of
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.bootstrap import create_first_objects
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.large_writes import LargeWrites
from kilauea.apiserver.request import ApiResponse, make_request
from kilauea.apiserver.resources.builtin import builtin_types
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.storage import StorageError, Store
from kilauea.apiserver.storage.log import RevisionLog
from support.api_core import ADMIN, MAPS, PODS, START, Api

QUOTAS = "/api/v1/namespaces/default/resourcequotas"


def quota(name: str = "q", *, scopes: list[str] | None = None, **hard: str) -> dict[str, Any]:
    """A quota; underscores of names stand for points and slashes for themselves."""
    return {"metadata": {"name": name}, "spec": {"hard": hard, **({"scopes": scopes} if scopes else {})}}


def pod(name: str, cpu: str | None = None, **spec: Any) -> dict[str, Any]:
    """A pod that asks for cpu."""
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    containers = [{"name": "main", "image": "busybox:1", "resources": resources}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def used(api: Api, name: str = "q") -> Any:
    """What a quota's status says is used."""
    return api.good("GET", f"{QUOTAS}/{name}")["status"]["used"]


def test_a_new_quota_counts_what_is_there(api: Api) -> None:
    api.good("POST", PODS, pod("one", "500m"))
    api.create_map("a")
    hard: dict[str, Any] = {"requests.cpu": "2", "pods": "5", "configmaps": "3", "count/jobs.batch": "4"}
    api.good("POST", QUOTAS, quota(**hard))
    assert used(api) == {"configmaps": "1", "count/jobs.batch": "0", "pods": "1", "requests.cpu": "500m"}
    assert api.good("GET", f"{QUOTAS}/q")["status"]["hard"]["requests.cpu"] == "2"


def test_what_is_deleted_or_ends_is_free_again(api: Api) -> None:
    hard: dict[str, Any] = {"requests.cpu": "2", "pods": "2", "count/pods": "5"}
    api.good("POST", QUOTAS, quota(**hard))
    for name in ("one", "two"):
        api.good("POST", PODS, pod(name, "1"))
    assert api.ask("POST", PODS, pod("three", "1")).code == 403
    api.good("DELETE", f"{PODS}/one")
    assert used(api) == {"count/pods": "1", "pods": "1", "requests.cpu": "1"}
    patch = {"status": {"phase": "Succeeded"}}
    api.good("PATCH", f"{PODS}/two/status", patch, content_type="application/merge-patch+json")
    assert used(api) == {"count/pods": "1", "pods": "0", "requests.cpu": "0"}
    api.good("POST", PODS, pod("three", "2"))
    assert used(api) == {"count/pods": "2", "pods": "1", "requests.cpu": "2"}


def test_a_collection_that_is_deleted_is_free_again(api: Api) -> None:
    api.good("POST", QUOTAS, quota(configmaps="2"))
    api.create_map("a")
    api.create_map("b")
    api.good("DELETE", MAPS)
    assert used(api) == {"configmaps": "0"}


def test_concurrent_creates_share_what_is_left(api: Api) -> None:
    hard: dict[str, Any] = {"requests.cpu": "10"}
    api.good("POST", QUOTAS, quota(**hard))

    async def all_at_once() -> list[int]:
        bodies = [json.dumps(pod(f"p{number}", "1")).encode() for number in range(30)]
        requests = [make_request("POST", PODS, {}, body, ADMIN) for body in bodies]
        answers = await asyncio.gather(*(api.server.handle(each) for each in requests))
        return [each.status for each in answers if isinstance(each, ApiResponse)]

    codes = api.run(all_at_once())
    assert sorted(set(codes)) == [201, 403]
    assert codes.count(201) == 10
    assert used(api) == {"requests.cpu": "10"}


def test_a_name_that_is_taken_costs_nothing(api: Api) -> None:
    api.good("POST", QUOTAS, quota(configmaps="2"))
    api.create_map("a")
    assert api.ask("POST", MAPS, {"metadata": {"name": "a"}}).code == 409
    api.create_map("b")
    assert used(api) == {"configmaps": "2"}


def test_what_is_only_tried_is_checked_and_not_counted(api: Api) -> None:
    api.good("POST", QUOTAS, quota(configmaps="1"))
    api.good("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "a"}})
    assert used(api) == {"configmaps": "0"}
    api.create_map("a")
    assert api.ask("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "b"}}).code == 403


def test_a_quota_that_changes_is_counted_again(api: Api) -> None:
    api.create_map("a")
    api.good("POST", QUOTAS, quota(configmaps="1"))
    merge: dict[str, Any] = {"content_type": "application/merge-patch+json"}
    api.good("PATCH", f"{QUOTAS}/q", {"spec": {"hard": {"configmaps": "2", "pods": "0"}}}, **merge)
    assert used(api) == {"configmaps": "1", "pods": "0"}
    api.create_map("b")
    assert api.ask("POST", PODS, pod("p")).code == 403


def test_a_status_that_somebody_else_writes_is_put_right(api: Api) -> None:
    api.good("POST", QUOTAS, quota(configmaps="1"))
    lie = {"status": {"hard": {"configmaps": "9"}, "used": {"configmaps": "7"}}}
    api.good("PATCH", f"{QUOTAS}/q/status", lie, content_type="application/merge-patch+json")
    assert used(api) == {"configmaps": "0"}


def test_a_quota_that_is_gone_refuses_nothing(api: Api) -> None:
    api.good("POST", QUOTAS, quota(configmaps="0"))
    assert api.ask("POST", MAPS, {"metadata": {"name": "a"}}).code == 403
    api.good("DELETE", f"{QUOTAS}/q")
    api.create_map("a")


def test_every_quota_must_allow_a_write(api: Api) -> None:
    api.good("POST", QUOTAS, quota("a", configmaps="2"))
    api.good("POST", QUOTAS, quota("b", configmaps="1"))
    api.create_map("one")
    answer = api.ask("POST", MAPS, {"metadata": {"name": "two"}})
    words = "exceeded quota: b, requested: configmaps=1, used: configmaps=1, limited: configmaps=1"
    assert answer.body["message"] == f'configmaps "two" is forbidden: {words}'
    assert used(api, "a") == {"configmaps": "1"}


def test_other_namespaces_are_not_limited(api: Api) -> None:
    api.good("POST", QUOTAS, quota(configmaps="0"))
    api.good("POST", "/api/v1/namespaces/kube-public/configmaps", {"metadata": {"name": "a"}})


def test_quotas_count_themselves(api: Api) -> None:
    api.good("POST", QUOTAS, quota("a", resourcequotas="2"))
    assert used(api, "a") == {"resourcequotas": "1"}
    api.good("POST", QUOTAS, quota("b", pods="1"))
    assert api.ask("POST", QUOTAS, quota("c", pods="1")).code == 403
    api.good("DELETE", f"{QUOTAS}/b")
    assert used(api, "a") == {"resourcequotas": "1"}


def test_a_quota_limits_the_devices_of_a_class_that_claims_ask_for(api: Api) -> None:
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    name = "gold.deviceclass.resource.k8s.io/devices"
    api.good("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {name: "3"}}})
    asked = {"name": "r", "exactly": {"deviceClassName": "gold", "allocationMode": "ExactCount", "count": 2}}
    claim: dict[str, Any] = {"spec": {"devices": {"requests": [asked]}}}
    api.good("POST", claims, {"metadata": {"name": "a"}, **claim})
    assert used(api) == {name: "2"}
    refused = api.ask("POST", claims, {"metadata": {"name": "b"}, **claim})
    assert (refused.code, "exceeded quota: q" in refused.body["message"]) == (403, True)
    api.good("DELETE", f"{claims}/a")
    assert used(api) == {name: "0"}


def test_a_caller_that_goes_away_does_not_take_the_account_with_it(tmp_path: Path) -> None:
    async def play() -> Any:
        backend = await open_backend(tmp_path)
        server = ApiServer(backend)
        await create_first_objects(server)
        await ask(server, "POST", QUOTAS, quota(configmaps="2"))
        call = asyncio.ensure_future(ask(server, "POST", MAPS, {"metadata": {"name": "a"}}))
        await asyncio.sleep(0)
        call.cancel()
        while backend.store.get("/core/configmaps/default/a") is None:
            await asyncio.sleep(0.001)
        await ask(server, "POST", MAPS, {"metadata": {"name": "b"}})
        refused = await ask(server, "POST", MAPS, {"metadata": {"name": "c"}})
        found = await ask(server, "GET", f"{QUOTAS}/q")
        await backend.store.close()
        return refused["code"], found["status"]["used"]

    assert asyncio.run(play()) == (403, {"configmaps": "2"})


def test_the_status_of_many_quotas_takes_few_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = 3 * TOGETHER

    async def play() -> list[Any]:
        backend = await open_backend(tmp_path)
        server = ApiServer(backend)
        await create_first_objects(server)
        for each in range(number):
            await ask(server, "POST", QUOTAS, quota(f"q{each}", configmaps="5"))
        commits = calls_of(monkeypatch, RevisionLog, "append")
        await ask(server, "POST", MAPS, {"metadata": {"name": "a"}})
        assert len(commits) <= 1 + 2 * 3  # the writer may begin with the first of those that come together
        found = [await ask(server, "GET", f"{QUOTAS}/q{each}") for each in range(number)]
        await backend.store.close()
        return [each["status"]["used"] for each in found]

    assert asyncio.run(play()) == number * [{"configmaps": "1"}]


def test_writes_that_come_together_share_the_status_of_quotas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quotas, writes = 2 * TOGETHER, 20
    names = [f"m{number}" for number in range(writes)]

    async def play() -> None:
        backend = await open_backend(tmp_path)
        server = ApiServer(backend)
        await create_first_objects(server)
        for each in range(quotas):
            await ask(server, "POST", QUOTAS, quota(f"q{each}", configmaps="50"))
        told = calls_of(monkeypatch, Account, "status")
        await asyncio.gather(*(ask(server, "POST", MAPS, {"metadata": {"name": name}}) for name in names))
        assert await counts(server) == {"20"}
        assert len(told) <= 3 * quotas, "at most three rounds for all"
        await server.handle(make_request("DELETE", MAPS, {}, b"", ADMIN))
        async with asyncio.timeout(10):
            while await counts(server) != {"0"}:
                await asyncio.sleep(0)
        await backend.store.close()

    async def counts(server: ApiServer) -> set[str]:
        found = [await ask(server, "GET", f"{QUOTAS}/q{each}") for each in range(quotas)]
        return {each["status"]["used"]["configmaps"] for each in found}

    asyncio.run(play())


def test_a_status_that_could_not_be_written_is_written_after_another_write(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.good("POST", QUOTAS, quota(configmaps="5"))

    async def full(*_: Any) -> None:
        raise StorageError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(NamespaceAccounts, "_told", full)
        api.create_map("a")
    assert used(api) == {"configmaps": "0"}
    api.good("POST", PODS, pod("one"))
    assert used(api) == {"configmaps": "1"}


def test_the_usage_of_a_write_is_found_once_for_quotas_that_are_alike(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        api.good("POST", QUOTAS, quota(f"q{number}", pods="5"))
    shares = calls_of(monkeypatch, Account, "share")
    api.good("POST", PODS, pod("one"))
    assert len(shares) == 2  # of the old object and the new one
    assert [used(api, f"q{number}") for number in range(5)] == 5 * [{"pods": "1"}]


def test_accounts_go_on_after_a_restart(tmp_path: Path) -> None:
    async def first() -> None:
        backend = await open_backend(tmp_path)
        server = ApiServer(backend)
        await create_first_objects(server)
        await ask(server, "POST", QUOTAS, quota(configmaps="2"))
        stored = backend.store.get("/core/resourcequotas/default/q")
        assert stored is not None
        await ask(server, "POST", MAPS, {"metadata": {"name": "a"}})
        # The status is lost as by a crash between the two writes.
        await backend.store.write(stored.key, None, lambda _: stored.value)
        await backend.store.close()

    async def second() -> Any:
        backend = await open_backend(tmp_path)
        server = ApiServer(backend)
        await create_first_objects(server)
        shown = await ask(server, "GET", f"{QUOTAS}/q")
        while shown["status"]["used"] != {"configmaps": "1"}:
            await asyncio.sleep(0.001)
            shown = await ask(server, "GET", f"{QUOTAS}/q")
        codes = [(await ask(server, "POST", MAPS, {"metadata": {"name": name}})).get("code", 201) for name in "bc"]
        await backend.store.close()
        return codes

    asyncio.run(first())
    assert asyncio.run(asyncio.wait_for(second(), 10)) == [201, 403]


async def open_backend(folder: Path) -> Backend:
    """What a server works with, on a disk."""
    store = await Store.open(folder, "normal")
    return Backend(store, Registry(builtin_types()), lambda: START, Random(7), admission_steps())


async def ask(server: ApiServer, method: str, path: str, body: Any = None) -> Any:
    """The decoded answer to a request."""
    data = b"" if body is None else json.dumps(body).encode()
    answer = await server.handle(make_request(method, path, {}, data, ADMIN))
    assert isinstance(answer, ApiResponse)
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["create", "create", "delete", "end", "deadline", "other"]),
        st.integers(0, 5),
        st.sampled_from(["100m", "0.5", "1", None]),
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None)
@given(ACTIONS, st.sampled_from([None, ["NotBestEffort"], ["Terminating"], ["NotTerminating", "BestEffort"]]))
def test_the_status_is_what_a_new_count_gives(
    actions: list[tuple[str, int, str | None]], scopes: list[str] | None
) -> None:
    api = Api()
    try:
        hard = {"pods": "4"} if scopes and "BestEffort" in scopes else {"pods": "4", "requests.cpu": "2"}
        api.good("POST", QUOTAS, quota("kept", scopes=scopes, **hard))
        for action, number, cpu in actions:
            path = f"{PODS}/p{number}"
            if action == "create":
                api.ask("POST", PODS, pod(f"p{number}", cpu, **({"activeDeadlineSeconds": 9} if number % 2 else {})))
            elif action == "delete":
                api.ask("DELETE", path)
            elif action == "end":
                api.ask(
                    "PATCH",
                    f"{path}/status",
                    {"status": {"phase": "Failed"}},
                    content_type="application/merge-patch+json",
                )
            elif action == "deadline":
                api.ask(
                    "PATCH", path, {"spec": {"activeDeadlineSeconds": 5}}, content_type="application/merge-patch+json"
                )
            else:
                api.ask("POST", MAPS, {"metadata": {"name": f"m{number}"}})
        api.good("POST", QUOTAS, quota("fresh", scopes=scopes, **hard))
        assert used(api, "kept") == used(api, "fresh")
        assert float(used(api, "kept")["pods"]) <= 4
    finally:
        api.close()


PORTS = [{"port": 1}, {"port": 2, "nodePort": 3}]
BALANCED = {"spec": {"type": "LoadBalancer", "ports": PORTS, "allocateLoadBalancerNodePorts": False}}
DEVICES = {
    "spec": {
        "devices": {
            "requests": [
                {"name": "a", "exactly": {"deviceClassName": "gold", "allocationMode": "ExactCount", "count": 2}},
                {"name": "b", "exactly": {"deviceClassName": "gold", "allocationMode": "All"}},
                {
                    "name": "c",
                    "firstAvailable": [
                        {"name": "best", "deviceClassName": "gold", "count": 1},
                        {"name": "more", "deviceClassName": "gold", "count": 3},
                        {"name": "last", "deviceClassName": "tin", "count": 2},
                    ],
                },
            ]
        }
    }
}
WITH_SIDECAR = {
    "spec": {
        "overhead": {"cpu": "100m"},
        "initContainers": [
            {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
            {"name": "init", "resources": {"requests": {"cpu": "3", "hugepages-2Mi": "4Mi"}}},
        ],
        "containers": [
            {"name": "main", "resources": {"requests": {"cpu": "2", "a.com/b": "1"}, "limits": {"memory": "1G"}}}
        ],
    }
}


@pytest.mark.parametrize(
    ("kind", "obj", "counted"),
    [
        (("", "secrets"), {}, "count/secrets=1 secrets=1"),
        (("apps", "deployments"), {}, "count/deployments.apps=1"),
        (("", "services"), BALANCED, "count/services=1 services=1 services.loadbalancers=1 services.nodeports=1"),
        (
            ("", "pods"),
            WITH_SIDECAR,
            "count/pods=1 cpu=4100m hugepages-2Mi=4Mi limits.memory=1G pods=1 requests.a.com/b=1 requests.cpu=4100m "
            "requests.hugepages-2Mi=4Mi",
        ),
        (
            ("resource.k8s.io", "resourceclaims"),
            DEVICES,
            "count/resourceclaims.resource.k8s.io=1 gold.deviceclass.resource.k8s.io/devices=37 "
            "tin.deviceclass.resource.k8s.io/devices=2",
        ),
    ],
)
def test_what_an_object_counts(kind: tuple[str, str], obj: dict[str, Any], counted: str) -> None:
    assert texts(usage_of(kind, obj)) == dict(each.split("=") for each in counted.split())


# --- large quotas


def calls_of(monkeypatch: pytest.MonkeyPatch, holder: Any, name: str) -> list[Any]:
    """The first argument of each call of a function."""
    calls, function = list[Any](), getattr(holder, name)

    def noting(first: Any, *args: Any) -> Any:
        calls.append(first)
        return function(first, *args)

    monkeypatch.setattr(holder, name, noting)
    return calls


def test_few_kinds_are_compared_with_all_names_of_a_quota(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = calls_of(monkeypatch, usage, "matches")
    hard: dict[str, Any] = {f"count/things{number}.example.com": "1" for number in range(200)}
    api.good("POST", QUOTAS, quota(**hard, configmaps="5", services="7"))
    assert set(compared) == {
        ("", "persistentvolumeclaims"),
        ("", "pods"),
        ("resource.k8s.io", "resourceclaims"),
    }
    api.create_map("a")
    assert {name: number for name, number in used(api).items() if number != "0"} == {"configmaps": "1"}


def test_quotas_that_a_write_is_not_about_are_not_told_again(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        api.good("POST", QUOTAS, quota(f"pods-{number}", pods="5"))
    api.good("POST", QUOTAS, quota("maps", configmaps="5"))
    told = calls_of(monkeypatch, Account, "status")
    api.create_map("a")
    assert {account.name for account in told} == {"maps"}
    api.good("POST", PODS, pod("one"))
    assert {account.name for account in told} == {"maps", *(f"pods-{number}" for number in range(5))}
    assert used(api, "maps") == {"configmaps": "1"}
    assert used(api, "pods-4") == {"pods": "1"}


def test_the_status_of_a_large_quota_is_made_beside_the_loop(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = api.backend.large_writes = LargeWrites()
    hard: dict[str, Any] = {f"requests.example.com/r{number}": "1" for number in range(1_000)}
    api.good("POST", QUOTAS, quota(**hard, pods="5"))
    beside, run = list[Any](), writes.run

    async def noting(function: Any) -> Any:
        beside.append(getattr(function, "func", function))
        return await run(function)

    monkeypatch.setattr(writes, "run", noting)
    api.good("POST", PODS, pod("one"))
    assert accounts._told in beside
    assert used(api)["pods"] == "1"
    api.backend.large_writes = None
    writes.close()


def test_large_objects_are_counted_a_few_at_a_time(api: Api) -> None:
    for number in range(6):
        api.create_map(f"m{number}", text="x" * 300_000)
    books = NamespaceAccounts(api.backend, "default")
    account, steps = books.open(quota(configmaps="20"))
    assert sum(1 for _ in steps) >= 3
    assert texts(account.used) == {"configmaps": "6"}
