"""The plugin extender: how the answers of another program count, and what becomes of those that are wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kilauea.engine.cycle import cycle
from kilauea.engine.extension.outside import Endpoint, Line, Reply
from kilauea.engine.plan import Plan
from support.builders import (
    GPU,
    NOW,
    Data,
    Objects,
    binds,
    codes,
    conf,
    gang,
    group,
    node,
    nominations,
    parsed,
    pending,
    plan_of,
    plugin,
    pod,
    priority_class,
    queue,
    state_of,
)

Answer = Callable[[Any], Any]
URL = "http://extender.test/api"
VERBS = "onSessionOpen onSessionClose predicate prioritize preemptable reclaimable queueOverused jobEnqueueable "
VERBS += "jobEnqueued jobReady allocateFunc deallocateFunc"


class Scripted:
    """An extender in this process: a function by verb. A `Reply` is taken as it is, what else it returns as a body."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []
        self.endpoints: list[Endpoint] = []

    def open(self, endpoint: Endpoint) -> Line:
        self.endpoints.append(endpoint)
        return self

    def ask(self, verb: str, bodies: Sequence[Any], *, read: bool = True) -> list[Reply]:
        out = []
        for body in bodies:
            self.asked.append((verb, body))
            answer = self.answers[verb](body)
            out.append(answer if isinstance(answer, Reply) else Reply(answer))
        return out

    def bodies(self, verb: str) -> list[Any]:
        return [body for asked, body in self.asked if asked == verb]


def extender_conf(actions: str = "allocate", *others: Any, verbs: str = VERBS, **arguments: Any) -> Data:
    given = {"extender.urlPrefix": URL} | {f"extender.{key}": value for key, value in arguments.items()}
    given |= {f"extender.{verb}Verb": verb for verb in verbs.split()}
    return conf(actions, ["gang"], ["predicates", plugin("extender", given), *others])


def played(extender: Scripted, *objects: Objects, usable: Data | None = None, **arguments: Any) -> Plan:
    """The plan of a cycle in which an extender has the verbs that it has answers for."""
    document = usable or extender_conf(verbs=" ".join(extender.answers), **arguments)
    parts, plugins, actions = parsed(document)
    return cycle(state_of(*objects), parts, NOW, plugins=plugins, actions=actions, outside=extender)


def failing(_: Any) -> Reply:
    return Reply(error="failed it with extender at URL u, code 500")


MALFORMED: list[Any] = [None, 3, "yes", [], {"status": []}, {"status": {}}, {"status": 1.5}]
"""Invalid answers to any verb that has a status."""


# --- predicate


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param({}, None, id="an empty answer fits"),
        pytest.param({"status": "", "code": 3}, None, id="a code without a text fits"),
        pytest.param({"status": None, "code": None}, None, id="null is nothing"),
        pytest.param({"status": "no licence", "code": 2}, "no licence", id="a text rejects"),
        pytest.param({"status": "no licence"}, "no licence", id="without a code, too"),
        pytest.param({"status": "a\nb\tc\x00d", "more": 1}, "a b c d", id="it stays on one line"),
        pytest.param({"status": "x" * 999}, "x" * 200 + "...", id="and is cut"),
    ],
)
def test_the_answer_to_predicate_decides_whether_a_node_takes_a_pod(answer: Data, expected: str | None) -> None:
    plan = played(Scripted(predicate=lambda _: answer), node("n1"), group(), pod("p"))
    assert binds(plan) == ({} if expected else {"p": "n1"})
    assert expected is None or pending(plan)["p"].message == f"0/1 nodes are unavailable: 1 {expected}."


def test_each_node_gets_its_own_answer_and_reasons_are_counted() -> None:
    said = {"n1": {"status": "no licence"}, "n2": {"status": "no licence"}, "n3": {"status": "too far"}}
    extender = Scripted(predicate=lambda body: said[body["node"]["Name"]])
    plan = played(extender, [node(name) for name in said], group(), pod("p"))
    assert pending(plan)["p"].message == "0/3 nodes are unavailable: 1 too far, 2 no licence."


