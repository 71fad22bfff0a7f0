"""What holds for all jobs, flows and pods, sane or not."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.admission import cronjobs, jobflows, jobs, pods
from kilauea.admission.resource_groups import read_resource_groups
from kilauea.admission.review import Denied, Mutate, Settings, Validate
from kilauea.api.kinds import JOB_FLOWS, PODS, VC_CRON_JOBS, VC_JOBS
from kilauea.api.ports import Resource
from kilauea.runtime.inputs.template_rules import template_errors
from support.admitted import VIEW, Data, changed, completed, denial, job, patch_of, review_of, task

NUMBERS = st.integers(-1, 4)
GROUPS = read_resource_groups(
    b"resourceGroups: [{object: {key: namespace, value: [default]}, labels: {a: b}, tolerations: [{key: k}],"
    b" affinity: '{}', schedulerName: s}]"
)
SETTINGS = Settings(resource_groups=GROUPS, queue_allocation_gate=True, check_template=template_errors)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Data]:
    """Objects with any of some fields."""
    return st.fixed_dictionaries({}, optional=fields)


NAMES = st.sampled_from(["a", "b", "c"])
PARTS = some(totalPartitions=NUMBERS, partitionSize=NUMBERS, minPartitions=NUMBERS)
POLICIES = st.lists(
    some(
        event=st.sampled_from(["*", "PodFailed", "PodPending", "Bang"]),
        action=st.sampled_from(["AbortJob", "Dance"]),
        exitCode=st.integers(0, 2),
    ),
    max_size=2,
)
TEMPLATES = st.sampled_from(
    [task()["template"], {}, {"spec": {"hostNetwork": True, "containers": [{"name": "c", "image": "i"}]}}]
)
TASKS = some(
    name=NAMES,
    replicas=NUMBERS,
    minAvailable=NUMBERS,
    maxRetry=NUMBERS,
    template=TEMPLATES,
    policies=POLICIES,
    dependsOn=some(name=st.lists(NAMES, max_size=2)),
    partitionPolicy=PARTS,
    topologyPolicy=st.sampled_from(["none", "restricted"]),
)
SANE_TASKS = st.builds(task, NAMES, st.integers(0, 3), dependsOn=some(name=st.lists(NAMES, max_size=1)))
PLUGINS: st.SearchStrategy[dict[str, list[str]]] = st.dictionaries(
    st.sampled_from(["svc", "mpi", "ray", "env"]), st.just([]), max_size=2
)
JOBS_OF_ALL_SORTS = st.builds(
    lambda tasks, spec: job(*tasks, **spec),
    st.lists(TASKS | SANE_TASKS, max_size=3),
    some(minAvailable=NUMBERS, plugins=PLUGINS, policies=POLICIES, queue=st.sampled_from(["default", "root", "ghost"])),
)


@given(JOBS_OF_ALL_SORTS)
def test_what_is_complete_stays_as_it_is(made: Data) -> None:
    complete = completed(jobs.mutate, made)
    assert patch_of(jobs.mutate, complete) == []


@given(st.builds(lambda tasks: job(*tasks), st.lists(SANE_TASKS, max_size=3)) | JOBS_OF_ALL_SORTS)
def test_what_was_let_in_may_be_written_again(made: Data) -> None:
    complete = completed(jobs.mutate, made)
    before = copy.deepcopy(complete)
    verdict = denial(jobs.validate, review_of(complete))
    assert denial(jobs.validate, review_of(complete)) == verdict
    assert complete == before, "a review only reads"
    if not verdict:
        assert denial(jobs.validate, review_of(complete, "UPDATE", complete)) == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FULL_JOB = job(
    task(topologyPolicy="restricted", dependsOn={"name": ["b"]}, policies=[{"event": "*", "action": "AbortJob"}]),
    task("b", partitionPolicy={"totalPartitions": 1, "partitionSize": 1, "networkTopology": {"highestTierAllowed": 1}}),
    volumes=[{"mountPath": "/a", "volumeClaim": {"resources": {"requests": {"storage": "1Gi"}}}}],
    plugins={"mpi": ["--master=a"]},
    policies=[{"events": ["Unknown"], "exitCode": None, "action": "AbortJob", "timeout": "1s"}],
    minAvailable=1,
)
FULL_CRON = {
    "metadata": {"name": "c"},
    "spec": {"schedule": "@daily", "timeZone": "UTC", "jobTemplate": {"spec": FULL_JOB["spec"]}},
}
FULL_FLOW = {"metadata": {"name": "f"}, "spec": {"flows": [{"name": "a", "dependsOn": {"targets": []}}]}}
FULL_POD = {
    "metadata": {
        "name": "p",
        "namespace": "default",
        "annotations": {
            "volcano.sh/jdb-min-available": "1",
            "scheduling.volcano.sh/queue-allocation-gate": "true",
        },
    },
    "spec": {
        "schedulerName": "volcano",
        "nodeSelector": {"a": "c"},
        "affinity": {},
        "tolerations": [{"key": "x"}],
        "schedulingGates": [{"name": "g"}],
    },
}


def paths(value: Any) -> list[tuple[str | int, ...]]:
    """The paths of everything in an object."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(key, *rest) for key, below in entries for rest in ((), *paths(below))]


