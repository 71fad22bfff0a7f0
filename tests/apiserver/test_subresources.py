"""What is below objects: scale, binding, eviction, log; and the kinds that are answered and never kept."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kilauea.api.container_logs import LogEntry, LogReader, log_time, no_previous_run, waits_to_start
from kilauea.api.ports import Obj
from kilauea.api.times import SECOND, format_time
from kilauea.apiserver.request import ApiResponse, TextStream, Upgrade, User, make_request
from support.api_core import ADMIN, MAPS, PODS, START, Api, causes
from support.sockets import MemorySocket

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SERVICES = "/api/v1/namespaces/default/services"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = "application/merge-patch+json"


def deployment(api: Api, replicas: int) -> None:
    """A deployment `web`."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "x"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    api.good("POST", DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})


SOME = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Running", "conditions": [SOME, {**SOME, "type": "Odd", "lastProbeTime": None}], "podIP": "10.0.0.1"},
        {"phase": None, "hostIPs": [{"ip": "10.0.0.2", "odd": 1}], "qosClass": "Guaranteed"},
        {"phase": 5},
        {"conditions": [{"type": []}]},
        {"containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]},
        {},
    ],
)
def test_a_patch_of_the_status_alone_is_taken_as_one_of_the_object(api: Api, status: Any) -> None:
    path = f"{PODS}/web/status"

    def outcome(patch: Any) -> list[str]:
        """The answer and the pod, without what tells this pod from the next."""
        api.create_pod("web", automountServiceAccountToken=False)
        first = {"status": {"phase": "Pending", "conditions": [SOME]}}
        before = api.good("PATCH", path, first, content_type="application/strategic-merge-patch+json")["metadata"]
        answer = api.ask("PATCH", path, patch, content_type=MERGE)
        stored = api.good("GET", f"{PODS}/web")
        api.good("DELETE", f"{PODS}/web?gracePeriodSeconds=0")
        own = {before["uid"], before["resourceVersion"], stored["metadata"]["resourceVersion"]}
        return [re.sub(rf"\b({'|'.join(own)})\b", "", json.dumps(each)) for each in (answer, stored)]

    assert outcome({"status": status}) == outcome({"kind": "Pod", "status": status})


def test_scale_shows_and_changes_the_replicas(api: Api) -> None:
    deployment(api, 2)
    scale = api.good("GET", f"{DEPLOYMENTS}/web/scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 2},
        {"replicas": 0, "selector": "app=web"},
    )
    scale["spec"]["replicas"] = 5
    assert api.good("PUT", f"{DEPLOYMENTS}/web/scale", scale)["spec"] == {"replicas": 5}
    assert api.ask("PUT", f"{DEPLOYMENTS}/web/scale", scale).code == 409
    api.good("PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 7}}, content_type=MERGE)
    assert api.good("GET", f"{DEPLOYMENTS}/web")["spec"]["replicas"] == 7
    answer = api.ask("PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": -1}}, content_type=MERGE)
    assert (answer.code, causes(answer)) == (422, [("spec.replicas", "FieldValueInvalid")])


@pytest.mark.parametrize("path", [f"{PODS}/web/binding", "/api/v1/namespaces/default/bindings"])
def test_a_binding_gives_a_pod_its_node_once(api: Api, path: str) -> None:
    api.create_pod("web")
    binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}
    assert api.ask("POST", path, binding).code == 201
    pod = api.good("GET", f"{PODS}/web")
    assert pod["spec"]["nodeName"] == "n1"
    assert [(each["type"], each["status"]) for each in pod["status"]["conditions"]] == [("PodScheduled", "True")]
    again = api.ask("POST", path, binding)
    assert again.code == 409
    assert 'pod web is already assigned to node "n1"' in again.body["message"]


def test_a_binding_that_cannot_be_is_refused(api: Api) -> None:
    api.create_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    binding = {"metadata": {"name": "gated"}, "target": {"name": "n1"}}
    assert "has non-empty .spec.schedulingGates" in api.ask("POST", f"{PODS}/gated/binding", binding).body["message"]
    assert api.ask("POST", f"{PODS}/none/binding", {**binding, "metadata": {"name": "none"}}).code == 404
    answer = api.ask("POST", f"{PODS}/gated/binding", {"metadata": {"name": "gated"}})
    assert answer.body["message"] == "target.name: Required value"