def test_nodes_without_room_are_not_asked_about_and_equal_questions_are_asked_once() -> None:
    extender = Scripted(predicate=lambda _: {"status": "no"})
    played(extender, node("full", cpu=0), node("n1"), group(), pod("p"))
    assert [body["node"]["Name"] for body in extender.bodies("predicate")] == ["n1"]


def test_a_node_is_asked_about_again_after_a_pod_was_placed_there() -> None:
    extender = Scripted(predicate=lambda body: {"status": "one is enough"} if body["node"]["Used"]["MilliCPU"] else {})
    plan = played(extender, node("n1"), node("n2"), gang("g", 3, 1))
    assert sorted(binds(plan).values()) == ["n1", "n2"]


def test_equal_pods_may_get_different_answers() -> None:
    extender = Scripted(predicate=lambda body: {} if body["task"]["Name"] == "g-w-1" else {"status": "not this one"})
    assert binds(played(extender, node("n1"), gang("a", 1), gang("g", 2, 1))) == {"g-w-1": "n1"}


def test_a_task_and_a_node_are_told_by_the_names_that_extenders_know() -> None:
    extender = Scripted(predicate=lambda _: {})
    asked = pod("p", cpu=1, memory="1Gi", gpu=1, uid="u-1", role="ps", priority=7, labels={"app": "x"})
    played(extender, node("n1", 4, "8Gi", gpu=2, labels={"zone": "z"}), group(), asked)
    (body,) = extender.bodies("predicate")
    request = {"MilliCPU": 1000, "Memory": 1 << 30, "ScalarResources": {GPU: 1000}}
    task, told = body["task"], body["node"]
    assert (task["UID"], task["Job"], task["Name"], task["Namespace"]) == ("u-1", "ns/g", "p", "ns")
    assert (task["Resreq"], task["InitResreq"], task["Status"], task["Priority"]) == (request, request, 1, 7)
    assert task["Pod"]["metadata"] == {"name": "p", "namespace": "ns", "uid": "u-1", "labels": {"app": "x"}}
    assert (told["Name"], told["Idle"]) == ("n1", {"MilliCPU": 4000, "Memory": 8 << 30, "ScalarResources": {GPU: 2000}})
    assert told["Node"]["metadata"]["labels"]["zone"] == "z"


@pytest.mark.parametrize("ignorable", [False, True])
@pytest.mark.parametrize("answer", [failing, *(lambda _, a=a: a for a in MALFORMED)])
def test_a_predicate_that_fails_keeps_the_pod_waiting_unless_it_is_ignorable(answer: Answer, ignorable: bool) -> None:
    plan = played(Scripted(predicate=answer), node("n1"), group(), pod("p"), ignorable=ignorable)
    assert binds(plan) == ({"p": "n1"} if ignorable else {})
    (finding,) = plan.findings
    assert (finding.where, finding.code, finding.error) == ("plugin extender", "ExtenderFailed", False)
    assert finding.message.endswith("ignored" if ignorable else "pods that it manages wait")
    assert ignorable or finding.message.removesuffix("; pods that it manages wait") in pending(plan)["p"].message


@pytest.mark.parametrize(
    ("requests", "asked"), [({"cpu": 1, GPU: 1}, 1), ({"cpu": 1}, 0)], ids=["a managed resource", "none"]
)
@pytest.mark.parametrize("managed", [[GPU], f"{GPU}, example.com/other"], ids=["list", "text"])
def test_only_pods_with_a_managed_resource_are_asked_about(requests: Data, asked: int, managed: Any) -> None:
    extender = Scripted(predicate=lambda _: {"status": "no"}, prioritize=lambda _: {"nodeScore": {}})
    asking = pod("p", requests=requests)
    plan = played(extender, node("n1", gpu=1), node("n2", gpu=1), group(), asking, managedResources=managed)
    assert len(extender.bodies("predicate")) == 2 * asked
    assert bool(binds(plan)) is not bool(asked)


