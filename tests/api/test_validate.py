"""Checks of objects: what is found, how it is named, and that sound objects pass."""

from __future__ import annotations

import json
import time
import types
import typing
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.core import Node, Pod, ResourceQuota, Workload
from kilauea.api.decode import KINDS, decode
from kilauea.api.meta import Object, Wire
from kilauea.api.scheduling import PodDisruptionBudget, PodGroup, PriorityClass, Queue
from kilauea.api.validate import check, problems

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
INT32 = 2**31 - 1


def make(type_: type[Object], **fields: Any) -> Object:
    """An object named `x` with fields as a manifest has them."""
    return msgspec.convert({"kind": type_.__name__, "metadata": {"name": "x"}, **fields}, type_)


def pod(**spec: Any) -> Object:
    return make(Pod, spec=spec)


def container(**fields: Any) -> Object:
    return pod(containers=[{"name": "c"}, {"name": "d", **fields}])


def node_terms(*expressions: dict[str, Any], **term: Any) -> Object:
    terms = [{"matchExpressions": list(expressions), **term}]
    return pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


def preferred_nodes(weight: int, **preference: Any) -> Object:
    return pod(affinity={"nodeAffinity": {PREFERRED: [{"weight": weight, "preference": preference}]}})


def spread(**fields: Any) -> Object:
    return pod(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone"} | fields])


def case(what: str, obj: Object, path: str, message: str) -> Any:
    """An object with one thing wrong with it: where, and what is said of it."""
    return pytest.param(obj, (path, message), id=what)


def outside(number: int, least: int, most: int = INT32) -> str:
    return f"{number} is out of range: use {least} to {most}"


def negative(amount: str) -> str:
    return f'"{amount}" is negative: use 0 or more'


def no_quantity(text: str) -> str:
    return f'"{text}" is not a quantity: use a number with an optional suffix such as 500m, 2, 1.5Gi'


def unknown(text: str, *known: str) -> str:
    return f'"{text}" is not known: use {" or ".join(known)}'


def no_time(text: str) -> str:
    return f'"{text}" is not a time: use RFC 3339 such as 2025-01-31T12:00:00Z'


def no_name(shown: str) -> str:
    return f'"{shown}" is not a name: use lower-case letters, digits, "-" and "."'


BAD_SELECTOR = {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}
IS = '"Is" is not an operator: use one of DoesNotExist, Exists, In, NotIn'

CASES = [
    case(
        "a request that is not a quantity",
        container(resources={"requests": {"cpu": "1x"}}),
        "spec.containers[1].resources.requests[cpu]",
        no_quantity("1x"),
    ),
    case(
        "a negative limit",
        container(resources={"limits": {"memory": "-1Gi"}}),
        "spec.containers[1].resources.limits[memory]",
        negative("-1Gi"),
    ),
    case(
        "a negative request of an init container",
        pod(initContainers=[{"resources": {"requests": {"a.com/x": -1}}}]),
        "spec.initContainers[0].resources.requests[a.com/x]",
        negative("-1"),
    ),
    case(
        "an overhead that cannot be counted",
        pod(overhead={"memory": "9999999Ti"}),
        "spec.overhead[memory]",
        '"9999999Ti" is larger than 9007199254740992, the largest amount that can be counted exactly',
    ),
    case(
        "a request of the whole pod",
        pod(resources={"requests": {"cpu": ""}}),
        "spec.resources.requests[cpu]",
        no_quantity(""),
    ),
    case(
        "a limit of the whole pod",
        pod(resources={"limits": {"cpu": "a"}}),
        "spec.resources.limits[cpu]",
        no_quantity("a"),
    ),
    case(
        "a host port that does not exist",
        container(ports=[{"hostPort": 1}, {"hostPort": 65536}]),
        "spec.containers[1].ports[1].hostPort",
        outside(65536, 0, 65535),
    ),
    case(
        "a negative host port",
        container(ports=[{"hostPort": -1}]),
        "spec.containers[1].ports[0].hostPort",
        outside(-1, 0, 65535),
    ),
    case("a priority of more than 32 bits", pod(priority=2**31), "spec.priority", outside(2**31, -INT32 - 1)),
    case(
        "a preemption policy that does not exist",
        pod(preemptionPolicy="Always"),
        "spec.preemptionPolicy",
        unknown("Always", "Never", "PreemptLowerPriority"),
    ),
    case(
        "a node operator that does not exist",
        node_terms({"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Is"}),
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[1]",
        '"Is" is not an operator: use one of DoesNotExist, Exists, Gt, In, Lt, NotIn',
    ),
    case(
        "a comparison with text",
        node_terms({"key": "a", "operator": "Gt", "values": ["x"]}),
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]",
        "Gt needs exactly one value, an integer in quotes",
    ),
    case(
        "a field that cannot be selected",
        node_terms(matchFields=[{"key": "metadata.uid", "operator": "In", "values": ["x"]}]),
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0]",
        '"metadata.uid" is not a field that can be selected: use metadata.name',
    ),
    case(
        "a node preference of too much weight",
        preferred_nodes(101),
        f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight",
        outside(101, 1, 100),
    ),
    case(
        "a node preference without values",
        preferred_nodes(1, matchExpressions=[{"key": "a", "operator": "In"}]),
        f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0]",
        "In without values: give at least one value",
    ),
    case(
        "an operator of pod affinity",
        pod(affinity={"podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": BAD_SELECTOR}]}}),
        f"spec.affinity.podAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0]",
        IS,
    ),
    case(
        "an anti-affinity without topology key",
        pod(affinity={"podAntiAffinity": {REQUIRED: [{}]}}),
        f"spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey",
        "missing: give a value",
    ),
    case(
        "a preference without weight",
        pod(affinity={"podAntiAffinity": {PREFERRED: [{"weight": 0, "podAffinityTerm": {"topologyKey": "z"}}]}}),
        f"spec.affinity.podAntiAffinity.{PREFERRED}[0].weight",
        outside(0, 1, 100),
    ),
    case(
        "an operator of a namespace selector",
        pod(
            affinity={
                "podAffinity": {
                    PREFERRED: [
                        {"weight": 1, "podAffinityTerm": {"topologyKey": "z", "namespaceSelector": BAD_SELECTOR}}
                    ]
                }
            }
        ),
        f"spec.affinity.podAffinity.{PREFERRED}[0].podAffinityTerm.namespaceSelector.matchExpressions[0]",
        IS,
    ),
    case("a skew of zero", spread(maxSkew=0), "spec.topologySpreadConstraints[0].maxSkew", outside(0, 1)),
    case("no domains", spread(minDomains=0), "spec.topologySpreadConstraints[0].minDomains", outside(0, 1)),
    case(
        "a spread without topology key",
        spread(topologyKey=""),
        "spec.topologySpreadConstraints[0].topologyKey",
        "missing: give a value",
    ),
    case(
        "a spread that does something unknown",
        spread(whenUnsatisfiable="Ignore"),
        "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        unknown("Ignore", "DoNotSchedule", "ScheduleAnyway"),
    ),
    case(
        "a policy in lower case",
        spread(nodeTaintsPolicy="honor"),
        "spec.topologySpreadConstraints[0].nodeTaintsPolicy",
        unknown("honor", "Honor", "Ignore"),
    ),
    case(
        "an empty policy",
        spread(nodeAffinityPolicy=""),
        "spec.topologySpreadConstraints[0].nodeAffinityPolicy",
        unknown("", "Honor", "Ignore"),
    ),
    case(
        "a label value with a blank",
        spread(labelSelector={"matchLabels": {"a": "b c"}}),
        "spec.topologySpreadConstraints[0].labelSelector.matchLabels[a]",
        '"b c" is not a label value: use at most 63 letters, digits, "-", "_", "."',
    ),
    case(
        "a toleration's operator with a typing error",
        pod(tolerations=[{"operator": "Exist"}]),
        "spec.tolerations[0].operator",
        unknown("Exist", "Equal", "Exists", "Lt", "Gt"),
    ),
    case(
        "a toleration of an unknown effect",
        pod(tolerations=[{"operator": "Exists", "effect": "Never"}]),
        "spec.tolerations[0].effect",
        unknown("Never", "NoSchedule", "PreferNoSchedule", "NoExecute"),
    ),
    case(
        "an allocatable amount",
        make(Node, status={"allocatable": {"cpu": "x"}}),
        "status.allocatable[cpu]",
        no_quantity("x"),
    ),
    case("a negative capacity", make(Node, status={"capacity": {"cpu": -4}}), "status.capacity[cpu]", negative("-4")),
    case(
        "a taint without effect",
        make(Node, spec={"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b"}]}),
        "spec.taints[1].effect",
        unknown("", "NoSchedule", "PreferNoSchedule", "NoExecute"),
    ),
    case(
        "a taint without key",
        make(Node, spec={"taints": [{"effect": "NoSchedule"}]}),
        "spec.taints[0].key",
        "missing: give a value",
    ),
    case(
        "a quota that is not a quantity",
        make(ResourceQuota, spec={"hard": {"requests.cpu": "1", "count/jobs": "x"}}),
        "spec.hard[count/jobs]",
        no_quantity("x"),
    ),
    case("a negative use", make(ResourceQuota, status={"used": {"pods": -1}}), "status.used[pods]", negative("-1")),
    case(
        "a negative quota in the status",
        make(ResourceQuota, status={"hard": {"pods": -1}}),
        "status.hard[pods]",
        negative("-1"),
    ),
    case("an owner", make(Workload, spec={"selector": BAD_SELECTOR}), "spec.selector.matchExpressions[0]", IS),
    case(
        "a disruption budget",
        make(PodDisruptionBudget, spec={"selector": BAD_SELECTOR}),
        "spec.selector.matchExpressions[0]",
        IS,
    ),
    case("a negative minimum", make(PodGroup, spec={"minMember": -1}), "spec.minMember", outside(-1, 0)),
    case(
        "a negative minimum of a role",
        make(PodGroup, spec={"minTaskMember": {"a": 0, "b": -2}}),
        "spec.minTaskMember[b]",
        outside(-2, 0),
    ),
    case(
        "minimal resources in words",
        make(PodGroup, spec={"minResources": {"cpu": "four"}}),
        "spec.minResources[cpu]",
        no_quantity("four"),
    ),
    case(
        "an operator of a sub-group",
        make(PodGroup, spec={"subGroupPolicy": [{"name": "s", "labelSelector": BAD_SELECTOR}]}),
        "spec.subGroupPolicy[0].labelSelector.matchExpressions[0]",
        IS,
    ),
    case(
        "a negative sub-group",
        make(PodGroup, spec={"subGroupPolicy": [{"subGroupSize": -1}]}),
        "spec.subGroupPolicy[0].subGroupSize",
        outside(-1, 0),
    ),
    case(
        "a negative number of sub-groups",
        make(PodGroup, spec={"subGroupPolicy": [{"minSubGroups": -1}]}),
        "spec.subGroupPolicy[0].minSubGroups",
        outside(-1, 0),
    ),
    case("a queue of too much weight", make(Queue, spec={"weight": 65536}), "spec.weight", outside(65536, 0, 65535)),
    case(
        "a negative capability", make(Queue, spec={"capability": {"cpu": "-1"}}), "spec.capability[cpu]", negative("-1")
    ),
    case(
        "a deserved amount with a blank",
        make(Queue, spec={"deserved": {"cpu": "1 "}}),
        "spec.deserved[cpu]",
        no_quantity("1 "),
    ),
    case(
        "a guarantee in GiB",
        make(Queue, spec={"guarantee": {"resource": {"memory": "1GiB"}}}),
        "spec.guarantee.resource[memory]",
        no_quantity("1GiB"),
    ),
    case(
        "a queue priority of more than 32 bits",
        make(Queue, spec={"priority": -(2**40)}),
        "spec.priority",
        outside(-(2**40), -INT32 - 1),
    ),
    case("a class value of more than 32 bits", make(PriorityClass, value=2**31), "value", outside(2**31, -INT32 - 1)),
    case(
        "a class with an unknown policy",
        make(PriorityClass, preemptionPolicy="x"),
        "preemptionPolicy",
        unknown("x", "Never", "PreemptLowerPriority"),
    ),
    case(
        "a creation time in words",
        make(Pod, metadata={"name": "x", "creationTimestamp": "today"}),
        "metadata.creationTimestamp",
        no_time("today"),
    ),
    case(
        "an empty deletion time",
        make(Pod, metadata={"name": "x", "deletionTimestamp": ""}),
        "metadata.deletionTimestamp",
        no_time(""),
    ),
    case(
        "a name with an escape sequence",
        make(Queue, metadata={"name": "a\x1b[31m"}),
        "metadata.name",
        no_name(r"a\x1b[31m"),
    ),
    case(
        "a namespace that turns the direction of text",
        make(Pod, metadata={"name": "x", "namespace": "a\u202eb"}),
        "metadata.namespace",
        no_name(r"a\u202eb"),
    ),
    case("a name that reads as two", make(Pod, metadata={"name": "a/b"}), "metadata.name", no_name(r"a/b")),
    case("an object without name", make(Queue, metadata={}), "metadata.name", "missing: every object needs a name"),
]


