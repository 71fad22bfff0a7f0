"""The plugin deviceshare on Ascend 310P chips that are split as pods come (`huawei.com/npu-core`)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.test_deviceshare import shares, vgpu_node
from engine.test_deviceshare import waiting as asking_vgpu
from kilauea.api.meta import Object
from kilauea.api.npus import SPLITS
from kilauea.engine.cycle import cycle
from kilauea.engine.plan import Plan
from kilauea.simulator.cluster import SimulatedCluster
from support.builders import (
    NOW,
    Data,
    Objects,
    binds,
    codes,
    flat,
    group,
    node,
    parsed,
    pending,
    plan_of,
    pod,
    priority_class,
    queue,
    state_of,
)

CORES = "huawei.com/npu-core"


def dynamic(**more: Any) -> Data:
    return shares(AscendMindClusterVNPUEnable=True, **more)


def machine(name: str = "n", chips: int = 2, server: str = "Ascend310P-8") -> Object:
    return node(name, 64, resources={CORES: chips * 8}, labels={"servertype": server})


def npu(name: str, cores: int, level: str = "", images: str = "", **more: Any) -> Object:
    labels = {key: value for key, value in (("vnpu-level", level), ("vnpu-dvpp", images)) if value}
    return pod(name, name, requests={"cpu": "1", CORES: cores}, labels=labels, **more)


def waiting(name: str, cores: int, level: str = "", images: str = "") -> list[Object]:
    return [group(name), npu(name, cores, level, images)]


def running(name: str, record: str, cores: int, on: str = "n") -> list[Object]:
    return [group(name, phase="Running"), npu(name, cores, node=on, annotations={CORES: record})]


def chips(plan: Plan, name: str = "p") -> str | None:
    return next((dict(b.annotations).get(CORES) for b in plan.binds if b.pod == f"ns/{name}"), None)


@pytest.mark.parametrize(
    ("cores", "level", "images", "expected"),
    [
        pytest.param(1, "", "", "0-vir01", id="one core"),
        pytest.param(2, "", "", "0-vir02_1c", id="two cores"),
        pytest.param(2, "high", "", "0-vir02", id="two cores of a high level"),
        pytest.param(4, "", "", "0-vir04_3c", id="four cores"),
        pytest.param(4, "high", "", "0-vir04", id="four cores of a high level"),
        pytest.param(4, "", "yes", "0-vir04_4c_dvpp", id="four cores with all image units"),
        pytest.param(4, "high", "no", "0-vir04_3c_ndvpp", id="four cores without image units"),
        pytest.param(8, "", "", "0", id="a whole chip"),
        pytest.param(16, "", "", "0,1", id="two whole chips"),
        pytest.param(3, "", "", None, id="cores that no template has"),
        pytest.param(24, "", "", None, id="more chips than the node has"),
    ],
)
def test_cores_and_labels_of_a_pod_choose_its_template(
    cores: int, level: str, images: str, expected: str | None
) -> None:
    plan = plan_of(machine(), waiting("p", cores, level, images), conf=dynamic())
    assert chips(plan) == expected
    if expected:
        assert dict(plan.binds[0].annotations)["predicate-time"] == str(NOW * 1000)


@pytest.mark.parametrize(
    ("there", "asked", "expected"),
    [
        pytest.param(("1-vir02_1c", 2), (2, "", ""), "1-vir02_1c", id="the fullest chip comes first"),
        pytest.param(("0-vir04", 4), (8, "", ""), "1", id="a whole chip is one that no pod uses"),
        pytest.param(("0-vir04_4c_dvpp", 4), (4, "", "yes"), "1-vir04_4c_dvpp", id="all image units of a chip, once"),
        pytest.param(("0-vir04_4c_dvpp", 4), (4, "", "no"), "0-vir04_3c_ndvpp", id="no image units beside all of them"),
        pytest.param(("0", 8), (1, "", ""), "1-vir01", id="a whole chip is not shared"),
        pytest.param(("garbage", 8), (1, "", ""), "1-vir01", id="a record that cannot be read"),
        pytest.param(("7-vir01", 1), (1, "", ""), "0-vir01", id="a record of a chip that is not there"),
    ],
)
def test_chips_are_given_out_beside_those_that_pods_have(
    there: tuple[str, int], asked: tuple[int, str, str], expected: str
) -> None:
    plan = plan_of(machine(), running("a", *there), waiting("p", *asked), conf=dynamic())
    assert chips(plan) == expected


def test_a_pod_gets_fewer_processors_where_the_chip_has_no_more() -> None:
    there = machine(chips=1)
    plan = plan_of(there, running("a", "0-vir04", 4), waiting("p", 4, "high"), conf=dynamic())
    assert chips(plan) == "0-vir04_3c"


@pytest.mark.parametrize(
    ("there", "cores", "expected"),
    [
        pytest.param(machine(server="Ascend910-8"), 1, "no Ascend 310P chips", id="another kind of chip"),
        pytest.param(machine(server=""), 1, "no Ascend 310P chips", id="no label"),
        pytest.param(machine(), 3, "is neither 1, 2, 4", id="no template"),
    ],
)
def test_pods_that_no_node_can_serve_wait_with_the_reason(there: Object, cores: int, expected: str) -> None:
    plan = plan_of(there, waiting("p", cores), conf=dynamic())
    assert codes(plan) == {"p": "Unschedulable"}
    assert expected in pending(plan)["p"].message


def test_a_pod_that_finds_no_chip_evicts_one_of_lower_priority() -> None:
    low = [group("a", minimum=0, phase="Running"), npu("a", 8, node="n", annotations={CORES: "0"})]
    high = [priority_class("high", 9), group("p", priority="high"), npu("p", 2, priority=9)]
    plan = plan_of(machine(chips=1), low, high, conf=dynamic())
    assert [eviction.pod for eviction in plan.evictions] == ["ns/a"]


def test_several_templates_of_a_node_are_given_out_in_one_cycle() -> None:
    pods = [waiting("p", 4, "high"), waiting("q", 4, "high"), waiting("r", 2)]
    plan = plan_of(machine(), pods, conf=dynamic())
    assert [chips(plan, name) for name in "pqr"] == ["0-vir04", "1-vir04", "0-vir02_1c"]


def test_a_node_whose_chips_lack_processors_for_every_template_is_rejected() -> None:
    plan = plan_of(machine(chips=1), running("a", "0-vir04", 4), waiting("p", 4, "high", "yes"), conf=dynamic())
    assert codes(plan) == {"p": "Unschedulable"}


def test_the_sum_of_free_cores_is_not_enough() -> None:
    there = [running("a", "0-vir04_3c", 4), running("b", "1-vir04_3c", 4)]
    plan = plan_of(machine(), there, waiting("p", 8), conf=dynamic())
    assert codes(plan) == {"p": "Unschedulable"}
    assert "no chip with enough free cores" in pending(plan)["p"].message


def test_without_the_switch_the_pod_is_placed_by_the_sum_of_its_node() -> None:
    plan = plan_of(machine(), waiting("p", 1), conf=shares())
    assert (binds(plan), chips(plan)) == ({"p": "n"}, None)


@pytest.mark.parametrize(
    ("level", "weight", "expected"),
    [
        pytest.param("", 1, "b", id="the fullest node"),
        pytest.param("high", 1, "a", id="the fullest that gives all processors"),
        pytest.param("", 0, "a", id="no weight"),
    ],
)
def test_nodes_score_by_their_free_cores_and_the_processors_that_a_pod_gets(
    level: str, weight: int, expected: str
) -> None:
    there: Objects = [machine("a", 1), machine("b", 1), running("x", "0-vir04", 4, on="b")]
    plan = plan_of(there, waiting("p", 4, level), conf=dynamic(weight=weight))
    assert binds(plan) == {"p": expected}


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 2, 4, 8]),
            st.sampled_from(["", "high"]),
            st.sampled_from(["", "yes", "no"]),
            st.booleans(),
        ),
        min_size=1,
        max_size=10,
    )
)
def test_no_chip_is_given_out_twice_over_cycles_evictions_and_restarts(
    asks: list[tuple[int, str, str, bool]],
) -> None:
    usable = parsed(dynamic(weight=1))[0]
    objects: list[Any] = [queue("q"), priority_class("low", 1), priority_class("high", 9), machine()]
    cluster = SimulatedCluster(flat(objects), NOW)
    for wave, (cores, level, images, high) in enumerate(asks):
        made = npu(f"p{wave}", cores, level, images, priority=9 if high else 1)
        cluster.put(*flat([group(f"p{wave}"), made]))
        for _ in range(2):
            cluster.carry_out(cycle(state_of(cluster.objects), usable, cluster.now))
            _check(cluster.objects)


def _check(objects: Any) -> None:
    """No chip gives more than it has."""
    used: dict[int, list[tuple[int, int, int]]] = {}
    for each in objects:
        if each.kind == "Pod" and each.spec.node_name and each.status.phase not in ("Succeeded", "Failed"):
            numbers, _, name = each.annotations[CORES].partition("-")
            for number in map(int, numbers.split(",")):
                used.setdefault(number, []).append(SPLITS[name][1:] if name else (8, 7, 8))
    for amounts in used.values():
        cores, processors, images = map(sum, zip(*amounts, strict=True))
        assert (cores <= 8, processors <= 7, images <= 8) == (True, True, True)


def test_pods_with_chips_and_pods_with_vgpus_of_one_cycle_all_get_their_annotations() -> None:
    plan = plan_of(machine(), vgpu_node("gpu"), waiting("p", 2), asking_vgpu("q", memory=1000), conf=dynamic())
    notes = {bind.pod: dict(bind.annotations) for bind in plan.binds}
    assert notes["ns/p"][CORES] == "0-vir02_1c"
    assert notes["ns/q"]["volcano.sh/vgpu-ids-new"] == "gpu-1,NVIDIA,1000,0:"