def test_a_storm_of_reasons_is_bounded() -> None:
    extender = Scripted(predicate=lambda body: {"status": f"no {body['node']['Name']}"})
    plan = played(extender, [node(f"n{i}") for i in range(150)], group(), pod("p"))
    assert "51 node(s) were rejected by the extender" in pending(plan)["p"].message


# --- prioritize


def test_scores_choose_the_node() -> None:
    extender = Scripted(prioritize=lambda body: {"nodeScore": {n["Name"]: i for i, n in enumerate(body["nodes"])}})
    assert binds(played(extender, [node(f"n{i}") for i in range(3)], group(), pod("p"))) == {"p": "n2"}


def test_a_node_that_is_not_scored_has_0_and_one_that_does_not_exist_is_ignored() -> None:
    extender = Scripted(prioritize=lambda _: {"nodeScore": {"n1": -1, "nowhere": 9}})
    assert binds(played(extender, node("n1"), node("n2"), group(), pod("p"))) == {"p": "n2"}


@pytest.mark.parametrize(
    "answer",
    [
        failing,
        lambda _: {},
        lambda _: {"nodeScore": {"n2": "9"}},
        lambda _: {"nodeScore": {"n2": True}},
        lambda _: {"nodeScore": {"n2": 1e300}},
        lambda _: {"nodeScore": [9]},
        lambda _: {"nodeScore": {"n2": 9}, "errorMessage": "out of order"},
    ],
)
def test_scores_that_are_wrong_are_left_out_and_named(answer: Answer) -> None:
    plan = played(Scripted(prioritize=answer), node("n1"), node("n2"), group(), pod("p"))
    assert binds(plan) == {"p": "n1"}
    assert [f.code for f in plan.findings] == ["ExtenderFailed"]


# --- victims


def rivals(**of_queue: Any) -> list[Objects]:
    """A pod that could make room for one of a higher priority."""
    low = [group("low", phase="Running", minimum=0), pod("low-0", "low", cpu=4, node="n1", priority=1, uid="low-0")]
    high = [priority_class("high", 9), group("high", priority="high"), pod("high-0", "high", cpu=4, priority=9)]
    return [node("n1"), low, high]


PREEMPTING = conf("allocate, preempt", ["priority", "gang"], ["predicates"])


def preempted(answer: Answer, **arguments: Any) -> Plan:
    usable = extender_conf("allocate, preempt", verbs="preemptable", **arguments)
    usable["tiers"][0]["plugins"] = [
        {"name": "priority", "enablePreemptable": False},
        {"name": "gang", "enablePreemptable": False},
    ]
    extender = Scripted(preemptable=answer)
    return played(extender, rivals(), usable=usable)


@pytest.mark.parametrize(
    ("answer", "evicted"),
    [
        pytest.param(lambda body: {"status": 1, "victims": body["evictees"]}, True, id="those that it names"),
        pytest.param(lambda _: {"status": 1, "victims": [{"UID": "low-0"}]}, True, id="by UID"),
        pytest.param(lambda _: {"status": 1, "victims": [{"UID": "other"}]}, False, id="no strangers"),
        pytest.param(lambda _: {"status": 1, "victims": []}, False, id="none"),
        pytest.param(lambda _: {"status": 1}, False, id="nor without a list"),
        pytest.param(lambda _: {"status": 7, "victims": [{"UID": "low-0"}]}, False, id="an invalid status"),
        pytest.param(lambda _: {"status": 1, "victims": ["low-0"]}, False, id="invalid victims"),
        pytest.param(failing, False, id="one that fails"),
    ],
)
def test_victims_are_those_that_it_names(answer: Answer, evicted: bool) -> None:
    plan = preempted(answer)
    assert [e.pod for e in plan.evictions] == (["ns/low-0"] if evicted else [])
    assert nominations(plan) == ({"high-0": "n1"} if evicted else {})


