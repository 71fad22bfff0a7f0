"""What pods get of their resource group, and which budgets are refused."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.admission.pods import mutate, validate
from kilauea.admission.resource_groups import read_resource_groups
from kilauea.admission.review import Settings
from kilauea.api.kinds import PODS
from support.admitted import VIEW, Data, completed, denial, patch_of, review_of

GATE = "scheduling.volcano.sh/queue-allocation-gate"
LEAST, MOST = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"
CONF = b"""
resourceGroups:
- resourceGroup: management
  object: {key: namespace, value: [mng, ops]}
  schedulerName: default-scheduler
  tolerations: [{key: dedicated, operator: Exists, effect: NoExecute, tolerationseconds: 5}]
  labels: {pool: mng}
  affinity: '{"podAntiAffinity": {}}'
- resourceGroup: cpu
  object:
    key: annotation
    value: ["kind: cpu", "kind: shadowed", "on: true", "{not yaml"]
  labels: {pool: cpu}
  affinity: '{not json'
- resourceGroup: gpu
  labels: {pool: gpu, size: big}
- resourceGroup: no one
  object: {key: colour, value: [red]}
  labels: {pool: no one}
"""
GROUPS = read_resource_groups(CONF)
SETTINGS = Settings(resource_groups=GROUPS, queue_allocation_gate=True)
ASKS = {GATE: "true"}


def pod(namespace: str = "default", annotations: Data | None = None, **spec: Any) -> Data:
    metadata = {"name": "p", "namespace": namespace, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"schedulerName": "volcano", **spec}}


# --- mutate


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (pod(), {}),
        (
            pod("ops"),
            {
                "nodeSelector": {"pool": "mng"},
                "affinity": {"podAntiAffinity": {}},
                "tolerations": [
                    {"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
                ],
                "schedulerName": "default-scheduler",
            },
        ),
        (
            pod("mng", {"kind": "cpu"}, affinity={"nodeAffinity": {}}, tolerations=[{"key": "x"}]),
            {
                "nodeSelector": {"pool": "mng"},
                "affinity": {"nodeAffinity": {}},
                "tolerations": [
                    {"key": "x"},
                    {"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
                ],
                "schedulerName": "default-scheduler",
            },
        ),
        (pod(annotations={"kind": "cpu"}), {"nodeSelector": {"pool": "cpu"}}),
        (pod(annotations={"kind": "shadowed"}), {}),
        (pod(annotations={"on": "true"}), {"nodeSelector": {"pool": "cpu"}}),
        (
            pod(annotations={"volcano.sh/resource-group": "gpu"}, nodeSelector={"pool": "mine", "zone": "a"}),
            {"nodeSelector": {"pool": "gpu", "size": "big", "zone": "a"}},
        ),
        (pod(annotations={"volcano.sh/resource-group": "missing"}), {}),
        (pod(annotations={"colour": "red"}), {}),
    ],
)
def test_the_first_group_that_takes_a_pod_gives_it_what_it_has(made: Data, expected: Data) -> None:
    assert completed(mutate, made, SETTINGS)["spec"] == {**made["spec"], **expected}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (pod(annotations=ASKS), [GATE]),
        (pod(annotations={GATE: "false"}), []),
        (pod(annotations=ASKS, schedulingGates=[{"name": "other"}]), ["other", GATE]),
        (pod(annotations=ASKS, schedulingGates=[{"name": GATE}]), [GATE]),
    ],
)
def test_a_pod_that_asks_for_the_gate_of_its_queue_gets_it(made: Data, expected: list[str]) -> None:
    spec = completed(mutate, made, SETTINGS)["spec"]
    assert [each["name"] for each in spec.get("schedulingGates", [])] == expected


def test_without_groups_and_without_the_gate_nothing_is_changed() -> None:
    assert patch_of(mutate, pod("mng", ASKS), Settings()) == []


@pytest.mark.parametrize(
    ("conf", "groups"), [(b"", 0), (b"resourceGroups:", 0), (b"resourceGroups: [{resourceGroup: a}]", 1)]
)
def test_a_file_of_groups_may_be_empty(conf: bytes, groups: int) -> None:
    assert len(read_resource_groups(conf)) == groups


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        (b"resourceGroups: [{labels: {a: 1}}]", r'resourceGroups\[0\]\.labels\.a: expected text, got 1'),
        (b"resourceGroups: 5", "resourceGroups: expected a list, got 5"),
        (b"- a", r"resourceGroups\[0\]: expected an object"),
        (b"{", "line 2, column 1: not valid YAML"),
    ],
)  # fmt: skip
def test_a_file_of_groups_that_cannot_be_read_is_refused(conf: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_resource_groups(conf)


# --- validate


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, ""),
        ({LEAST: "3"}, ""),
        ({MOST: "99%"}, ""),
        ({LEAST: "0"}, f'invalid value <"0"> for {LEAST}, it must be a positive integer'),
        ({MOST: "-2"}, f'invalid value <"-2"> for {MOST}, it must be a positive integer'),
        ({LEAST: "0%"}, f'invalid value <"0%"> for {LEAST}, it must be a valid percentage which between 1% ~ 99%'),
        ({MOST: "100%"}, f'invalid value <"100%"> for {MOST}, it must be a valid percentage which between 1% ~ 99%'),
        ({LEAST: "half"}, f"invalid value half for {LEAST}"),
        ({LEAST: ""}, f"invalid value  for {LEAST}"),
        ({LEAST: "1", MOST: "1"}, f"not allow configure multiple annotations <[{LEAST} {MOST}]> at same time"),
        ({LEAST: "9" * 5000}, f"invalid value {'9' * 5000} for {LEAST}"),
    ],
)
def test_a_budget_is_one_number_of_pods_or_one_percentage(annotations: Data, expected: str) -> None:
    made = pod(annotations=annotations)
    assert denial(validate, review_of(made, resource=PODS), settings=Settings()) == expected
    others = pod(annotations=annotations, schedulerName="default-scheduler")
    assert validate(review_of(others, resource=PODS), VIEW, Settings()) == []
    served = Settings(scheduler_names=("volcano", "default-scheduler"))
    assert denial(validate, review_of(others, resource=PODS), settings=served) == expected
