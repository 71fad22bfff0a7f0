"""Pod security, against recorded answers of the real server (`tests/kubernetes/record.py` records them)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kilauea.apiserver.admission.pod_security import Policy, Standard, policy_of
from kilauea.apiserver.admission.pod_standards import findings
from support.api_core import Api

LINES = (Path(__file__).parent / "pod_security.jsonl").read_text().splitlines()
RECORDED = [json.loads(line) for line in LINES]
TYPES = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}
NAMESPACE = "recorded"
PREFIX = "pod-security.kubernetes.io/"


def test_pods_are_refused_and_warned_of_as_by_the_real_server(api: Api) -> None:
    for recorded in RECORDED:
        method, path = recorded["send"].replace("${ns}", NAMESPACE).split(" ", 1)
        text = json.dumps(recorded["body"]).replace("${ns}", NAMESPACE)
        kind = TYPES.get(recorded.get("as", ""), "application/json")
        answer = api.ask(method, path, json.loads(text), content_type=kind)
        message = answer.body["message"] if answer.code >= 400 else ""
        warnings = [each for each in [answer.headers.get("Warning", "")] if each]
        known = {"name": recorded["name"], "code": answer.code, "message": message.replace(NAMESPACE, "${ns}")}
        assert known == {key: recorded[key] for key in known}
        for each in warnings:
            assert each.replace(NAMESPACE, "${ns}") in recorded["warnings"]
        assert bool(warnings) == bool(recorded["warnings"]), recorded["name"]


def test_the_recorded_answers_refuse_and_warn() -> None:
    assert sum(each["code"] == 403 for each in RECORDED) > 20
    assert sum(bool(each["warnings"]) for each in RECORDED) > 20


@pytest.mark.parametrize(
    ("labels", "policy"),
    [
        ({}, Policy()),
        ({"enforce": "baseline"}, Policy(Standard("baseline"), Standard("baseline"))),
        ({"enforce": "baseline", "warn": "privileged"}, Policy(Standard("baseline"))),
        (
            {"enforce": "restricted", "enforce-version": "v1.30"},
            Policy(Standard("restricted", "v1.30"), Standard("restricted", "v1.30")),
        ),
        ({"enforce": "strict"}, Policy(Standard("restricted"))),
        ({"warn": "strict"}, Policy()),
    ],
)
def test_labels_are_a_policy(labels: dict[str, str], policy: Policy) -> None:
    assert policy_of({f"{PREFIX}{key}": value for key, value in labels.items()}) == policy


def test_annotations_of_app_armor_are_looked_at() -> None:
    key = "container.apparmor.security.beta.kubernetes.io"
    annotations = {f"{key}/a": "unconfined", f"{key}/b": "runtime/default", f"{key}/c": "localhost/x"}
    (found,) = findings("baseline", {"annotations": annotations}, {"containers": [{"name": "a"}]})
    words = f'annotation must not set AppArmor profile type to "{key}/a="unconfined""'
    assert str(found) == f"forbidden AppArmor profile ({words})"


def test_a_pod_of_a_controller_is_refused_and_not_the_controller(api: Api) -> None:
    labels: dict[str, Any] = {f"{PREFIX}enforce": "baseline"}
    api.good("POST", "/api/v1/namespaces", {"metadata": {"name": "base", "labels": labels}})
    template = {"spec": {"hostPID": True, "restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}]}}
    job = {"metadata": {"name": "j"}, "spec": {"template": template}}
    made = api.ask("POST", "/apis/batch/v1/namespaces/base/jobs", job)
    assert made.code == 201
    assert "would violate PodSecurity" in made.headers["Warning"]
    pod = {"metadata": {"name": "p"}, "spec": template["spec"]}
    assert api.ask("POST", "/api/v1/namespaces/base/pods", pod).code == 403