def test_an_ignorable_extender_that_fails_leaves_victims_to_others() -> None:
    usable = extender_conf("allocate, preempt", verbs="preemptable", ignorable=True)
    usable["tiers"][0]["plugins"] = [{"name": "priority"}, {"name": "gang"}]
    plan = played(Scripted(preemptable=failing), rivals(), usable=usable)
    assert [e.pod for e in plan.evictions] == ["ns/low-0"]


# --- queues and jobs


@pytest.mark.parametrize(
    ("answer", "ignorable", "waits"),
    [
        (lambda _: {"overused": True}, False, True),
        (lambda _: {"overused": False}, False, False),
        (lambda _: {}, False, False),
        (lambda _: {"overused": "yes"}, False, True),
        (failing, False, True),
        (failing, True, False),
    ],
)
def test_a_queue_that_is_overused_waits(answer: Answer, ignorable: bool, waits: bool) -> None:
    plan = played(Scripted(queueOverused=answer), node("n1"), gang("g", 1), ignorable=ignorable)
    assert bool(binds(plan)) is not waits


@pytest.mark.parametrize(
    ("answer", "ignorable", "admitted"),
    [
        (lambda _: {"status": 1}, False, True),
        (lambda _: {"status": 0}, False, True),
        (lambda _: {}, False, True),
        (lambda _: {"status": -1}, False, False),
        (lambda _: {"status": True}, False, False),
        (failing, False, False),
        (failing, True, True),
    ],
)
def test_a_job_is_admitted_unless_it_says_no(answer: Answer, ignorable: bool, admitted: bool) -> None:
    usable = extender_conf("enqueue, allocate", verbs="jobEnqueueable", ignorable=ignorable)
    plan = played(
        Scripted(jobEnqueueable=answer), node("n1"), gang("g", 1, phase="Pending", resources={"cpu": 1}), usable=usable
    )
    assert bool(binds(plan)) is admitted
    assert admitted or codes(plan)["g-w-0"] in ("NotAdmitted", "ExtenderFailed")


def test_it_is_told_of_jobs_that_are_admitted() -> None:
    usable = extender_conf("enqueue, allocate", verbs="jobEnqueued")
    extender = Scripted(jobEnqueued=lambda _: {})
    played(extender, node("n1"), gang("g", 2, phase="Pending"), usable=usable)
    (body,) = extender.bodies("jobEnqueued")
    assert (body["job"]["UID"], body["job"]["Queue"], body["job"]["MinAvailable"]) == ("ns/g", "q", 2)


@pytest.mark.parametrize(
    ("answer", "ignorable", "starts"),
    [
        (lambda _: {"status": True}, False, True),
        (lambda _: {"status": False}, False, False),
        (lambda _: {}, False, False),
        (lambda _: {"status": 1}, False, False),
        (failing, False, False),
        (failing, True, True),
    ],
)
def test_a_job_starts_when_it_says_that_it_is_ready(answer: Answer, ignorable: bool, starts: bool) -> None:
    plan = played(Scripted(jobReady=answer), node("n1"), gang("g", 2), ignorable=ignorable)
    assert len(binds(plan)) == (2 if starts else 0)
    assert starts or set(codes(plan).values()) <= {"ExtenderRefused", "ExtenderFailed"}


# --- events


@pytest.mark.parametrize(
    ("answer", "ignorable", "starts"),
    [
        (lambda _: {}, False, True),
        (lambda _: {"errorMessage": "no licence left"}, False, False),
        (lambda _: {"errorMessage": "no licence left"}, True, False),
        (lambda _: {"errorMessage": 5}, False, False),
        (lambda _: [], True, True),
        (failing, False, False),
        (failing, True, True),
    ],
)
def test_a_pod_that_it_refuses_when_told_of_it_does_not_start(answer: Answer, ignorable: bool, starts: bool) -> None:
    extender = Scripted(allocateFunc=answer, deallocateFunc=lambda _: {})
    plan = played(extender, node("n1"), gang("g", 1), gang("h", 1), ignorable=ignorable)
    assert len(binds(plan)) == (2 if starts else 0)
    assert len(extender.bodies("deallocateFunc")) == (0 if starts else len(extender.bodies("allocateFunc")))


