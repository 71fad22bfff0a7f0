"""Pods with a runtime class: its overhead and its nodes become theirs."""

from __future__ import annotations

from typing import Any

import pytest

from support.api_core import PODS, Answer, Api

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
TOLERATION = {"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}


@pytest.fixture
def sandbox(api: Api) -> Api:
    """A server with a runtime class."""
    scheduling = {"nodeSelector": {"runtime": "sandbox"}, "tolerations": [TOLERATION]}
    overhead = {"podFixed": {"cpu": "250m"}}
    made = {"metadata": {"name": "sandbox"}, "handler": "s", "overhead": overhead, "scheduling": scheduling}
    api.good("POST", CLASSES, made)
    return api


def asked(api: Api, **spec: Any) -> Answer:
    container = {"name": "main", "image": "busybox:1"}
    return api.ask("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}})


def test_a_pod_gets_the_overhead_and_the_nodes_of_its_class(sandbox: Api) -> None:
    spec = asked(sandbox, runtimeClassName="sandbox", nodeSelector={"disk": "ssd"}).body["spec"]
    assert spec["overhead"] == {"cpu": "250m"}
    assert spec["nodeSelector"] == {"disk": "ssd", "runtime": "sandbox"}
    assert TOLERATION in spec["tolerations"]


def test_a_pod_may_say_the_same_as_its_class(sandbox: Api) -> None:
    answer = asked(
        sandbox, runtimeClassName="sandbox", overhead={"cpu": "0.25"}, nodeSelector={"runtime": "sandbox"},
        tolerations=[TOLERATION],
    )  # fmt: skip
    assert answer.code == 201
    assert answer.body["spec"]["tolerations"].count(TOLERATION) == 1


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        (
            {"runtimeClassName": "sandbox", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"runtimeClassName": "sandbox", "nodeSelector": {"runtime": "other"}},
            "conflict: runtimeClass.scheduling.nodeSelector[runtime] = sandbox; pod.spec.nodeSelector[runtime] = other",
        ),
    ],
)
def test_a_pod_that_does_not_go_with_its_class_is_refused(sandbox: Api, spec: dict[str, Any], words: str) -> None:
    answer = asked(sandbox, **spec)
    assert (answer.code, answer.body["message"]) == (403, f'pods "p" is forbidden: {words}')


def test_a_pod_without_a_class_is_as_it_was(sandbox: Api) -> None:
    spec = asked(sandbox).body["spec"]
    assert "overhead" not in spec
    assert "nodeSelector" not in spec


def test_a_pod_can_be_changed_after_its_class_is_gone(sandbox: Api) -> None:
    assert asked(sandbox, runtimeClassName="sandbox").code == 201
    sandbox.good("DELETE", f"{CLASSES}/sandbox")
    labels = {"metadata": {"labels": {"a": "b"}}}
    changed = sandbox.good("PATCH", f"{PODS}/p", labels, content_type="application/merge-patch+json")
    assert changed["spec"]["overhead"] == {"cpu": "250m"}
