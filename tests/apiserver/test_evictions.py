"""Evictions of pods that change or are replaced meanwhile: the budget decides about the pod that is deleted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kilauea.apiserver import turns
from kilauea.apiserver.dynamic.remote import Target
from kilauea.apiserver.request import ApiResponse, make_request
from support.api_core import ADMIN, PODS, Answer, Api

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MERGE = "application/merge-patch+json"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
UNREADY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}


class SlowHook:
    """A webhook that allows each eviction, after the requests that a test sends meanwhile."""

    def __init__(self) -> None:
        self.meanwhile: list[tuple[str, str, Any]] = []
        self.send: Callable[[str, str, Any], Any] = lambda *_: None

    async def post(self, target: Target, body: bytes, seconds: float) -> bytes:
        """Answer a review."""
        for each in self.meanwhile:
            answer = await self.send(*each)
            assert answer.status in (200, 201), answer.body
        review = json.loads(body)
        response = {"uid": review["request"]["uid"], "allowed": True}
        return json.dumps({**review, "request": None, "response": response}).encode()


@pytest.fixture
def hook() -> SlowHook:
    return SlowHook()


@pytest.fixture
def api(hook: SlowHook) -> Iterator[Api]:
    made = Api(remote=hook)
    hook.send = lambda method, path, body: made.server.handle(request_of(method, path, body))
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction"]}
    slow = {
        "name": "slow.example.com",
        "rules": [rule],
        "clientConfig": {"url": "https://example.com/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    made.good("POST", HOOKS, {"metadata": {"name": "slow"}, "webhooks": [slow]})
    yield made
    made.close()


def request_of(method: str, path: str, body: Any) -> Any:
    kind = MERGE if method == "PATCH" else "application/json"
    return make_request(method, path, {"content-type": kind}, json.dumps(body).encode(), ADMIN)


def create(api: Api, name: str, state: dict[str, Any] | None = None) -> Any:
    """A pod of the budget, with a status."""
    api.create_pod(name, {"app": "web"}, nodeName="n1")
    return api.good("PATCH", f"{PODS}/{name}/status", {"status": state or {}}, content_type=MERGE)


def budget(api: Api, allowed: int, **state: int) -> None:
    """A budget that allows so many disruptions."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    api.good("POST", BUDGETS, {"metadata": {"name": "web"}, "spec": spec})
    known = {"observedGeneration": 1, "disruptionsAllowed": allowed, "expectedPods": 1, "desiredHealthy": 1, **state}
    api.good("PATCH", f"{BUDGETS}/web/status", {"status": {"currentHealthy": 1, **known}}, content_type=MERGE)


def evict(api: Api, name: str, **preconditions: str) -> Answer:
    body = {"metadata": {"name": name}, "deleteOptions": {"preconditions": preconditions}}
    return api.ask("POST", f"{PODS}/{name}/eviction", body)


@pytest.mark.parametrize("before", [{}, UNREADY])
def test_a_pod_that_becomes_ready_meanwhile_is_not_evicted_without_its_budget(
    api: Api, hook: SlowHook, before: dict[str, Any]
) -> None:
    budget(api, 0)
    create(api, "a", before)
    hook.meanwhile = [("PATCH", f"{PODS}/a/status", {"status": READY})]
    assert evict(api, "a").code == 429
    pod = api.good("GET", f"{PODS}/a")
    assert "deletionTimestamp" not in pod["metadata"]
    assert "DisruptionTarget" not in [each["type"] for each in pod["status"]["conditions"]]