def test_a_pod_that_it_refuses_leaves_its_room_to_others() -> None:
    extender = Scripted(allocateFunc=lambda body: {"errorMessage": "no"} if body["task"]["Job"] == "ns/a" else {})
    assert binds(played(extender, node("n1"), gang("a", 1, cpu=3), gang("b", 1, cpu=3))) == {"b-w-0": "n1"}


def test_a_refused_pod_leaves_its_room_to_others_in_backfill() -> None:
    refuses = Scripted(
        allocateFunc=lambda body: {"errorMessage": "no"} if body["task"]["Job"] == "ns/a" else {},
        deallocateFunc=lambda _: {},
    )
    pods = [pod(name, name, cpu=None, memory=None) for name in ("a", "b")]
    usable = extender_conf("backfill", verbs="allocateFunc deallocateFunc")
    plan = played(refuses, node("n1", pods=1), group("a", created=1), group("b", created=2), pods, usable=usable)
    assert binds(plan) == {"b": "n1"}
    assert "no" in pending(plan)["a"].message


def test_a_pod_that_it_refuses_evicts_no_other() -> None:
    refuses = Scripted(allocateFunc=lambda _: {"errorMessage": "no licence left"}, deallocateFunc=lambda _: {})
    usable = extender_conf("allocate, preempt", verbs="allocateFunc deallocateFunc")
    plan = played(refuses, rivals(), usable=usable)
    assert not plan.evictions
    assert not plan.nominations
    permits = played(Scripted(allocateFunc=lambda _: {}, deallocateFunc=lambda _: {}), rivals(), usable=usable)
    assert len(permits.evictions) == 1


def test_the_refusal_is_the_reason() -> None:
    extender = Scripted(allocateFunc=lambda _: {"errorMessage": "no licence left"})
    plan = played(extender, node("n1"), gang("g", 1))
    assert pending(plan)["g-w-0"].message == "the extender refuses pod g-w-0: no licence left"


# --- sessions


def test_it_is_told_of_the_session_when_it_opens_and_closes() -> None:
    extender = Scripted(onSessionOpen=lambda _: None, onSessionClose=lambda _: None)
    plan = played(extender, node("n1"), gang("g", 1))
    assert binds(plan) == {"g-w-0": "n1"}
    assert [verb for verb, _ in extender.asked] == ["onSessionOpen", "onSessionClose"]
    opened, closed = (body for _, body in extender.asked)
    assert list(opened) == ["Jobs", "Nodes", "Queues", "NamespaceInfo", "RevocableNodes", "NodeList"]
    assert (list(opened["Jobs"]), list(opened["Nodes"]), list(opened["Queues"])) == (["ns/g"], ["n1"], ["q"])
    assert closed == {}


@pytest.mark.parametrize("ignorable", [False, True])
def test_pods_wait_if_the_opening_fails_unless_it_is_ignorable(ignorable: bool) -> None:
    extender = Scripted(onSessionOpen=failing, predicate=lambda _: {})
    plan = played(extender, node("n1"), group(), pod("p"), ignorable=ignorable)
    assert bool(binds(plan)) is ignorable
    assert len(extender.bodies("predicate")) == ignorable


def test_many_different_failures_are_a_few_findings() -> None:
    extender = Scripted(predicate=lambda body: Reply(error=f"failed at {body['node']['Name']}"))
    plan = played(extender, [node(f"n{i}") for i in range(50)], group(), pod("p"))
    assert len(plan.findings) == 10


def test_without_verbs_and_without_pods_that_it_manages_nothing_is_asked() -> None:
    bare = Scripted()
    played(bare, node("n1"), gang("g", 1))
    other = Scripted(predicate=failing, prioritize=failing, allocateFunc=failing, preemptable=failing)
    plan = played(other, node("n1"), node("n2"), gang("g", 2), managedResources=[GPU])
    assert (bare.asked, other.asked, len(binds(plan))) == ([], [], 2)


