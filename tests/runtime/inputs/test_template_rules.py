"""The API server's rules for pod templates, asked without a server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kilauea.runtime.inputs.template_rules import template_errors

GOOD = {"name": "c", "image": "busybox:1"}
SPEC = "template.spec"


@pytest.mark.parametrize(
    ("template", "faults"),
    [
        ({"spec": {"containers": [GOOD]}}, []),
        ({"spec": {"containers": [GOOD], "volumes": [{"name": "v"}]}}, []),
        ({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d e"}}, "spec": {"containers": [GOOD]}}, []),
        ({}, [f"{SPEC}.containers: Required value"]),
        ({"spec": {"containers": [{"name": "c"}]}}, [f"{SPEC}.containers[0].image: Required value"]),
        (
            {"spec": {"containers": [GOOD, GOOD], "restartPolicy": "Sometimes"}},
            [
                f'{SPEC}.containers[1].name: Duplicate value: "c"',
                f'{SPEC}.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", '
                '"Never"',
            ],
        ),
        (
            {"spec": {"containers": [{**GOOD, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}},
            [f'{SPEC}.containers[0].volumeMounts[0].name: Not found: "v"'],
        ),
        (
            {"spec": {"containers": "many"}},
            ["template: json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type"
             " []v1.Container"],
        ),
    ],
)  # fmt: skip
def test_a_template_is_judged_as_the_server_would_judge_its_pods(template: Any, faults: list[str]) -> None:
    before = copy.deepcopy(template)
    assert template_errors(template) == faults
    assert template == before, "defaults are filled in elsewhere"


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_keys_of_labels_and_annotations_are_looked_at(part: str) -> None:
    (fault,) = template_errors({"metadata": {part: {"not a key": "v"}}, "spec": {"containers": [GOOD]}})
    assert fault.startswith(f'template.{part}: Invalid value: "not a key": name part must consist of')