def running_pod(api: Api, name: str) -> None:
    """A pod that runs, so that a budget counts it."""
    api.create_pod(name, {"app": "web"}, nodeName="n1")
    conditions = [{"type": "Ready", "status": "True"}]
    api.good(
        "PATCH", f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": conditions}}, content_type=MERGE
    )


def evict(api: Api, name: str) -> Any:
    """Ask for an eviction."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return api.ask("POST", f"{PODS}/{name}/eviction", body)


def test_a_budget_says_how_many_pods_may_be_evicted(api: Api) -> None:
    for name in ("a", "b"):
        running_pod(api, name)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    api.good("POST", BUDGETS, {"metadata": {"name": "web"}, "spec": spec})
    early = evict(api, "a")
    assert (early.code, early.headers["Retry-After"]) == (429, "10")
    state = {
        "observedGeneration": 1,
        "disruptionsAllowed": 1,
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    api.good("PATCH", f"{BUDGETS}/web/status", {"status": state}, content_type=MERGE)
    assert evict(api, "a").code == 201
    assert "deletionTimestamp" in api.good("GET", f"{PODS}/a")["metadata"]
    budget = api.good("GET", f"{BUDGETS}/web")["status"]
    assert (budget["disruptionsAllowed"], list(budget["disruptedPods"])) == (0, ["a"])
    refused = evict(api, "b")
    assert (refused.code, refused.body["details"]["causes"][0]["reason"]) == (429, "DisruptionBudget")
    assert refused.body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert "deletionTimestamp" not in api.good("GET", f"{PODS}/b")["metadata"]


def test_pods_without_a_budget_are_evicted(api: Api) -> None:
    running_pod(api, "a")
    assert evict(api, "a").code == 201
    assert evict(api, "none").code == 404


class Written:
    """A log source."""

    def __init__(self) -> None:
        self.running = False
        self.waits = ""
        self.until = START + 10 * SECOND

    def open(self, pod: Obj, container: str, *, previous: bool, tail: int | None, now: Callable[[], int]) -> LogReader:
        if self.waits:
            raise waits_to_start(container, pod["metadata"]["name"], self.waits)
        if previous:
            raise no_previous_run(container, pod["metadata"]["name"])
        return WrittenReader(self, f"{pod['metadata']['namespace']}/{pod['metadata']['name']}/{container}", tail)


class WrittenReader:
    """Three lines, one a second; the second is an error."""

    def __init__(self, source: Written, first: str, tail: int | None) -> None:
        self._source = source
        self._texts = (first, "second", "third")
        self._seen = 0 if tail is None else 3 - tail
        self.ended = False

    def begin(self) -> list[None]:
        return []

    def read(self) -> list[LogEntry]:
        found: list[LogEntry] = []
        while self._seen < 3 and START + self._seen * SECOND <= self._source.until:
            time = log_time(START + self._seen * SECOND)
            data = f"{self._texts[self._seen]}\n".encode()
            found.append(LogEntry(time, "stderr" if self._seen == 1 else "stdout", data))
            self._seen += 1
        self.ended = not self._source.running
        return found

    def close(self) -> None:
        pass


def test_logs_come_from_who_runs_the_pods(api: Api) -> None:
    api.backend.logs = Written()
    api.create_pod("a", nodeName="n1", containers=[{"name": "x", "image": "i"}, {"name": "y", "image": "i"}])
    assert api.ask("GET", f"{PODS}/a/log?container=y&tailLines=2").body == "second\nthird\n"
    assert api.ask("GET", f"{PODS}/a/log?container=x&limitBytes=9").body == "default/a"
    answer = api.ask("GET", f"{PODS}/a/log")
    assert answer.body["message"] == "a container name must be specified for pod a, choose one of: [x y]"
    assert api.ask("GET", f"{PODS}/a/log?container=x&tailLines=many").code == 400
    assert api.ask("GET", f"{PODS}/a/log?container=z").body["message"] == "container z is not valid for pod a"


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [("", [b"default/a/x\nsecond\nthird\n"]), ("base64.binary.k8s.io", [b"ZGVmYXVsdC9hL3gKc2Vjb25kCnRoaXJkCg=="])],
)
def test_logs_can_be_read_over_a_websocket(api: Api, protocol: str, expected: list[bytes]) -> None:
    api.backend.logs = Written()
    api.create_pod("a", nodeName="n", containers=[{"name": "x", "image": "i"}])
    headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-protocol": protocol}
    answer = api.run(api.server.handle(make_request("GET", f"{PODS}/a/log?container=x", headers, user=ADMIN)))
    assert isinstance(answer, Upgrade)
    socket, found = MemorySocket(protocol), list[bytes]()
    api.run(asyncio.wait_for(answer.serve(socket), 60))
    while socket.has_more:
        found.append(api.run(socket.take()))
    assert found == expected
    answer.end()
    headers["sec-websocket-protocol"] = "v9.channel.k8s.io"
    refused = api.run(api.server.handle(make_request("GET", f"{PODS}/a/log?container=x", headers, user=ADMIN)))
    assert isinstance(refused, ApiResponse)
    assert refused.status == 403


def test_logs_show_times_and_begin_where_one_asks(api: Api) -> None:
    api.backend.logs = Written()
    api.create_pod("a", nodeName="n1")
    log = f"{PODS}/a/log"
    stamped = api.ask("GET", f"{log}?timestamps=true&tailLines=1").body
    assert stamped == f"{format_time(START + 2 * SECOND).removesuffix('Z')}.000000000Z third\n"
    assert api.ask("GET", f"{log}?sinceTime={format_time(START + SECOND)}").body == "second\nthird\n"
    api.now = START + 12 * SECOND
    assert api.ask("GET", f"{log}?sinceSeconds=10").body == "third\n"
    both = api.ask("GET", f"{log}?sinceSeconds=10&sinceTime={format_time(START)}")
    words = "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
    assert both.body["message"] == f'PodLogOptions "a" is invalid: {words}'
    before = api.ask("GET", f"{log}?previous=true")
    assert before.body["message"] == 'previous terminated container "main" in pod "a" not found'


def test_logs_can_be_those_of_one_stream(api: Api) -> None:
    api.backend.logs = Written()
    api.create_pod("a", nodeName="n1")
    log = f"{PODS}/a/log"
    assert api.ask("GET", f"{log}?stream=Stdout").body == "default/a/main\nthird\n"
    assert api.ask("GET", f"{log}?stream=Stderr").body == "second\n"
    assert api.ask("GET", f"{log}?stream=All&tailLines=1").body == "third\n"
    unknown = api.ask("GET", f"{log}?stream=stdin")
    assert (unknown.code, unknown.body["message"]) == (
        422,
        'PodLogOptions "a" is invalid: stream: Unsupported value: "stdin": supported values: "All", "Stderr", "Stdout"',
    )
    both = api.ask("GET", f"{log}?stream=Stdout&tailLines=1")
    assert both.code == 422
    assert both.body["message"].endswith("`tailLines` and specific `stream` are mutually exclusive for now")


def test_a_container_that_has_not_started_has_no_log_to_follow(api: Api) -> None:
    api.backend.logs = logs = Written()
    logs.waits = "ContainerCreating"
    api.create_pod("a", nodeName="n1")
    answer = api.ask("GET", f"{PODS}/a/log?follow=true")
    assert (answer.code, answer.body["message"]) == (
        400,
        'container "main" in pod "a" is waiting to start: ContainerCreating',
    )


def test_a_log_is_followed_until_its_container_ends(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kilauea.apiserver.rest.logs.LOOK_SECONDS", 0.0)
    api.backend.logs = logs = Written()
    logs.running, logs.until = True, START
    api.create_pod("a", nodeName="n1")
    answer = api.run(api.server.handle(make_request("GET", f"{PODS}/a/log?follow=true", user=ADMIN)))
    assert isinstance(answer, TextStream)

    async def pieces() -> list[bytes]:
        found = []
        async for piece in answer.chunks:
            found.append(piece)
            logs.until += SECOND
            logs.running = logs.until < START + 2 * SECOND
        return found

    assert api.run(pieces()) == [b"default/a/main\n", b"second\n", b"third\n"]


class Buried:
    """A log whose first line is far away."""

    ended = True

    def __init__(self) -> None:
        self.steps = 0
        self.is_open = True

    def open(self, pod: Obj, container: str, *, previous: bool, tail: int | None, now: Any) -> Buried:
        return self

    def begin(self) -> Iterator[None]:
        for self.steps in range(1000):
            yield

    def read(self) -> list[LogEntry]:
        return [LogEntry(log_time(START), "stdout", b"found\n")]

    def close(self) -> None:
        self.is_open = False


def test_others_have_their_turn_while_the_first_line_of_a_tail_is_looked_for(api: Api) -> None:
    logs = api.backend.logs = Buried()
    api.create_pod("a", nodeName="n1")

    async def others() -> int:
        """The most steps between two turns of the loop."""
        asked = asyncio.ensure_future(api.server.handle(make_request("GET", f"{PODS}/a/log?tailLines=9", user=ADMIN)))
        most = last = 0
        while not asked.done():
            await asyncio.sleep(0)
            most, last = max(most, logs.steps - last), logs.steps
        answer = await asked
        assert isinstance(answer, ApiResponse)
        assert answer.body == b"found\n"
        return most

    assert api.run(others()) < 10


def test_a_log_is_closed_if_its_client_goes_away_before_the_answer(api: Api) -> None:
    logs = api.backend.logs = Buried()
    api.create_pod("a", nodeName="n1")

    async def leave() -> None:
        asked = asyncio.ensure_future(api.server.handle(make_request("GET", f"{PODS}/a/log?tailLines=9", user=ADMIN)))
        while not logs.steps:
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)

    api.run(leave())
    assert not logs.is_open


class Endless:
    """A log that never ends, of which each piece takes a while to read."""

    ended = False

    def __init__(self) -> None:
        self.pieces = 0

    def open(self, pod: Obj, container: str, *, previous: bool, tail: int | None, now: Any) -> Endless:
        return self

    def begin(self) -> list[None]:
        return []

    def read(self) -> list[LogEntry]:
        self.pieces += 1
        time.sleep(0.002)
        return [LogEntry(log_time(START), "stdout", b"x" * 1000)]

    def close(self) -> None:
        pass


def test_others_have_their_turn_while_many_logs_are_read(api: Api) -> None:
    logs = Endless()
    api.backend.logs = logs
    api.create_pod("a", nodeName="n1")

    async def follow() -> None:
        answer = await api.server.handle(make_request("GET", f"{PODS}/a/log?follow=true", user=ADMIN))
        assert isinstance(answer, TextStream)
        async for _ in answer.chunks:
            pass

    async def others() -> int:
        """The most pieces that were read between two turns of the loop."""
        readers = [asyncio.ensure_future(follow()) for _ in range(30)]
        await asyncio.sleep(0.5)
        most, before = 0, logs.pieces
        while logs.pieces < before + 100:
            last = logs.pieces
            await asyncio.sleep(0)
            most = max(most, logs.pieces - last)
        for each in readers:
            each.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        return most

    assert api.run(others()) <= 2


@pytest.mark.parametrize(
    ("part", "words"),
    [("exec?command=ls", "exec and cp are"), ("attach", "attach is"), ("portforward", "port-forward is")],
)
def test_what_needs_a_process_says_what_a_simulated_pod_is(api: Api, part: str, words: str) -> None:
    api.create_pod("a", nodeName="n1")
    for method in ("GET", "POST"):
        answer = api.ask(method, f"{PODS}/a/{part}")
        assert (answer.code, answer.body["reason"]) == (400, "BadRequest")
        assert answer.body["message"] == (
            "pod default/a is simulated: it has a status and logs, but no process, files or network, "
            f"so {words} not available; kubectl logs shows what its command would print"
        )
        assert api.ask(method, f"{PODS}/none/{part}").code == 404


def test_reviews_tell_who_one_is_and_what_one_may_do(api: Api) -> None:
    attributes = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert api.good("POST", path, attributes)["status"] == {"allowed": True}
    other = api.ask("POST", path, attributes, user=User("guest", groups=("system:authenticated",)))
    assert other.body["status"] == {"allowed": False}
    assert api.ask("POST", path, {"spec": {}}).code == 422
    me = api.good("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert me["status"]["userInfo"]["username"] == "admin"
    assert api.ask("GET", path).code == 405


def test_no_one_is_answered_but_about_health_and_version(api: Api) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert api.ask("GET", path, user=None).code == 200
    for path in ("/api", "/apis", "/openapi/v3", "/metrics", "/healthz/ping", "/", PODS, "/nowhere"):
        answer = api.ask("GET", path, user=None)
        assert (answer.code, answer.body["reason"]) == (401, "Unauthorized")


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/api/v1/nodes/n1/proxy/stats", "nodes/proxy is not available: of node n1, only healthz, pods, "),
        (f"{PODS}/a:8080/proxy", "pods/proxy is not available: pod a:8080 has no network in this cluster"),
        ("/api/v1/nodes/https:n1:10250/proxy/x", "nodes/proxy is not available: of node n1, only healthz, pods, "),
        (f"{PODS}/https:a:443/proxy/x/y", "pods/proxy is not available: pod https:a:443 has no network in this"),
    ],
)
def test_a_request_to_be_passed_on_is_answered_with_what_is_missing(
    api: Api, method: str, path: str, what: str
) -> None:
    assert api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}}).code == 201
    api.create_pod("a")
    answer = api.ask(method, path)
    assert (answer.code, answer.body["reason"]) == (501, "NotImplemented")
    assert answer.body["message"].startswith(what)


@pytest.mark.parametrize(
    ("path", "code", "what"),
    [
        (f"{PODS}/none/proxy", 404, 'pods "none" not found'),
        (f"{PODS}/a:b:c:d/proxy", 400, 'invalid pod request "a:b:c:d": use NAME:PORT'),
        (f"{PODS}/a:http/proxy", 400, 'invalid port "http" of a: use a number from 1 to 65535'),
        (f"{SERVICES}/none:80/proxy/", 404, 'services "none" not found'),
        (f"{SERVICES}/web:81/proxy/", 503, 'no service port "81" found for service "web"'),
        (f"{SERVICES}/web:http/proxy/", 503, 'no endpoints available for service "web"'),
        ("/api/v1/nodes/none/proxy/healthz", 404, 'nodes "none" not found'),
    ],
)
def test_a_request_that_cannot_be_passed_on_says_why(api: Api, path: str, code: int, what: str) -> None:
    api.create_pod("a")
    web = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]}}
    assert api.ask("POST", SERVICES, web).code == 201
    answer = api.ask("GET", path)
    assert (answer.code, answer.body["message"]) == (code, what)


def test_a_node_answers_for_its_kubelet(api: Api) -> None:
    assert api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}}).code == 201
    for name, node in (("a", "n1"), ("b", "n2")):
        api.create_pod(name, nodeName=node)
    assert api.ask("GET", "/api/v1/nodes/n1:10250/proxy/healthz").body == "ok"
    found = api.ask("GET", "/api/v1/nodes/n1/proxy/pods/").body
    assert (found["kind"], [each["metadata"]["name"] for each in found["items"]]) == ("PodList", ["a"])


def test_a_kind_without_connections_has_no_proxy(api: Api) -> None:
    assert api.ask("GET", f"{MAPS}/a/proxy").code == 404


def test_a_review_has_no_metadata_of_its_own(api: Api) -> None:
    group = "/apis/authorization.k8s.io/v1"
    spec = {"user": "a", "resourceAttributes": {"verb": "get", "namespace": "default"}}
    for path, message in (
        (f"{group}/subjectaccessreviews", "must be empty"),
        (f"{group}/namespaces/default/localsubjectaccessreviews", "must be empty except for namespace"),
    ):
        answer = api.ask("POST", path, {"metadata": {"labels": {"a": "b"}, "name": "n"}, "spec": spec})
        (cause,) = answer.body["details"]["causes"]
        assert (answer.code, cause["field"]) == (422, "metadata")
        assert cause["message"].startswith('Invalid value: {"name":"n",')
        assert cause["message"].endswith(f": {message}")


def test_answers_about_rules_and_tokens_have_only_what_was_found(api: Api) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    assert api.good("POST", path, {"spec": {"namespace": "default"}})["spec"] == {}
    refused = api.good("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "none"}})
    assert refused["status"] == {"user": {}, "error": "invalid bearer token"}


def test_a_limit_range_without_a_name_gets_one(api: Api) -> None:
    path = "/api/v1/namespaces/default/limitranges"
    names = {api.good("POST", path, {"spec": {"limits": []}})["metadata"]["name"] for _ in range(2)}
    assert len(names) == 2
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", name) for name in names)