@pytest.mark.parametrize(("obj", "problem"), CASES)
def test_what_is_wrong_is_found_and_named(obj: Object, problem: tuple[str, str]) -> None:
    assert problems(obj) == [problem]
    assert problems(obj) == [problem], "the second time from the cache"


SOUND_POD: dict[str, Any] = {
    "metadata": {"name": "x", "namespace": "ns", "creationTimestamp": "2025-01-31T12:00:00Z"},
    "spec": {
        "containers": [
            {
                "name": "c",
                "resources": {
                    "requests": {"cpu": "500m", "memory": 0, "nvidia.com/gpu": 1, "odd": "3"},
                    "limits": {"cpu": 1.5},
                },
                "ports": [{"hostPort": 0}, {"hostPort": 65535}, {}],
            }
        ],
        "priority": -(2**31),
        "preemptionPolicy": "Never",
        "overhead": {"cpu": "1m"},
        "tolerations": [{"operator": "Exists"}, {"key": "a", "operator": "", "effect": ""}, {"operator": "Gt"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "nodeTaintsPolicy": "Honor"}
        ],
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {},
                        {
                            "matchExpressions": [{"key": "a", "operator": "Lt", "values": ["7"]}],
                            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
                        },
                    ]
                },
                PREFERRED: [{"weight": 100, "preference": {}}],
            },
            "podAntiAffinity": {REQUIRED: [{"topologyKey": "z", "labelSelector": {}}]},
        },
    },
}


