"""Refusals recorded from a cluster of the real Volcano, played without a server: schema, mutation, schema, rules."""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kilauea.admission import cronjobs, jobs
from kilauea.admission.review import Denied
from kilauea.api.crds import definitions
from kilauea.api.kinds import VC_CRON_JOBS, VC_JOBS
from kilauea.apiserver.patch.merge import merge_patch
from kilauea.apiserver.schema import apply_defaults, from_openapi, openapi_definitions, validate
from kilauea.client.view import Cache
from support.admitted import SETTINGS, Data, completed, queue, review_of, view_of

CASES = (
    "bad-pod-template bad-volume-mount-twice cronjob-bad-schedule depends-unknown job-add-task job-in-parent-queue "
    "job-in-root-queue max-retry-negative negative-min negative-replicas no-tasks policy-bad-action policy-exit-zero "
    "queue-missing"
).split()
KINDS = {"Job": (VC_JOBS, jobs.validate), "CronJob": (VC_CRON_JOBS, cronjobs.validate)}


@cache
def schema_of(plural: str) -> Any:
    """The schema of a kind of `batch.volcano.sh`."""
    named = f"{plural}.batch.volcano.sh"
    (found,) = (each for each in definitions(openapi_definitions()) if each["metadata"]["name"] == named)
    return from_openapi(found["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def refusal(manifest: Data, old: Data | None, view: Cache) -> tuple[str, Data]:
    """Why an object is refused, if it is, and the object as it would be stored."""
    resource, check = KINDS[manifest["kind"]]
    obj = merge_patch(copy.deepcopy(old), manifest) if old else copy.deepcopy(manifest)
    schema = schema_of(resource.plural)
    apply_defaults(schema, obj)
    if resource == VC_JOBS and not old:
        obj = completed(jobs.mutate, obj)
    causes = [str(each) for each in validate(schema, obj)]
    if causes:
        return causes[0] if len(causes) == 1 else "".join(f"\n* {each}" for each in sorted(causes)), obj
    try:
        check(review_of(obj, "UPDATE" if old else "CREATE", old, resource), view, SETTINGS)
    except Denied as error:
        return error.message, obj
    return "", obj


def words_of(error: str) -> str:
    """What kubectl tells of a refusal, without how it came to know; what is recorded in any order is sorted."""
    text = re.split(r"denied the request: |is invalid: ", error)[-1]
    if text.startswith("\n* "):
        text = "".join(f"\n{line}" for line in sorted(text.split("\n")[1:]))
    return re.sub(r"\[([\w* ]+)\]", lambda found: f"[{' '.join(sorted(found[1].split()))}]", text)


@pytest.mark.parametrize("case", CASES)
def test_a_recorded_refusal_has_the_same_words(case: str, shared: Path) -> None:
    steps = json.loads((shared / f"conformance/cluster/deny-{case}.json").read_text())["steps"]
    stored: dict[str, Data] = {}
    queues: list[Data] = []
    refused = 0
    for step in steps:
        for manifest, result in zip(step["do"].get("apply", ()), step.get("result", ()), strict=False):
            if manifest.get("kind") == "Queue":
                queues.append(queue(manifest["metadata"]["name"], manifest["spec"].get("parent", "root")))
            elif manifest.get("kind") in KINDS:
                name = manifest["metadata"]["name"]
                found, obj = refusal(manifest, stored.get(name), view_of(*queues))
                assert found == words_of(result["err"])
                refused += bool(found)
                stored |= {} if found else {name: obj}
    assert refused == 1