def test_the_budget_decides_about_the_pod_that_replaces_another(api: Api, hook: SlowHook) -> None:
    budget(api, 0)
    old = create(api, "a", {"phase": "Failed"})
    new = {"metadata": {"name": "a", "labels": {"app": "web"}}, "spec": old["spec"]}
    hook.meanwhile = [
        ("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0}),
        ("POST", PODS, new),
        ("PATCH", f"{PODS}/a/status", {"status": READY}),
    ]
    assert evict(api, "a").code == 429
    assert "deletionTimestamp" not in api.good("GET", f"{PODS}/a")["metadata"]


@pytest.mark.parametrize("state", [{}, UNREADY])
def test_a_change_before_the_deletion_lets_the_budget_decide_again(
    api: Api, monkeypatch: pytest.MonkeyPatch, state: dict[str, Any]
) -> None:
    budget(api, 0)
    create(api, "a", state)
    store, write = api.backend.store, api.backend.store.write
    late = [request_of("PATCH", f"{PODS}/a/status", {"status": READY})]

    async def overtaken(key: str, *rest: Any) -> Any:
        if key == "/core/pods/default/a" and late:
            await api.server.handle(late.pop())
        return await write(key, *rest)

    monkeypatch.setattr(store, "write", overtaken)
    assert evict(api, "a").code == 429
    assert not late
    assert "deletionTimestamp" not in api.good("GET", f"{PODS}/a")["metadata"]


def test_evictions_of_a_pod_at_once_do_not_hinder_each_other(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would otherwise change the pod that the others have looked at, again and again."""
    create(api, "a", {"phase": "Pending"})
    store, write, count = api.backend.store, api.backend.store.write, 0

    async def counted(key: str, *rest: Any) -> Any:
        nonlocal count
        count += key == "/core/pods/default/a"
        found = await write(key, *rest)
        await asyncio.sleep(0)  # as the disk does
        return found

    monkeypatch.setattr(store, "write", counted)
    path, clients = f"{PODS}/a/eviction", 6

    async def run() -> list[Any]:
        asked = [request_of("POST", path, {"metadata": {"name": "a"}}) for _ in range(clients)]
        return await asyncio.gather(*map(api.server.handle, asked))

    assert [each.status for each in api.run(run())] == [201] * clients
    assert count <= 4 * clients


def test_preconditions_are_about_the_pod_as_it_was_before_its_eviction(api: Api) -> None:
    budget(api, 2)
    pod = create(api, "a", READY)["metadata"]
    for stale in ({"resourceVersion": "1"}, {"uid": "other"}):
        assert evict(api, "a", **stale).code == 409
    assert api.good("GET", f"{PODS}/a")["metadata"]["resourceVersion"] == pod["resourceVersion"]
    assert api.good("GET", f"{BUDGETS}/web")["status"]["disruptionsAllowed"] == 2
    assert evict(api, "a", uid=pod["uid"], resourceVersion=pod["resourceVersion"]).code == 201
    assert "deletionTimestamp" in api.good("GET", f"{PODS}/a")["metadata"]
    assert api.good("GET", f"{BUDGETS}/web")["status"]["disruptionsAllowed"] == 1


def test_evictions_compare_a_pod_with_many_budgets_in_steps(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else of the loop waits for the comparisons of several evictions."""
    now, rounds = 0.0, [0]

    def cpu_time() -> float:  # each look, one for each budget, takes 5 ms
        nonlocal now
        now += 0.005
        rounds[-1] += 1
        return now

    async def count() -> None:
        while True:
            await asyncio.sleep(0)
            rounds.append(0)

    for number in range(40):
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": f"other-{number}"}}}
        api.good("POST", BUDGETS, {"metadata": {"name": f"b{number}"}, "spec": spec})
    for number in range(5):
        create(api, f"p{number}", READY)
    monkeypatch.setattr(turns, "thread_time", cpu_time)
    monkeypatch.setattr(turns, "LEAST", turns.LOOK)

    async def run() -> list[int]:
        counting = asyncio.create_task(count())
        bodies = [(f"{PODS}/p{number}/eviction", {"metadata": {"name": f"p{number}"}}) for number in range(5)]
        try:
            answers = await asyncio.gather(*(api.server.handle(request_of("POST", *each)) for each in bodies))
        finally:
            counting.cancel()
        return [answer.status for answer in answers if isinstance(answer, ApiResponse)]

    assert api.run(run()) == [201] * 5
    assert sum(rounds) >= 5 * 40
    first, *later = [each for each in rounds if each]
    assert first <= 2 * 5  # the first turns are short
    assert max(later) <= 8


def test_an_eviction_sees_a_changed_selector_of_a_budget(api: Api) -> None:
    budget(api, 0)
    create(api, "a", READY)
    assert evict(api, "a").code == 429
    api.good("PATCH", f"{BUDGETS}/web", {"spec": {"selector": {"matchLabels": {"app": "db"}}}}, content_type=MERGE)
    assert evict(api, "a").code == 201
