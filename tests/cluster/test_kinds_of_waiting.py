"""Kinds of waiting on a live cluster: cause, numbers and fix are the same everywhere, and the fix starts the job.

The cases are those of `tests/cli/test_kinds_of_waiting.py`, each played on one `kilauea up`. Looked at are the
conditions of job, group and pods, their events, `kubectl describe`, `vcctl job view`, `kilauea explain` and
`kilauea plan`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster.up_process import running_up, until
from support.kinds_of_waiting import CASES, Case
from support.waiting_cluster import Stage
from support.waiting_fixes import fix
from support.waiting_objects import asking, job, nodes

Docs = list[dict[str, Any]]
BEFORE = "Smallest change that admits it: "
NOT_LIVE = (
    "a quota of the namespace, at admission",
    "the queue is closed",
    "the queue does not exist",
    "what other queues are guaranteed",
)
"""Cases that are for files alone: a server refuses such pods, groups or queues before any scheduler sees them."""
OF_ONE_CYCLE = ("it is older",)
"""Said where all comes at once; on a live cluster the older job has started by then."""
ORDERED = [case for case in CASES if case.subject.startswith("statefulset")]
"""Their groups have names of their own, so that what is said of them is compared with `explain` alone."""
PLAYED = [case for case in CASES if case.name not in NOT_LIVE and case not in ORDERED]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with running_up(tmp_path_factory.mktemp("waiting") / "data", "--nodes", "0") as server:
        yield Stage(server)


@pytest.fixture
def stage(cluster: Stage) -> Iterator[Stage]:
    yield cluster
    cluster.clear()


@pytest.mark.parametrize("case", PLAYED, ids=lambda case: case.name)
def test_the_cause_and_the_fix_are_the_same_everywhere_and_the_fix_starts_the_job(case: Case, stage: Stage) -> None:
    docs = copy.deepcopy(case.docs)
    stage.play(docs, case.conf)
    said(lambda: stage.explained(case.subject), *(part for part in case.said if part not in OF_ONE_CYCLE))
    cause = agreed_cause(stage, case)
    told, text = stage.explained_as_data(case.subject), stage.explained(case.subject)
    message, change = told["blockers"][0]["message"], told["change"]
    assert told["blockers"][0]["code"] == case.code
    remedy = next((line for line in text.splitlines() if line.startswith(BEFORE)), "").rstrip(".")
    said(stage.events, cause, remedy)
    described = stage.described()
    assert " ".join(cause.split()) in described
    assert remedy in described
    assert message.rstrip(".") in stage.console("kilauea", "plan").out
    if case.subject.startswith("job"):
        view = stage.console.good("vcctl", "job", "view", "j")
        assert message in view
        assert remedy.removeprefix(BEFORE) in view
    assert stage.started() < case.starts
    (case.mend or (lambda them: fix(them, change)))(docs)
    stage.change_to(docs)
    until(lambda: stage.started() >= case.starts, "the pods to start", 20)


@pytest.mark.parametrize("case", ORDERED, ids=lambda case: case.name)
def test_the_fix_for_a_stateful_set_starts_its_pods(case: Case, stage: Stage) -> None:
    docs = copy.deepcopy(case.docs)
    stage.play(docs, case.conf)
    said(lambda: stage.explained(case.subject), *case.said)
    told = stage.explained_as_data(case.subject)
    assert told["blockers"][0]["code"] == case.code
    assert stage.started() < case.starts
    fix(docs, told["change"])
    stage.change_to(docs)
    until(lambda: stage.started() >= case.starts, "the pods to start", 20)


def agreed_cause(stage: Stage, case: Case) -> str:
    """The cause that explain says, once the conditions say the same.

    The two may be of different cycles: room counts twice between the start of an older job and its group's new phase.
    """
    causes: list[str] = []

    def agree() -> bool:
        text = stage.explained(case.subject)
        message = stage.explained_as_data(case.subject)["blockers"][0]["message"]
        causes[:] = [message if stage.has_pods() or not (found := numbers(text)) else found]
        return causes[0] in stage.conditions()

    until(agree, f"conditions to say what explain says of {case.subject}", 20)
    return causes[0]


def said(texts: Callable[[], str], *parts: str) -> None:
    """Wait until all parts are said."""
    try:
        until(lambda: all(part in texts() for part in parts), "what is to be said", 10)
    except AssertionError as error:
        raise AssertionError(f"{error}: {parts}, and not:\n{texts()}") from error


def numbers(text: str) -> str:
    """What is requested and available, as a group says it whose pods are created once it is admitted."""
    line = next((line.strip() for line in text.splitlines() if line.startswith("  requested")), "")
    return ", ".join(" ".join(part.split()[:2]) for part in line.split(", ")) if line else ""


def a_job(**pod: Any) -> dict[str, Any]:
    """The job `j` with two pods of one cpu each."""
    return job(2, 2, pod={**asking({"cpu": "1"}), **pod})


def make(kind: str, **more: Any) -> dict[str, Any]:
    """An object of Kubernetes named `robot`."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "robot", "namespace": "default"}, **more}


