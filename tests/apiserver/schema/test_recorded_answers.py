"""The schema part against recorded answers of the real API server (`tests/kubernetes/record.py` records them)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kilauea.apiserver.schema import (
    DecodeError,
    apply_defaults,
    builtin_schema,
    from_openapi,
    read_builtin,
    read_custom,
    validate,
)

LINES = (Path(__file__).parent / "recorded.jsonl").read_text().splitlines()
RECORDED = [json.loads(line) for line in LINES]

FROM_ELSEWHERE = {
    "Pod": "spec.preemptionPolicy spec.priority spec.serviceAccount spec.serviceAccountName spec.tolerations "
    "status.qosClass",
    "Service": "spec.clusterIP spec.clusterIPs spec.ipFamilies spec.ipFamilyPolicy spec.ports[0].nodePort",
    "Namespace": "metadata.labels spec.finalizers",
    "Node": "spec.taints spec.podCIDRs",
    "PersistentVolume": "metadata.finalizers status.lastPhaseTransitionTime",
    "PersistentVolumeClaim": "metadata.finalizers spec.dataSourceRef",
    "DaemonSet": "metadata.annotations",
    "Job": "metadata.labels spec.selector spec.template.metadata.labels",
    "CustomResourceDefinition": "status.storedVersions",
}
"""Fields that the real server sets when it prepares or admits an object, not by reading it and filling in defaults."""
OF_THE_SERVER = ["metadata.uid", "metadata.creationTimestamp", "metadata.namespace", "metadata.generation"]


def named(file: str, *, below: int = 600) -> list[Any]:
    return [pytest.param(each, id=each["name"]) for each in RECORDED if each["file"] == file and each["code"] < below]


def differing(ours: Any, real: Any, path: str = "") -> list[str]:
    """Paths at which two JSON values differ."""
    if isinstance(ours, dict) and isinstance(real, dict):
        keys = sorted({*ours, *real})
        here = [f"{path}.{key}".lstrip(".") for key in keys if (key in ours) != (key in real)]
        both = [key for key in keys if key in ours and key in real]
        return here + [each for key in both for each in differing(ours[key], real[key], f"{path}.{key}".lstrip("."))]
    if isinstance(ours, list) and isinstance(real, list) and len(ours) == len(real):
        pairs = enumerate(zip(ours, real, strict=True))
        return [each for index, (left, right) in pairs for each in differing(left, right, f"{path}[{index}]")]
    return [] if real == "<time>" or (ours == real and type(ours) is type(real)) else [path]


@pytest.mark.parametrize("recorded", named("kinds", below=300))
def test_a_small_object_is_filled_in_as_by_the_real_server(recorded: dict[str, Any]) -> None:
    obj = json.loads(json.dumps(recorded["body"]))
    group, _, version = obj["apiVersion"].rpartition("/")
    schema = builtin_schema(group, version, obj["kind"])
    assert read_builtin(schema, obj) == []
    apply_defaults(schema, obj)
    allowed = tuple(OF_THE_SERVER + FROM_ELSEWHERE.get(obj["kind"], "").split())
    assert [path for path in differing(obj, recorded["answer"]) if not path.startswith(allowed)] == []


@pytest.mark.parametrize("recorded", named("kinds", below=300))
def test_filling_in_twice_changes_nothing(recorded: dict[str, Any]) -> None:
    obj = json.loads(json.dumps(recorded["body"]))
    group, _, version = obj["apiVersion"].rpartition("/")
    schema = builtin_schema(group, version, obj["kind"])
    read_builtin(schema, obj)
    apply_defaults(schema, obj)
    once = json.loads(json.dumps(obj))
    read_builtin(schema, obj)
    apply_defaults(schema, obj)
    assert obj == once


GROUPS = {"PriorityClass": "scheduling.k8s.io", "Deployment": "apps", "Lease": "coordination.k8s.io"}
REFUSAL = re.compile(r'(\w+) in version "v1" cannot be handled as a \1: (strict decoding error: )?(.*)')
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def outcome(body: dict[str, Any], kind: str) -> str:
    """What is wrong with a body, as far as reading tells; times read as in recorded answers."""
    try:
        unknown = read_builtin(builtin_schema(GROUPS.get(kind, ""), "v1", kind), body)
    except DecodeError as error:
        return TIME.sub("<time>", str(error))
    return ", ".join(f'unknown field "{each}"' for each in unknown)


def refused_by_reading() -> list[Any]:
    """Recorded refusals of JSON objects because of their values or unknown fields: the request, the kind, the words."""
    found = []
    for each in RECORDED:
        told = REFUSAL.fullmatch(each["answer"].get("message") or "")
        if each["file"] == "decoding" and isinstance(each["body"], dict) and told:
            found.append(pytest.param(each, told[1], told[3], id=each["name"]))
    return found


@pytest.mark.parametrize(("recorded", "kind", "words"), refused_by_reading())
def test_what_cannot_be_read_is_told_in_the_words_of_the_real_server(
    recorded: dict[str, Any], kind: str, words: str
) -> None:
    assert outcome(json.loads(json.dumps(recorded["body"])), kind) == words


def test_there_are_refusals_to_compare() -> None:
    assert len(refused_by_reading()) > 40


DEFINITION = next(each for each in RECORDED if each["file"] == "custom")
CUSTOM = from_openapi(DEFINITION["body"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def custom_values() -> list[Any]:
    return [
        pytest.param(each, id=each["name"])
        for each in RECORDED
        if each["file"] == "custom" and each["send"].endswith("tests?dryRun=All")
    ]


@pytest.mark.parametrize("recorded", custom_values())
def test_a_custom_resource_is_judged_as_by_the_real_server(recorded: dict[str, Any]) -> None:
    obj = json.loads(json.dumps(recorded["body"]))
    answer = recorded["answer"]
    if "cannot unmarshal" in (answer.get("message") or ""):
        with pytest.raises(DecodeError) as refused:
            read_custom(CUSTOM, obj)
        assert answer["message"].endswith(f": {refused.value}")
        return
    read_custom(CUSTOM, obj)
    apply_defaults(CUSTOM, obj)
    causes = [{"reason": each.reason, "message": each.message, "field": each.field} for each in validate(CUSTOM, obj)]
    expected = answer.get("details", {}).get("causes", []) if recorded["code"] >= 300 else []

    def by_field(cause: dict[str, str]) -> tuple[str, str]:
        return cause["field"], cause["message"]

    assert sorted(causes, key=by_field) == sorted(expected, key=by_field)
    if recorded["code"] < 300:
        assert obj["spec"] == answer["spec"]


@pytest.mark.parametrize(
    "recorded",
    [pytest.param(each, id=each["name"]) for each in RECORDED if each["file"] == "custom" and "Strict" in each["send"]],
)
def test_unknown_fields_of_a_custom_resource_are_told_in_order_of_their_paths(recorded: dict[str, Any]) -> None:
    unknown = read_custom(CUSTOM, json.loads(json.dumps(recorded["body"])))
    words = ", ".join(f'unknown field "{each}"' for each in unknown)
    assert recorded["answer"]["message"].endswith(f"strict decoding error: {words}")