def test_a_program_that_makes_no_requests_says_so_and_places_pods_without_it() -> None:
    plan = plan_of(node("n1"), gang("g", 1), conf=extender_conf())
    assert binds(plan) == {"g-w-0": "n1"}
    assert [(f.code, f.message) for f in plan.findings] == [
        ("ExtenderNotAsked", "no extender is asked: this program makes no requests; pods are placed without it")
    ]


# --- arguments


@pytest.mark.parametrize("url", ["", "extender:8080", "ftp://x/", "http://", "http://x:99999/", "http://[/"])
@pytest.mark.parametrize("ignorable", [False, True])
def test_a_url_that_is_invalid_is_named_and_pods_wait_unless_it_is_ignorable(url: str, ignorable: bool) -> None:
    extender = Scripted(predicate=lambda _: {})
    plan = played(extender, node("n1"), group(), pod("p"), urlPrefix=url, ignorable=ignorable)
    assert bool(binds(plan)) is ignorable
    assert plan.findings[0].message.startswith(
        f"extender.urlPrefix takes a URL such as http://host:port/path, not {url!r}"
    )
    assert extender.asked == []


@pytest.mark.parametrize(
    ("arguments", "timeout", "budget", "told"),
    [
        ({}, 1_000_000, 10_000_000, None),
        ({"httpTimeout": "250ms", "cycleTimeout": "3s"}, 250_000, 3_000_000, None),
        ({"httpTimeout": "fast"}, 1_000_000, 10_000_000, "extender.httpTimeout: "),
        (
            {"httpTimeout": "-1s"},
            1_000_000,
            10_000_000,
            "extender.httpTimeout takes a duration above 0, not '-1s'; 1s is kept",
        ),
        (
            {"cycleTimeout": "0"},
            1_000_000,
            10_000_000,
            "extender.cycleTimeout takes a duration above 0, not '0'; 10s is kept",
        ),
        ({"httpTimeout": 5}, 1_000_000, 10_000_000, "extender.httpTimeout takes text, not 5; '1s' is kept"),
        (
            {"managedResources": [3]},
            1_000_000,
            10_000_000,
            "extender.managedResources takes a list of names, not [3]; () is kept",
        ),
        (
            {"ignorable": "perhaps"},
            1_000_000,
            10_000_000,
            "extender.ignorable takes true or false, not 'perhaps'; False is kept",
        ),
    ],
)
def test_arguments(arguments: Data, timeout: int, budget: int, told: str | None) -> None:
    extender = Scripted(predicate=lambda _: {})
    plan = played(extender, node("n1"), gang("g", 1), **arguments)
    (endpoint,) = extender.endpoints
    assert (endpoint.timeout, endpoint.budget) == (timeout, budget)
    assert [f.message.startswith(told or "") for f in plan.findings] == ([True] if told else [])


def test_reclaim_asks_about_pods_of_other_queues() -> None:
    extender = Scripted(reclaimable=lambda body: {"status": 1, "victims": body["evictees"]})
    usable = conf(
        "allocate, reclaim",
        [plugin("gang", enableReclaimable=False)],
        ["predicates", plugin("proportion", enableReclaimable=False)],
        [plugin("extender", {"extender.urlPrefix": URL, "extender.reclaimableVerb": "reclaimable"})],
    )
    low = [group("low", "greedy", phase="Running", minimum=0)]
    low += [pod(f"low-{i}", "low", cpu=2, node="n1", uid=f"low-{i}") for i in range(2)]
    plan = played(extender, [queue("q"), queue("greedy")], node("n1"), low, gang("g", 1, cpu=2), usable=usable)
    assert len(plan.evictions) == 1
    assert {body["evictor"]["Name"] for body in extender.bodies("reclaimable")} == {"g-w-0"}
