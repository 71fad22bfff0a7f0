"""Jobs that say what the failure of a pod means, that count failures for each index, or that succeed early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import JOBS, PODS
from kilauea.api.ports import Obj
from kilauea.controllers.jobs.controller import JobController
from kilauea.controllers.jobs.failure_policy import failure_effect
from kilauea.controllers.jobs.indexes import INDEX
from support.controlled import Cluster, template

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
DISRUPTED = [{"type": "DisruptionTarget", "status": "True"}]
Rule = dict[str, Any]


def exit_codes(action: str, operator: str, *values: int, container: str | None = None) -> Rule:
    codes: Rule = {"operator": operator, "values": list(values)}
    return {"action": action, "onExitCodes": codes | ({"containerName": container} if container else {})}


def on_condition(action: str, type: str = "DisruptionTarget", status: str = "True") -> Rule:
    return {"action": action, "onPodConditions": [{"type": type, "status": status}]}


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(JobController())


def start(cluster: Cluster, *rules: Rule, **spec: Any) -> None:
    """Make a job with rules, and let it begin."""
    if rules:
        spec["podFailurePolicy"] = {"rules": list(rules)}
    cluster.create(
        JOBS, {"metadata": {"name": "pi"}, "spec": {"template": template({}, restartPolicy="Never"), **spec}}
    )
    cluster.settle()


def live(cluster: Cluster) -> dict[str, Obj]:
    """Pods that have not ended, by index or by name."""
    pods = (pod for pod in cluster.all(PODS) if pod["status"].get("phase") not in ("Succeeded", "Failed"))
    return {pod["metadata"].get("annotations", {}).get(INDEX, pod["metadata"]["name"]): pod for pod in pods}


def fail(cluster: Cluster, index: str, code: int = 1, **more: Any) -> None:
    """Let the pod of an index fail, and wait for what comes of it."""
    cluster.say(live(cluster)[index], "Failed", exit_code=code, **more)
    cluster.settle()


def status(cluster: Cluster) -> Any:
    return cluster.get(JOBS, "pi")["status"]


def conditions(cluster: Cluster) -> dict[str, str]:
    found = status(cluster).get("conditions", ())
    return {each["type"]: each["reason"] for each in found if each["status"] == "True"}


# --- what a failure means


def pod_that(codes: dict[str, int], *conditions: tuple[str, str], init: int | None = None) -> Obj:
    """A pod whose containers ended with these codes."""

    def ended(name: str, code: int) -> dict[str, Any]:
        return {"name": name, "state": {"terminated": {"exitCode": code}}}

    found: dict[str, Any] = {"phase": "Failed", "containerStatuses": [ended(*each) for each in codes.items()]}
    if init is not None:
        found["initContainerStatuses"] = [ended("prepare", init)]
    found["conditions"] = [{"type": type, "status": status} for type, status in conditions]
    return {"metadata": {"namespace": "default", "name": "p"}, "status": found}


@pytest.mark.parametrize(
    ("rules", "pod", "action"),
    [
        pytest.param([], pod_that({"a": 1}), "Count", id="no rules"),
        pytest.param([exit_codes("FailJob", "In", 42)], pod_that({"a": 42}), "FailJob", id="a code that is named"),
        pytest.param([exit_codes("FailJob", "In", 42)], pod_that({"a": 1}), "Count", id="another code"),
        pytest.param(
            [exit_codes("FailJob", "NotIn", 42)], pod_that({"a": 1}), "FailJob", id="a code that is not named"
        ),
        pytest.param([exit_codes("FailJob", "NotIn", 42)], pod_that({"a": 0}), "Count", id="success is not a failure"),
        pytest.param([exit_codes("Ignore", "In", 3)], pod_that({"a": 0, "b": 3}), "Ignore", id="any container"),
        pytest.param(
            [exit_codes("Ignore", "In", 3, container="a")], pod_that({"a": 0, "b": 3}), "Count", id="one container"
        ),
        pytest.param([exit_codes("Ignore", "In", 3)], pod_that({"a": 0}, init=3), "Ignore", id="an init container"),
        pytest.param([on_condition("Ignore")], pod_that({}, ("DisruptionTarget", "True")), "Ignore", id="a condition"),
        pytest.param([on_condition("Ignore")], pod_that({}, ("DisruptionTarget", "False")), "Count", id="its status"),
        pytest.param([on_condition("Ignore")], pod_that({}, ("Ready", "True")), "Count", id="another condition"),
        pytest.param(
            [on_condition("Ignore"), exit_codes("FailJob", "In", 1)],
            pod_that({"a": 1}, ("DisruptionTarget", "True")),
            "Ignore",
            id="the first rule that fits",
        ),
    ],
)
def test_the_first_rule_that_fits_says_what_a_failure_means(rules: list[Rule], pod: Obj, action: str) -> None:
    assert failure_effect({"spec": {"podFailurePolicy": {"rules": rules}}}, pod).action == action


def test_a_job_fails_at_once_if_a_rule_says_so(cluster: Cluster) -> None:
    start(cluster, on_condition("Ignore"), exit_codes("FailJob", "In", 42), parallelism=2, completions=2)
    first, _ = live(cluster)
    fail(cluster, first, 42)
    assert live(cluster) == {}
    assert conditions(cluster) == {"FailureTarget": "PodFailurePolicy", "Failed": "PodFailurePolicy"}
    message = f"Container main for pod default/{first} failed with exit code 42 matching FailJob rule at index 1"
    assert [each["message"] for each in status(cluster)["conditions"]] == [message, message]
    assert status(cluster)["failed"] == 2
    assert not any(pod["metadata"].get("finalizers") for pod in cluster.all(PODS))


def test_ignored_failures_are_not_counted(cluster: Cluster) -> None:
    start(cluster, on_condition("Ignore"), backoffLimit=0)
    for _ in range(3):
        (name,) = live(cluster)
        fail(cluster, name, 137, conditions=DISRUPTED)
        cluster.wait(600)
    assert conditions(cluster) == {}
    assert "failed" not in status(cluster)
    (name,) = live(cluster)
    fail(cluster, name, 1)
    assert conditions(cluster)["Failed"] == "BackoffLimitExceeded"
    assert status(cluster)["failed"] == 1


# --- each index by itself


def test_an_index_has_its_own_limit_and_the_others_go_on(cluster: Cluster) -> None:
    start(cluster, completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
    assert {pod["metadata"]["annotations"][FAILURES] for pod in live(cluster).values()} == {"0"}
    fail(cluster, "0")
    assert set(live(cluster)) == {"1"}
    cluster.wait(10)
    assert live(cluster)["0"]["metadata"]["annotations"][FAILURES] == "1"
    fail(cluster, "0")
    cluster.wait(600)
    assert set(live(cluster)) == {"1"}
    assert status(cluster)["failedIndexes"] == "0"
    assert conditions(cluster) == {}
    cluster.say(live(cluster)["1"], "Succeeded")
    cluster.settle()
    assert conditions(cluster) == {"FailureTarget": "FailedIndexes", "Failed": "FailedIndexes"}
    found = status(cluster)
    assert (found["completedIndexes"], found["failed"], found["succeeded"]) == ("1", 2, 1)
    assert not any(pod["metadata"].get("finalizers") for pod in cluster.all(PODS))


def test_the_count_of_an_index_is_not_lost_with_its_pod(cluster: Cluster) -> None:
    start(cluster, completions=1, completionMode="Indexed", backoffLimitPerIndex=1)
    fail(cluster, "0")
    for pod in cluster.all(PODS):
        cluster.delete(PODS, pod["metadata"]["name"], grace=0)
    cluster.wait(30)
    assert live(cluster)["0"]["metadata"]["annotations"][FAILURES] == "1"
    assert len(cluster.all(PODS)) == 1


def test_an_index_is_tried_again_after_pauses_of_its_own(cluster: Cluster) -> None:
    start(cluster, completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=9)
    fail(cluster, "0")
    cluster.wait(10)
    fail(cluster, "0")
    cluster.wait(5)
    fail(cluster, "1")
    cluster.wait(9)
    assert set(live(cluster)) == set()
    cluster.wait(1)
    assert set(live(cluster)) == {"1"}
    cluster.wait(5)
    assert set(live(cluster)) == {"0", "1"}


def test_a_rule_may_fail_an_index_at_once_or_forgive_it(cluster: Cluster) -> None:
    rules = (exit_codes("FailIndex", "In", 5), on_condition("Ignore"))
    start(cluster, *rules, completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
    fail(cluster, "0", 5)
    assert status(cluster)["failedIndexes"] == "0"
    for _ in range(3):
        fail(cluster, "1", 137, conditions=DISRUPTED)
        cluster.wait(600)
    told = live(cluster)["1"]["metadata"]["annotations"]
    assert (told[FAILURES], told[IGNORED]) == ("0", "3")
    assert status(cluster)["failed"] == 1


def test_a_job_fails_when_too_many_indexes_have(cluster: Cluster) -> None:
    limits = {"backoffLimitPerIndex": 0, "maxFailedIndexes": 1}
    start(cluster, completions=4, parallelism=4, completionMode="Indexed", **limits)
    fail(cluster, "0")
    assert conditions(cluster) == {}
    fail(cluster, "2")
    assert conditions(cluster)["Failed"] == "MaxFailedIndexesExceeded"
    assert status(cluster)["failed"] == 4


# --- success before the end


@pytest.mark.parametrize(
    ("rules", "indexes", "matched"),
    [
        ([{"succeededIndexes": "0"}], ["0"], 0),
        ([{"succeededCount": 2}], ["1", "3"], 0),
        ([{"succeededIndexes": "0-2", "succeededCount": 2}], ["0", "2"], 0),
        ([{"succeededIndexes": "0,3"}, {"succeededCount": 1}], ["2"], 1),
        ([{"succeededIndexes": "0-2", "succeededCount": 2}], ["0", "3"], None),
        ([{"succeededIndexes": "0-1"}], ["0"], None),
    ],
)
def test_a_job_is_done_when_a_rule_of_success_holds(
    cluster: Cluster, rules: list[Rule], indexes: list[str], matched: int | None
) -> None:
    start(cluster, completions=4, parallelism=4, completionMode="Indexed", successPolicy={"rules": rules})
    for index in indexes:
        cluster.say(live(cluster)[index], "Succeeded")
    cluster.settle()
    if matched is None:
        assert conditions(cluster) == {}
        assert len(live(cluster)) == 4 - len(indexes)
    else:
        assert conditions(cluster) == {"SuccessCriteriaMet": "SuccessPolicy", "Complete": "SuccessPolicy"}
        assert {each["message"] for each in status(cluster)["conditions"]} == {f"Matched rules at index {matched}"}
        assert live(cluster) == {}
        assert "failed" not in status(cluster)
