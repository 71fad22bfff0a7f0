"""Priority and fairness: every request belongs to a FlowSchema, whose level lets so many in at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kilauea.api.kinds import FLOW_SCHEMAS, PRIORITY_LEVELS
from kilauea.apiserver.flow_control.classes import LEVEL_HEADER, SCHEMA_HEADER
from kilauea.apiserver.flow_control.configuration import FlowConfiguration
from kilauea.apiserver.flow_control.objects import AUTOUPDATE
from kilauea.apiserver.request import GROUP_AUTHENTICATED, User, make_request
from kilauea.apiserver.seats import Seats
from kilauea.apiserver.status import ApiFault
from support.api_core import ADMIN, Api
from support.controlled import Cluster

FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
BOB = User("bob", groups=(GROUP_AUTHENTICATED,))
NODE = User("system:node:n1", groups=("system:nodes", GROUP_AUTHENTICATED))
ACCOUNTS = ("system:serviceaccounts", GROUP_AUTHENTICATED)
OWN = User("system:serviceaccount:kube-system:dns", groups=ACCOUNTS)
OTHER = User("system:serviceaccount:team:dns", groups=ACCOUNTS)
EVERYTHING = {
    "resourceRules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}


def classified(api: Api, user: User | None, path: str, method: str = "GET", **headers: str) -> tuple[str, str]:
    """The names of the FlowSchema and the level of a request; empty where it belongs to none."""
    request = make_request(method, path, {key.replace("_", "-"): each for key, each in headers.items()}, user=user)
    api.run(api.server.handle(request))
    flow = api.server.flow_of(request)
    uids = dict(flow.headers) if flow is not None else {}
    return name_of(api, "flowschemas", uids.get(SCHEMA_HEADER)), name_of(
        api, "prioritylevelconfigurations", uids.get(LEVEL_HEADER)
    )


def name_of(api: Api, plural: str, uid: str | None) -> str:
    items = api.good("GET", f"{FLOW}/{plural}")["items"]
    return next((each["metadata"]["name"] for each in items if each["metadata"]["uid"] == uid), "")


def create_level(api: Api, name: str, shares: int = 1, **response: Any) -> None:
    limited = {"nominalConcurrencyShares": shares, "limitResponse": response or {"type": "Reject"}}
    spec = {"type": "Limited", "limited": limited}
    api.good("POST", f"{FLOW}/prioritylevelconfigurations", {"metadata": {"name": name}, "spec": spec})


def create_schema(api: Api, name: str, level: str, user: str, precedence: int = 50, **rule: Any) -> None:
    subjects = [{"kind": "User", "user": {"name": user}}]
    spec = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": subjects, **(rule or EVERYTHING)}],
    }
    api.good("POST", f"{FLOW}/flowschemas", {"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize(
    ("user", "path", "expected"),
    [
        (ADMIN, "/api/v1/nodes", ("exempt", "exempt")),
        (BOB, "/api/v1/nodes", ("global-default", "global-default")),
        (BOB, "/livez", ("probes", "exempt")),
        (None, "/livez", ("probes", "exempt")),
        (NODE, "/api/v1/nodes/n1", ("system-node-high", "node-high")),
        (NODE, "/api/v1/nodes/n1/status", ("system-node-high", "node-high")),
        (NODE, "/api/v1/pods", ("system-nodes", "system")),
        (OWN, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a",
         ("system-leader-election", "leader-election")),
        (OWN, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
         ("kube-system-service-accounts", "workload-high")),
        (OTHER, "/api/v1/namespaces/team/pods", ("service-accounts", "workload-low")),
        (User("x", groups=()), "/api", ("", "")),
    ],
)  # fmt: skip
def test_requests_are_classified_as_by_the_suggested_configuration(
    api: Api, user: User | None, path: str, expected: tuple[str, str]
) -> None:
    assert classified(api, user, path) == expected


def test_the_schema_of_lowest_precedence_decides_and_its_level_must_exist(api: Api) -> None:
    create_schema(api, "bobs", "slow", "bob")
    assert classified(api, BOB, "/api") == ("global-default", "global-default")
    create_level(api, "slow")
    assert classified(api, BOB, "/api") == ("bobs", "slow")
    assert classified(api, OTHER, "/api") == ("service-accounts", "workload-low")
    create_schema(api, "first", "slow", "bob", 49, nonResourceRules=[{"verbs": ["get"], "nonResourceURLs": ["/api/*"]}])
    assert classified(api, BOB, "/api/v1") == ("first", "slow")
    assert classified(api, BOB, "/api") == ("bobs", "slow")


def test_a_request_belongs_to_the_user_as_whom_it_acts(api: Api) -> None:
    create_level(api, "slow")
    create_schema(api, "bobs", "slow", "bob")
    assert classified(api, ADMIN, "/api", impersonate_user="bob") == ("bobs", "slow")


def test_a_request_that_is_not_authenticated_belongs_to_none(api: Api) -> None:
    assert classified(api, None, "/api/v1/nodes") == ("", "")


def test_a_level_without_room_refuses_until_a_seat_is_free(api: Api) -> None:
    create_level(api, "none", shares=0)
    create_schema(api, "bobs", "none", "bob")
    answer = api.ask("GET", "/api", user=BOB)
    assert (answer.code, answer.headers["Retry-After"]) == (429, "1")
    assert answer.body["message"] == "too many requests, please try again later"
    metrics = api.ask("GET", "/metrics").body
    assert 'apiserver_flowcontrol_rejected_requests_total{priority_level="none"} 1.0' in metrics
    level = api.good("GET", f"{FLOW}/prioritylevelconfigurations/none")
    level["spec"]["limited"]["nominalConcurrencyShares"] = 5
    api.good("PUT", f"{FLOW}/prioritylevelconfigurations/none", level)
    assert api.ask("GET", "/api", user=BOB).code == 200
    assert api.ask("GET", "/api", user=BOB).code == 200
    metrics = api.ask("GET", "/metrics").body
    assert 'apiserver_flowcontrol_nominal_limit_seats{priority_level="none"} 12.0' in metrics
    assert 'apiserver_flowcontrol_dispatched_requests_total{priority_level="none"} 2.0' in metrics
    assert 'apiserver_flowcontrol_current_executing_seats{priority_level="none"} 0.0' in metrics


def test_a_seat_is_given_back_after_an_error(api: Api) -> None:
    create_level(api, "slow")
    create_schema(api, "bobs", "slow", "bob")
    for _ in range(10):  # of 3 seats
        assert api.ask("GET", "/api/v1/namespaces/default/pods", user=BOB).code == 403


# --- the objects of every cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(FlowConfiguration())
    yield made
    made.close()


def dangling(cluster: Cluster, name: str) -> tuple[str, str]:
    conditions = cluster.get(FLOW_SCHEMAS, name)["status"]["conditions"]
    return next((each["status"], each["reason"]) for each in conditions if each["type"] == "Dangling")


def test_a_schema_says_whether_its_level_exists(cluster: Cluster) -> None:
    level = {"name": "slow"}
    rules = [{"subjects": [{"kind": "User", "user": {"name": "bob"}}], **EVERYTHING}]
    spec = {"priorityLevelConfiguration": level, "matchingPrecedence": 50, "rules": rules}
    cluster.create(FLOW_SCHEMAS, {"metadata": {"name": "bobs"}, "spec": spec})
    cluster.settle()
    assert dangling(cluster, "bobs") == ("True", "NotFound")
    known = cluster.get(FLOW_SCHEMAS, "bobs")["status"]["conditions"]
    cluster.patch(
        FLOW_SCHEMAS, "bobs", {"status": {"conditions": [*known, {"type": "Seen", "status": "True"}]}}, "status"
    )
    limited = {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}
    cluster.create(PRIORITY_LEVELS, {"metadata": level, "spec": {"type": "Limited", "limited": limited}})
    cluster.settle()
    assert dangling(cluster, "bobs") == ("False", "Found")
    assert {each["type"] for each in cluster.get(FLOW_SCHEMAS, "bobs")["status"]["conditions"]} == {"Seen", "Dangling"}


def test_objects_that_are_deleted_come_back(cluster: Cluster) -> None:
    cluster.settle()
    for resource, name in ((FLOW_SCHEMAS, "probes"), (PRIORITY_LEVELS, "system"), (PRIORITY_LEVELS, "catch-all")):
        cluster.delete(resource, name)
    cluster.settle()
    assert len(cluster.names(PRIORITY_LEVELS)) == 8
    assert len(cluster.names(FLOW_SCHEMAS)) == 11
    assert dangling(cluster, "probes") == ("False", "Found")


@pytest.mark.parametrize(
    ("name", "note", "expected"),
    [
        ("system", "true", 30),
        ("system", "false", 99),
        ("system", None, 99),
        ("catch-all", "false", 5),
    ],
)
def test_the_server_keeps_what_it_must_or_was_told_to_keep(
    cluster: Cluster, name: str, note: str | None, expected: int
) -> None:
    cluster.settle()
    limited = {"nominalConcurrencyShares": 99, "borrowingLimitPercent": 7}
    change = {"metadata": {"annotations": {AUTOUPDATE: note}}, "spec": {"limited": limited}}
    cluster.patch(PRIORITY_LEVELS, name, change)
    cluster.settle()
    found = cluster.get(PRIORITY_LEVELS, name)["spec"]["limited"]
    assert found["nominalConcurrencyShares"] == expected
    assert ("borrowingLimitPercent" in found) == (expected == 99)


# --- seats


def taken(seats: Seats, order: list[str], flow: str) -> asyncio.Task[None]:
    async def take() -> None:
        await seats.take(flow)
        order.append(flow)

    return asyncio.ensure_future(take())


def test_flows_take_turns_for_free_seats() -> None:
    async def play() -> list[str]:
        seats, order = Seats(), list[str]()
        seats.allow(1, 3)
        tasks = [taken(seats, order, flow) for flow in ("a", "a", "a", "a", "b")]
        await asyncio.sleep(0)
        with pytest.raises(ApiFault, match="too many requests"):
            await seats.take("a")
        assert (seats.taken, seats.waiting, seats.refused) == (1, 4, 1)
        for _ in range(5):
            seats.give()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        assert (seats.taken, seats.waiting, seats.dispatched) == (0, 0, 5)
        return order

    assert asyncio.run(play()) == ["a", "a", "b", "a", "a"]


def test_a_request_that_ends_while_it_waits_leaves_its_place() -> None:
    async def play() -> None:
        seats, order = Seats(), list[str]()
        seats.allow(1, 3)
        await seats.take("a")
        first, second, third = (taken(seats, order, flow) for flow in ("b", "b", "c"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        assert seats.waiting == 2
        seats.give()
        second.cancel()  # its seat has come, and goes on to the next
        await asyncio.gather(third)
        assert (order, seats.taken, seats.waiting) == (["c"], 1, 0)
        seats.give()
        assert seats.taken == 0

    asyncio.run(play())


def test_more_seats_let_those_that_wait_in_and_fewer_take_effect_with_time() -> None:
    async def play() -> None:
        seats, order = Seats(), list[str]()
        seats.allow(1, 3)
        tasks = [taken(seats, order, flow) for flow in ("a", "b", "c")]
        await asyncio.sleep(0)
        seats.allow(3, 3)
        await asyncio.gather(*tasks)
        seats.allow(1, 3)
        waits = taken(seats, order, "d")
        await asyncio.sleep(0)
        seats.give()
        seats.give()
        await asyncio.sleep(0)
        assert (seats.taken, order) == (1, ["a", "b", "c"])
        seats.give()
        await waits
        assert seats.taken == 1

    asyncio.run(play())


def test_no_tenant_takes_all_seats_and_one_that_comes_later_finds_some() -> None:
    async def test() -> None:
        seats = Seats()
        seats.allow(80, 100)

        async def take(flow: str, tenant: str) -> None:
            await seats.take(flow, tenant)

        waiting = [asyncio.create_task(take(f"account {number % 9}", "greedy")) for number in range(100)]
        await asyncio.sleep(0)
        assert (seats.taken, seats.waiting) == (70, 30)
        for tenant in ("second", "third", "fourth"):
            for _ in range(20):
                waiting.append(asyncio.create_task(take(tenant, tenant)))
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await take("fifth", "fifth")
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert seats.waiting == 0

    asyncio.run(test())


def test_a_tenant_alone_gets_the_seats_that_it_gives_back() -> None:
    async def test() -> None:
        seats, done = Seats(), 0
        seats.allow(16, 1000)

        async def work() -> None:
            nonlocal done
            await seats.take("flow", "tenant")
            await asyncio.sleep(0)
            done += 1
            seats.give("tenant")

        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            for _ in range(500):
                group.create_task(work())
        assert (done, seats.taken, seats.waiting) == (500, 0, 0)

    asyncio.run(test())
