"""The plugin predicates, one node at a time: cordon, node affinity, taints, ports, pod slots; and its switches."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders import (
    Data,
    Objects,
    binds,
    conf,
    gang,
    group,
    need,
    node,
    node_affinity,
    pending,
    plan_of,
    plugin,
    pod,
)

FILTERS = conf("allocate", ["gang"], ["predicates"])

UNSCHEDULABLE = "node(s) were unschedulable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINT = "node(s) had untolerated taint(s)"
PORTS = "node(s) didn't have free ports for the requested pod ports"


def verdict(on: Objects, *more: Objects, conf: Data = FILTERS, **spec: Any) -> str:
    """`fits`, or why a pod does not fit on a node called `n1`."""
    plan = plan_of(on, group(), pod("p", **spec), *more, conf=conf)
    if binds(plan) == {"p": "n1"}:
        return "fits"
    return pending(plan)["p"].message.removeprefix("0/1 nodes are unavailable: 1 ").removesuffix(".")


# --- node selector and node affinity


LABELS = {"disk": "ssd", "cores": "16", "empty": "", "word": "many"}


@pytest.mark.parametrize(
    ("requirement", "fits"),
    [
        pytest.param(need("disk", "In", "hdd", "ssd"), True, id="In with the value"),
        pytest.param(need("disk", "In", "hdd"), False, id="In without the value"),
        pytest.param(need("gone", "In", "ssd"), False, id="In without the label"),
        pytest.param(need("empty", "In", ""), True, id="In with the empty value"),
        pytest.param(need("disk", "NotIn", "hdd"), True, id="NotIn another value"),
        pytest.param(need("disk", "NotIn", "ssd"), False, id="NotIn the value"),
        pytest.param(need("gone", "NotIn", "ssd"), True, id="NotIn without the label"),
        pytest.param(need("empty", "Exists"), True, id="Exists"),
        pytest.param(need("gone", "Exists"), False, id="Exists without the label"),
        pytest.param(need("gone", "DoesNotExist"), True, id="DoesNotExist"),
        pytest.param(need("disk", "DoesNotExist"), False, id="DoesNotExist with the label"),
        pytest.param(need("cores", "Gt", "15"), True, id="Gt a smaller number"),
        pytest.param(need("cores", "Gt", "16"), False, id="Gt the same number"),
        pytest.param(need("cores", "Gt", "9"), True, id="Gt compares numbers, not text"),
        pytest.param(need("cores", "Lt", "17"), True, id="Lt a larger number"),
        pytest.param(need("cores", "Lt", "16"), False, id="Lt the same number"),
        pytest.param(need("word", "Gt", "1"), False, id="Gt of a label that is not a number"),
        pytest.param(need("word", "Lt", "1"), False, id="Lt of a label that is not a number"),
        pytest.param(need("gone", "Gt", "1"), False, id="Gt without the label"),
        pytest.param(need("cores", "Gt", "x"), False, id="Gt a text matches nothing"),
        pytest.param(need("cores", "Gt", "1", "2"), False, id="Gt two numbers matches nothing"),
        pytest.param(need("disk", "Like", "ssd"), False, id="an unknown operator matches nothing"),
    ],
)
def test_node_affinity_operators(requirement: Data, fits: bool) -> None:
    expected = "fits" if fits else AFFINITY
    assert verdict(node("n1", labels=LABELS), affinity=node_affinity([requirement])) == expected


@pytest.mark.parametrize(
    ("affinity", "fits"),
    [
        pytest.param(
            node_affinity([need("disk", "Exists"), need("gone", "Exists")]), False, id="expressions are ANDed"
        ),
        pytest.param(node_affinity([need("gone", "Exists")], [need("disk", "Exists")]), True, id="terms are ORed"),
        pytest.param(node_affinity([]), False, id="an empty term matches nothing"),
        pytest.param(node_affinity(), False, id="no term matches nothing"),
        pytest.param(
            node_affinity([need("a", "Like")], [need("disk", "Exists")]), True, id="a bad term spoils no other"
        ),
        pytest.param(node_affinity(fields=[[need("metadata.name", "In", "n1")]]), True, id="the name by matchFields"),
        pytest.param(node_affinity(fields=[[need("metadata.name", "In", "n2")]]), False, id="another name"),
        pytest.param(node_affinity(fields=[[need("metadata.name", "NotIn", "n2")]]), True, id="not another name"),
        pytest.param(node_affinity(fields=[[need("metadata.name", "NotIn", "n1")]]), False, id="not this name"),
        pytest.param(
            node_affinity(fields=[[need("metadata.name", "In", "n1", "n2")]]), False, id="two names match nothing"
        ),
        pytest.param(
            node_affinity(fields=[[need("metadata.uid", "In", "n1")]]), False, id="another field matches nothing"
        ),
        pytest.param(
            node_affinity(fields=[[need("metadata.name", "Exists")]]), False, id="only In and NotIn for fields"
        ),
    ],
)
def test_node_affinity_terms(affinity: Data, fits: bool) -> None:
    assert verdict(node("n1", labels=LABELS), affinity=affinity) == ("fits" if fits else AFFINITY)


def test_expressions_and_fields_of_a_term_are_anded() -> None:
    both = {"matchExpressions": [need("disk", "Exists")], "matchFields": [need("metadata.name", "In", "n1")]}
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [both]}}}
    assert verdict(node("n1", labels=LABELS), affinity=required) == "fits"
    assert verdict(node("n1"), affinity=required) == AFFINITY


@pytest.mark.parametrize(
    ("selector", "affinity", "fits"),
    [
        pytest.param({"disk": "ssd"}, {}, True, id="a pair that is there"),
        pytest.param({"disk": "ssd", "cores": "8"}, {}, False, id="all pairs must be there"),
        pytest.param({"empty": ""}, {}, True, id="an empty value is a value"),
        pytest.param({"gone": ""}, {}, False, id="an absent label is not the empty value"),
        pytest.param(
            {"disk": "ssd"}, node_affinity([need("gone", "Exists")]), False, id="selector and affinity both hold"
        ),
    ],
)
def test_node_selector(selector: dict[str, str], affinity: Data, fits: bool) -> None:
    found = verdict(node("n1", labels=LABELS), nodeSelector=selector, affinity=affinity)
    assert found == ("fits" if fits else AFFINITY)


# --- taints and cordons


def tolerates(**fields: str) -> list[Data]:
    return [fields]


@pytest.mark.parametrize(
    ("taint", "tolerations", "fits"),
    [
        pytest.param("a=b:NoSchedule", [], False, id="NoSchedule without a toleration"),
        pytest.param("a=b:NoExecute", [], False, id="NoExecute without a toleration"),
        pytest.param("a=b:PreferNoSchedule", [], True, id="PreferNoSchedule rules nothing out"),
        pytest.param("a=b:NoSchedule", tolerates(key="a", value="b"), True, id="Equal is the default operator"),
        pytest.param(
            "a=b:NoSchedule", tolerates(key="a", operator="Equal", value="c"), False, id="Equal another value"
        ),
        pytest.param("a=b:NoSchedule", tolerates(key="a", operator="Exists"), True, id="Exists covers any value"),
        pytest.param("a=b:NoSchedule", tolerates(operator="Exists"), True, id="Exists without a key covers everything"),
        pytest.param(
            "a=b:NoSchedule", tolerates(value="b"), True, id="an empty key with Equal covers any key of the value"
        ),
        pytest.param("a=b:NoSchedule", tolerates(value="c"), False, id="but no other value"),
        pytest.param("a=b:NoSchedule", tolerates(key="a", value="b", effect="NoSchedule"), True, id="the same effect"),
        pytest.param("a=b:NoSchedule", tolerates(key="a", value="b", effect="NoExecute"), False, id="another effect"),
        pytest.param("a:NoSchedule", tolerates(key="a"), True, id="no value equals no value"),
        pytest.param("a=5:NoSchedule", tolerates(key="a", operator="Gt", value="3"), False, id="Gt covers nothing"),
        pytest.param("a=5:NoSchedule", tolerates(key="a", operator="Lt", value="9"), False, id="Lt covers nothing"),
    ],
)
def test_taints(taint: str, tolerations: list[Data], fits: bool) -> None:
    assert verdict(node("n1", taints=[taint]), tolerations=tolerations) == ("fits" if fits else TAINT)


def test_every_taint_has_to_be_tolerated() -> None:
    on = node("n1", taints=["a=b:NoSchedule", "c=d:NoExecute", "e=f:PreferNoSchedule"])
    assert verdict(on, tolerations=tolerates(key="a", operator="Exists")) == TAINT
    both = [{"key": "a", "operator": "Exists"}, {"key": "c", "operator": "Exists"}]
    assert verdict(on, tolerations=both) == "fits"


CORDON = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        pytest.param([], False, id="without a toleration"),
        pytest.param(tolerates(key=CORDON, operator="Exists"), True, id="with one for it"),
        pytest.param(tolerates(key=CORDON, operator="Exists", effect="NoSchedule"), True, id="of its effect"),
        pytest.param(tolerates(key=CORDON, operator="Exists", effect="NoExecute"), False, id="not of another effect"),
        pytest.param(tolerates(operator="Exists"), True, id="with one for everything"),
        pytest.param(tolerates(key=CORDON, value="x"), False, id="not with a value"),
    ],
)
def test_cordoned_nodes(tolerations: list[Data], fits: bool) -> None:
    found = verdict(node("n1", unschedulable=True), tolerations=tolerations)
    assert found == ("fits" if fits else UNSCHEDULABLE)


# --- host ports


def port(number: int, ip: str | None = None, protocol: str | None = None) -> Data:
    return {"hostPort": number} | ({"hostIP": ip} if ip else {}) | ({"protocol": protocol} if protocol else {})


@pytest.mark.parametrize(
    ("held", "wanted", "fits"),
    [
        pytest.param(port(80), port(80), False, id="the same port"),
        pytest.param(port(80), port(81), True, id="another port"),
        pytest.param(port(80), port(80, protocol="UDP"), True, id="another protocol"),
        pytest.param(port(80), port(80, protocol="TCP"), False, id="TCP is the default protocol"),
        pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.2"), True, id="another address"),
        pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.1"), False, id="the same address"),
        pytest.param(port(80, "10.0.0.1"), port(80), False, id="all addresses against one"),
        pytest.param(port(80), port(80, "10.0.0.1"), False, id="one address against all"),
        pytest.param(port(80, "0.0.0.0"), port(80, "10.0.0.1"), False, id="0.0.0.0 is all addresses"),
        pytest.param(port(80), {"containerPort": 80}, True, id="a port of the container alone"),
    ],
)
def test_host_ports(held: Data, wanted: Data, fits: bool) -> None:
    running = [group("r"), pod("r-0", "r", node="n1", ports=[held])]
    assert verdict(node("n1"), running, ports=[wanted]) == ("fits" if fits else PORTS)


def test_host_ports_of_pods_placed_in_the_cycle_are_taken() -> None:
    plan = plan_of(node("n1"), node("n2"), gang("g", 3, 1, ports=[port(80)]), conf=FILTERS)
    assert binds(plan) == {"g-w-0": "n1", "g-w-1": "n2"}
    assert pending(plan)["g-w-2"].message == f"0/2 nodes are unavailable: 2 {PORTS}."


def test_host_ports_of_a_gang_that_is_undone_are_free_again() -> None:
    too_many: list[Objects] = [
        group("a", minimum=3, created=0),
        [pod(f"a-w-{i}", "a", ports=[port(80)]) for i in range(3)],
    ]
    plan = plan_of(node("n1"), node("n2"), too_many, gang("b", 2, created=1, ports=[port(80)]), conf=FILTERS)
    assert sorted(binds(plan)) == ["b-w-0", "b-w-1"]


def test_sidecars_take_ports_and_other_init_containers_do_not() -> None:
    init = {"name": "i", "ports": [port(80)]}
    running = [group("r"), pod("r-0", "r", node="n1", initContainers=[init])]
    assert verdict(node("n1"), running, ports=[port(80)]) == "fits"
    running[1] = pod("r-0", "r", node="n1", initContainers=[init | {"restartPolicy": "Always"}])
    assert verdict(node("n1"), running, ports=[port(80)]) == PORTS


@pytest.mark.parametrize(("phase", "fits"), [("Running", False), ("Succeeded", True), ("Failed", True)])
def test_pods_that_have_ended_hold_no_ports(phase: str, fits: bool) -> None:
    running = [group("r"), pod("r-0", "r", node="n1", phase=phase, ports=[port(80)])]
    assert verdict(node("n1"), running, ports=[port(80)]) == ("fits" if fits else PORTS)


# --- pod slots


def test_a_node_that_is_full_of_pods() -> None:
    running = [group("r"), pod("r-0", "r", node="n1")]
    assert verdict(node("n1", pods=1), running) == "Insufficient pods"
    assert verdict(node("n1", pods=2), running) == "fits"
    ended = [group("r"), pod("r-0", "r", node="n1", phase="Succeeded")]
    assert verdict(node("n1", pods=1), ended) == "fits"


# --- which reason is given


@pytest.mark.parametrize(
    ("on", "spec", "reason"),
    [
        pytest.param(
            node("n1", unschedulable=True, taints=["a=b:NoSchedule"]),
            {"nodeSelector": {"x": "y"}},
            UNSCHEDULABLE,
            id="the cordon before all others",
        ),
        pytest.param(
            node("n1", taints=["a=b:NoSchedule"]), {"nodeSelector": {"x": "y"}}, AFFINITY, id="affinity before taints"
        ),
        pytest.param(node("n1", cpu=0, unschedulable=True), {}, "Insufficient cpu", id="room before the filters"),
    ],
)
def test_of_several_reasons_the_first_is_given(on: Objects, spec: Data, reason: str) -> None:
    assert verdict(on, **spec) == reason


def test_reasons_are_counted_over_the_nodes() -> None:
    nodes = [
        node("n1", cpu=0),
        node("n2", cpu=0),
        node("n3", unschedulable=True),
        node("n4", taints=["a=b:NoSchedule"]),
        node("n5", memory=0),
    ]
    plan = plan_of(*nodes, gang("g", 1), conf=FILTERS)
    text = f"0/5 nodes are unavailable: 1 Insufficient memory, 1 {TAINT}, 1 {UNSCHEDULABLE}, 2 Insufficient cpu."
    assert pending(plan)["g-w-0"].message == text


# --- switches


@pytest.mark.parametrize(
    ("key", "on", "spec"),
    [
        pytest.param("predicate.NodeAffinityEnable", node("n1"), {"nodeSelector": {"a": "b"}}, id="node affinity"),
        pytest.param("predicate.TaintTolerationEnable", node("n1", taints=["a=b:NoSchedule"]), {}, id="taints"),
        pytest.param("predicate.NodePortsEnable", node("n1"), {"ports": [port(80)]}, id="ports"),
    ],
)
def test_switches(key: str, on: Objects, spec: Data) -> None:
    running = [group("r"), pod("r-0", "r", node="n1", ports=[port(80)])]
    assert verdict(on, running, **spec) != "fits"
    for off in (False, "false"):
        switched = conf("allocate", ["gang"], [plugin("predicates", {key: off})])
        assert verdict(on, running, conf=switched, **spec) == "fits"


def test_the_cordon_cannot_be_switched_off() -> None:
    keys = ("NodeAffinity", "TaintToleration", "NodePorts", "PodAffinity", "PodTopologySpread")
    all_off = conf("allocate", ["gang"], [plugin("predicates", {f"predicate.{key}Enable": False for key in keys})])
    assert verdict(node("n1", unschedulable=True), conf=all_off) == UNSCHEDULABLE


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        pytest.param({"predicate.TaintTolerationEnable": 1}, "takes true or false", id="a wrong type"),
        pytest.param({"predicate.TaintTolerationEnabled": False}, "did you mean", id="an unknown key"),
        pytest.param({"predicate.GPUSharingEnable": True}, "deviceshare.GPUSharingEnable", id="a key that has moved"),
        pytest.param({"predicate.GPUNumberEnable": False}, "off is its default: remove it", id="one that is off"),
    ],
)
def test_arguments_that_are_wrong_are_warned_about_and_change_nothing(arguments: Data, fault: str) -> None:
    wrong = conf("allocate", ["gang"], [plugin("predicates", arguments)])
    plan = plan_of(node("n1", taints=["a=b:NoSchedule"]), gang("g", 1), conf=wrong)
    assert binds(plan) == {}
    assert [fault in f.message for f in plan.findings if f.where == "plugin predicates"] == [True]


def test_the_flag_of_the_plugin_switches_all_filters_off() -> None:
    off = conf("allocate", ["gang"], [plugin("predicates", enablePredicate=False)])
    assert verdict(node("n1", unschedulable=True, taints=["a=b:NoSchedule"]), conf=off) == "fits"
