"""Every recorded request, played at our functions: the same objects, managers and refusals as the real server has.

What admission and the kinds themselves add to an object is not looked at: no one owns it.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilauea.apiserver.patch import fields, json_patch, merge_patch, server_side_apply, strategic_merge, track_update
from kilauea.apiserver.patch.values import copied
from kilauea.apiserver.schema import apply_defaults, builtin_schema, from_openapi, read_builtin, read_custom
from kilauea.apiserver.schema.nodes import Schema
from kilauea.apiserver.status import ApiFault

CASES = Path(__file__).parent / "cases"
WITH_STATUS = set("Pod Deployment Service Node Namespace Job PersistentVolume Widget".split())
RESETS = {
    "Pod": fields("spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
    "Deployment": fields("spec", "metadata.labels"),
    "Node": fields("spec"),
    "Widget": fields("spec", "metadata"),
}
ADDED_LATER = {
    "Pod": "spec.preemptionPolicy spec.priority spec.enableServiceLinks spec.tolerations".split(),
    "Job": "metadata.labels spec.selector spec.template.metadata spec.template.spec.enableServiceLinks".split(),
    "Service": "spec.clusterIP spec.clusterIPs spec.ipFamilies spec.ipFamilyPolicy".split(),
    "Namespace": ["spec"],
    "Node": ["spec.taints"],
    "PersistentVolume": ["metadata.finalizers"],
}


@functools.cache
def recorded() -> tuple[list[dict[str, Any]], dict[str, list[Any]]]:
    """Requests, and the answers of the real server by the name of the case."""
    read = [yaml.load((CASES / name).read_text(), yaml.CSafeLoader) for name in ("requests.yaml", "answers.yaml")]
    return read[0], read[1]


@functools.cache
def custom_schema() -> Schema:
    """The schema of the custom kind in the requests."""
    definitions = [case["definition"] for case in recorded()[0] if "definition" in case]
    return from_openapi(definitions[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def steps() -> list[Any]:
    """All requests, each with the object as it was before, the answer, and the time as the record has it."""
    requests, answers = recorded()
    found = []
    for case in requests:
        live = None
        for at, (step, answer) in enumerate(zip(case["steps"], answers[case["name"]], strict=True)):
            found.append(pytest.param(step, live, answer, f"2026-01-01T00:00:{at:02}Z", id=f"{case['name']}-{at}"))
            live = live if answer["kind"] == "Status" else answer
    return found


def play(step: dict[str, Any], live: Any, now: str) -> Any:
    """What our functions make of a request."""
    start: Any = live or step.get("create") or step.get("apply")
    kind, version, manager = start["kind"], start["apiVersion"], step["manager"]
    group, _, short = version.rpartition("/")
    schema = custom_schema() if kind == "Widget" else builtin_schema(group, short, kind)
    subresource = step.get("subresource", "")
    reset = RESETS[kind] if subresource else fields("status") if kind in WITH_STATUS else {}
    if "apply" in step:
        applied, force = copied(step["apply"]), step.get("force", False)
        new = server_side_apply(live, applied, manager, force, schema, version, now, subresource, reset=reset)
        return finished(new, schema)
    new = finished(patched(step, copied(live), schema), schema)
    new["metadata"]["managedFields"] = track_update(
        live, new, manager, schema, version, now, subresource=subresource, reset=reset
    )
    return new


def patched(step: dict[str, Any], live: Any, schema: Schema) -> Any:
    """The object as a request other than an apply wants it."""
    step = copied(step)
    if "create" in step:
        return step["create"]
    if "json" in step:
        return json_patch(live, step["json"])
    if "strategic" in step:
        return strategic_merge(live, step["strategic"], schema)
    return merge_patch(live, step.get("merge") or step["update"])


def finished(obj: Any, schema: Schema) -> Any:
    """An object as the real server reads it, with defaults."""
    read_custom(schema, obj) if schema is custom_schema() else read_builtin(schema, obj)
    apply_defaults(schema, obj)
    return obj


def compared(obj: Any, subresource: str) -> Any:
    """The part of an object that a request is about."""
    obj = copied(obj)
    obj["metadata"].pop("generation", None)
    if not obj["metadata"].get("managedFields"):
        obj["metadata"].pop("managedFields", None)
    for path in ADDED_LATER.get(obj["kind"], []):
        *above, last = path.split(".")
        functools.reduce(lambda node, key: node.get(key, {}), above, obj).pop(last, None)
    if subresource == "status":
        return {"status": obj.get("status"), "managers": obj["metadata"].get("managedFields")}
    return {key: value for key, value in obj.items() if key != "status"}


@pytest.mark.parametrize(("step", "live", "answer", "now"), steps())
def test_a_request_has_the_effect_that_it_has_in_the_real_server(step: Any, live: Any, answer: Any, now: str) -> None:
    try:
        ours = play(step, copied(live), now)
    except ApiFault as fault:
        ours = fault.status
    if "Status" in (ours["kind"], answer["kind"]):
        for each in (ours, answer):
            each.get("details", {}).get("causes", []).sort(key=lambda cause: (cause["message"], cause["field"]))
            each["message"] = sorted(each["message"].splitlines())  # the real server has several in any order
        assert ours == answer
    else:
        subresource = step.get("subresource", "")
        assert compared(ours, subresource) == compared(answer, subresource)