@pytest.mark.parametrize(
    ("resource", "full", "hooks"),
    [
        (VC_JOBS, FULL_JOB, [jobs.mutate, jobs.validate]),
        (VC_CRON_JOBS, FULL_CRON, [cronjobs.validate]),
        (JOB_FLOWS, FULL_FLOW, [jobflows.validate]),
        (PODS, FULL_POD, [pods.mutate, pods.validate]),
    ],
)
@given(data=st.data())
def test_nonsense_passes_or_is_denied(
    resource: Resource, full: Data, hooks: list[Mutate | Validate], data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from([(), *paths(full)]), "path")
    value = data.draw(JSON, "value")
    nonsense = changed(full, path, value) if path else value
    for hook in hooks:
        for operation, old in (("CREATE", None), ("UPDATE", full), ("UPDATE", nonsense)):
            with contextlib.suppress(Denied):
                hook(review_of(nonsense, operation, old, resource), VIEW, SETTINGS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("spec",), None, "spec: expected an object, got null"),
        (("spec", "tasks", 0, "replicas"), "3", 'spec.tasks[0].replicas: expected an integer, got "3"'),
        (("spec", "tasks", 0, "template"), [], "spec.tasks[0].template: expected an object, got a list"),
        (
            ("spec", "tasks", 0, "template", "spec", "containers", 0, "resources"),
            {"requests": 1},
            "spec.task[0].template: json: cannot unmarshal number into Go struct field "
            "ResourceRequirements.spec.containers.resources.requests of type v1.ResourceList.",
        ),
    ],
)
def test_a_denial_of_nonsense_names_the_field_and_the_value(path: tuple[Any, ...], value: Any, expected: str) -> None:
    assert denial(jobs.validate, review_of(changed(FULL_JOB, path, value))) == expected


def test_a_request_without_an_object_is_denied() -> None:
    assert denial(jobs.validate, review_of(None)) == "the request holds no Job: send the object"
    assert denial(jobs.validate, review_of(FULL_JOB, "UPDATE")) == "the request holds no Job: send the object"


@given(st.dictionaries(st.sampled_from(["nodeSelector", "tolerations", "affinity"]), st.none(), max_size=3))
def test_a_pod_gets_what_its_group_gives_once(empty: Data) -> None:
    made = {**FULL_POD, "spec": {"schedulerName": "volcano", **empty}}
    complete = completed(pods.mutate, made, SETTINGS)
    assert complete["spec"]["schedulerName"] == "s"
    assert patch_of(pods.mutate, complete, SETTINGS) == []