LIMITS = make("LimitRange", spec={"limits": [{"type": "Container", "min": {"cpu": "2"}}]})
REFUSED = [
    (a_job(serviceAccountName="robot"), [], [make("ServiceAccount")], 'serviceaccount "robot" not'),
    (a_job(), [LIMITS], [], "minimum cpu usage per Container is 2, but request is 1"),
]


@pytest.mark.parametrize(("doc", "before", "after", "words"), REFUSED, ids=["a service account", "a limit range"])
def test_what_only_the_server_knows_is_said_everywhere_until_it_is_mended(
    doc: Any, before: Docs, after: Docs, words: str, stage: Stage
) -> None:
    stage.play([*nodes(), *before, doc], "")
    said(stage.conditions, words)
    said(stage.events, 'FailedCreate: Error creating pods: pods "j-w-0" is forbidden: ', words)
    said(lambda: stage.explained("job j"), words, "(PodsNotCreated)")
    assert words in stage.described()
    assert words in stage.console.good("vcctl", "job", "view", "j")
    assert words in stage.console("kilauea", "plan").out
    stage.change_to([*nodes(), *after, doc])
    until(lambda: stage.started() == 2, "the pods to start", 30)
    until(lambda: words not in stage.conditions(), "the reason to go", 10)


def test_a_suspended_job_says_how_it_is_resumed(stage: Stage) -> None:
    stage.play([*nodes(), a_job()], "")
    until(lambda: stage.started() == 2, "the pods to start", 20)
    stage.console.done("vcctl", "job", "suspend", "j")
    words = "suspended, so it has no pods: `vcctl job resume` starts it again"
    said(stage.conditions, words)
    assert words in stage.described()
    assert words in stage.console.good("vcctl", "job", "view", "j")
    assert words in stage.explained("job j")
    stage.console.done("vcctl", "job", "resume", "j")
    until(lambda: stage.started() == 2, "the pods to start again", 20)


def test_workloads_of_kubernetes_say_why_they_have_no_pods(stage: Stage) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "demo"}]}}
    refused = {"spec": {**template["spec"], "priorityClassName": "nope"}}
    stage.put("batch/v1", "Job", "refused", {"template": refused})
    stage.put("batch/v1", "Job", "asleep", {"suspend": True, "template": template})
    labels = {"matchLabels": {"app": "web"}}
    web = {"metadata": {"labels": labels["matchLabels"]}, "spec": {**refused["spec"], "restartPolicy": "Always"}}
    stage.put("apps/v1", "Deployment", "web", {"replicas": 1, "selector": labels, "template": web})
    words = "is forbidden: no PriorityClass with name nope was found"
    said(lambda: stage.explained("job refused"), "job default/refused has no pods: ", words)
    said(lambda: stage.explained("deployment web"), "deployment default/web has no pods: ", words)
    said(lambda: stage.explained("job asleep"), "job default/asleep is suspended (spec.suspend is true)")
    described = stage.described("jobs.batch,replicasets")
    assert "FailedCreate" in described
    assert words in described
    assert "Suspended" in described