@pytest.mark.parametrize(
    "obj",
    [
        make(Pod, **SOUND_POD),
        make(Pod),
        make(
            Node,
            status={"allocatable": {"cpu": "4", "pods": "110"}},
            spec={"taints": [{"key": "a", "effect": "NoExecute"}]},
        ),
        make(PodGroup, spec={"minMember": 0, "minTaskMember": {"a": 0}, "minResources": {"cpu": 4}}),
        make(Queue, spec={"weight": 1, "capability": {"cpu": "10"}, "guarantee": {"resource": {"cpu": "1"}}}),
        make(Queue),
        make(PriorityClass, value=2**31 - 1, preemptionPolicy="Never"),
        make(
            ResourceQuota, spec={"hard": {"requests.storage": "100Ti", "count/jobs.batch": "5", "limits.memory": "9Ti"}}
        ),
        make(Queue, spec={"weight": 0}),
        make(PodDisruptionBudget, spec={"minAvailable": "50%", "selector": {"matchLabels": {"a": ""}}}),
        make(Workload, spec={"selector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}),
    ],
    ids=lambda obj: type(obj).__name__,
)
def test_sound_objects_pass(obj: Object) -> None:
    assert check(obj) == []


def test_all_that_is_wrong_is_reported_at_once_with_the_object_and_the_source() -> None:
    broken = make(Queue, spec={"weight": -1, "deserved": {"cpu": "x", "memory": "-1"}})
    assert [str(error) for error in check(broken, source="q.yaml", index=3)] == [
        "q.yaml: Queue x: spec.weight: -1 is out of range: use 0 to 65535",
        f"q.yaml: Queue x: spec.deserved[cpu]: {no_quantity('x')}",
        'q.yaml: Queue x: spec.deserved[memory]: "-1" is negative: use 0 or more',
    ]
    (error,) = check(make(Pod, metadata={"name": "p", "namespace": "ns"}, spec={"priority": 2**40}), index=3)
    assert (error.kind, error.object, error.field, error.index) == ("Pod", "ns/p", "spec.priority", 3)


WORDS = st.sampled_from(["", "a", "-1", "2", "1e9", "In", "Gt", "Exists", "metadata.name", "x" * 300])


def values(type_: Any) -> st.SearchStrategy[Any]:
    """Any values of the type of a field."""
    arguments = typing.get_args(type_)
    if isinstance(type_, types.UnionType):
        return st.one_of([values(argument) for argument in arguments])
    if typing.get_origin(type_) is list:
        return st.lists(values(arguments[0]), max_size=2)
    if typing.get_origin(type_) is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=2)
    if isinstance(type_, type) and issubclass(type_, Wire):
        return structs(type_)
    if type_ is Any:
        return WORDS
    return WORDS if type_ is str else st.from_type(type_)


@cache
def structs(type_: type[Wire]) -> st.SearchStrategy[Any]:
    """Any objects of a wire type."""
    return st.builds(type_, **{field.name: values(field.type) for field in msgspec.structs.fields(type_)})


@given(st.sampled_from(sorted(set(KINDS.values()), key=lambda type_: type_.__name__)).flatmap(structs))
def test_no_object_raises_an_exception(obj: Object) -> None:
    for error in check(obj):
        assert error.field
        assert error.message


def test_plain_pods_cost_little() -> None:
    items = [{**SOUND_POD, "kind": "Pod", "metadata": {"name": f"x{i}"}} for i in range(5_000)]
    for item in items:
        item["spec"] = {"containers": SOUND_POD["spec"]["containers"]}
    pods = decode(json.dumps(items).encode(), "f").objects
    started = time.process_time()
    assert [error for obj in pods for error in check(obj)] == []
    assert time.process_time() - started < 5_000 * 40e-6, "the budget is 5 us; slow machines get eight times that"
