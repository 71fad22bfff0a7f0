"""The plugin deviceshare on nodes whose cards are split into MIG instances."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.test_deviceshare import RECORD, record, running, shares, vgpu, vgpu_node, waiting
from kilauea.api.devices import mig_instance, read_record
from kilauea.api.meta import Object
from kilauea.engine.cycle import cycle
from kilauea.simulator.cluster import SimulatedCluster
from support.builders import NOW, binds, build, codes, flat, parsed, pending, plan_of, priority_class, queue, state_of

CONFIG = """
nvidia:
  knownMigGeometries:
  - models: [TEST-A]
    allowedGeometries:
    - group: group1
      geometries:
      - {name: 1g.10gb, memory: 10, count: 3}
    - group: group2
      geometries:
      - {name: 2g.20gb, memory: 20, count: 1}
      - {name: 1g.10gb, memory: 10, count: 1}
    - group: group3
      geometries:
      - {name: 3g.30gb, memory: 30, count: 1}
"""


def config(text: str = CONFIG, name: str = "volcano-vgpu-device-config") -> Object:
    """The ConfigMap of the devices."""
    metadata = {"name": name, "namespace": "kube-system"}
    return build({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"device-config.yaml": text}})


def mig_node(name: str = "n", cards: int = 1, model: str = "NVIDIA-TEST-A", memory: int = 30) -> Object:
    text = "".join(f"{name}-{i},7,{memory},{model},true,mig:" for i in range(cards))
    return vgpu_node(name, cards, memory, slots=7, register=text)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(10, "n-0[0-0],NVIDIA,10,0:", id="the first group that has an instance of that size"),
        pytest.param(4, "n-0[0-0],NVIDIA,10,0:", id="an amount between two sizes takes the larger one"),
        pytest.param(11, "n-0[1-0],NVIDIA,20,0:", id="a larger one is in the second group"),
        pytest.param(30, "n-0[2-0],NVIDIA,30,0:", id="all memory of the card"),
        pytest.param(0, "n-0[2-0],NVIDIA,30,0:", id="no amount is all memory of the card"),
        pytest.param(31, None, id="more than any instance has"),
    ],
)
def test_a_pod_gets_the_smallest_instance_that_is_large_enough(asked: int, expected: str | None) -> None:
    plan = plan_of(config(), mig_node(), waiting("p", memory=asked), conf=shares())
    assert record(plan, "p") == expected


@pytest.mark.parametrize(
    ("there", "asked", "expected"),
    [
        pytest.param("n-0[0-0],NVIDIA,10,0:", 10, "n-0[0-1],NVIDIA,10,0:", id="the next instance of the same split"),
        pytest.param("n-0[0-0],NVIDIA,10,0:", 20, None, id="a split card is not split in another way"),
        pytest.param("n-0[1-0],NVIDIA,20,0:", 5, "n-0[1-1],NVIDIA,10,0:", id="the small one beside the large one"),
        pytest.param("n-0[1-1],NVIDIA,10,0:", 5, "n-0[1-0],NVIDIA,20,0:", id="the large one where the small is taken"),
        pytest.param("n-0[2-0],NVIDIA,30,0:", 1, None, id="no instance is left"),
    ],
)
def test_the_first_pod_on_a_card_decides_how_it_is_split(there: str, asked: int, expected: str | None) -> None:
    memory = int(there.split(",")[2])
    plan = plan_of(config(), mig_node(), running("a", there, memory=memory), waiting("p", memory=asked), conf=shares())
    assert record(plan, "p") == expected


def test_pods_of_one_cycle_get_different_instances_and_those_that_find_none_wait() -> None:
    plan = plan_of(config(), mig_node(cards=1), [waiting(f"p{i}", memory=10) for i in range(5)], conf=shares())
    found = sorted(filter(None, (record(plan, f"p{i}") for i in range(5))))
    assert found == [f"n-0[0-{i}],NVIDIA,10,0:" for i in range(3)]


def test_a_card_in_mode_mig_goes_only_to_pods_that_want_no_other_mode() -> None:
    hami, mig = ({"volcano.sh/vgpu-mode": mode} for mode in ("hami-core", "mig"))
    there = [config(), mig_node("m"), vgpu_node("v", 1)]
    plan = plan_of(
        there, waiting("p", memory=1, annotations=mig), waiting("q", memory=1, annotations=hami), conf=shares()
    )
    assert binds(plan) == {"p": "m", "q": "v"}


def test_the_geometries_of_known_models_need_no_configuration() -> None:
    plan = plan_of(mig_node(model="NVIDIA-A100-SXM4-40GB", memory=40960), waiting("p", memory=5000), conf=shares())
    assert record(plan, "p") == "n-0[0-0],NVIDIA,5120,0:"


def test_a_node_of_a_model_without_a_geometry_is_passed_over_by_name() -> None:
    plan = plan_of(
        config(), mig_node("bad", model="NVIDIA-OTHER"), mig_node("good"), waiting("p", memory=1), conf=shares()
    )
    assert binds(plan) == {"p": "good"}
    (found,) = [f for f in plan.findings if f.code == "DeviceAnnotations"]
    assert found.where == "node bad"
    assert "no geometry of model 'NVIDIA-OTHER' is known" in found.message


def test_another_config_map_can_be_named() -> None:
    plan = plan_of(config(name="mine"), mig_node(), waiting("p", memory=10), conf=shares(KnownGeometriesCMName="mine"))
    assert record(plan, "p") == "n-0[0-0],NVIDIA,10,0:"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[1]", "it is not a map of nvidia and vnpus", id="a list"),
        pytest.param("nvidia: 7", "nvidia is not a map", id="a number for a map"),
        pytest.param("a: [", "not valid YAML", id="no YAML"),
        pytest.param("nvidia: {defaultMemory: -1}", "nvidia.defaultMemory is '-1'", id="a negative number"),
        pytest.param("nvidia: {knownMigGeometries: {}}", "knownMigGeometries is not a list", id="a map for a list"),
        pytest.param("nvidia: {knownMigGeometries: [{models: [A]}]}", "[0] has no instances", id="no instances"),
        pytest.param(
            "nvidia: {resourceMemoryName: gpumem}",
            "nvidia.resourceMemoryName is 'gpumem', not the name of a resource",
            id="a resource without a domain",
        ),
        pytest.param("vnpus: [{}]", "vnpus[0] has no commonWord", id="a chip without a name"),
        pytest.param("#" * 2_000_000, "more than 1048576", id="two megabytes"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_named_and_the_cycle_goes_on(text: str, expected: str) -> None:
    plan = plan_of(config(text), vgpu_node("n"), waiting("p", memory=1), conf=shares())
    assert binds(plan) == {"p": "n"}
    (found,) = [f for f in plan.findings if f.code == "DeviceConfig"]
    assert found.where == "configmap kube-system/volcano-vgpu-device-config"
    assert expected in found.message


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        pytest.param("nvidia: {defaultMemory: 7, defaultCores: 3}", {}, "n-1,NVIDIA,7,3:", id="defaults"),
        pytest.param("nvidia: {defaultMemory: 7}", {"memory": 9}, "n-1,NVIDIA,9,0:", id="what the pod says"),
        pytest.param("nvidia: {gpuMemoryFactor: 10}", {"memory": 9}, "n-1,NVIDIA,90,0:", id="units of ten MiB"),
    ],
)
def test_the_configuration_says_what_a_pod_gets_that_does_not(text: str, asked: dict[str, int], expected: str) -> None:
    plan = plan_of(config(text), vgpu_node("n"), waiting("p", **asked), conf=shares())
    assert record(plan, "p") == expected


@pytest.mark.parametrize(
    "text", ["n-0[0-9],NVIDIA,10,0:", "n-0,NVIDIA,10,0:", "n-0[9-0],NVIDIA,10,0:", "n-0[a],NVIDIA,1,0:"]
)
def test_a_pod_whose_record_names_no_instance_counts_where_a_new_one_would_go(text: str) -> None:
    plan = plan_of(config(), mig_node(), running("a", text, memory=10), waiting("p", memory=10), conf=shares())
    assert record(plan, "p") == "n-0[0-1],NVIDIA,10,0:"


def test_a_pod_that_finds_no_instance_waits_with_a_reason() -> None:
    first = running("a", "n-0[1-0],NVIDIA,20,0:", memory=20)
    second = running("b", "n-1[1-0],NVIDIA,20,0:", memory=20)
    plan = plan_of(config(), mig_node(cards=2), first, second, waiting("p", memory=20), conf=shares())
    assert codes(plan) == {"p": "Unschedulable"}
    assert "no cards with enough free memory, cores and slots" in pending(plan)["p"].message


# --- over time


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from([1, 10, 20, 30]), st.booleans(), st.integers(1, 2)), min_size=1, max_size=9),
    st.integers(1, 3),
    st.sampled_from(["", "binpack", "spread"]),
)
def test_no_instance_is_given_out_twice_over_cycles_evictions_and_restarts(
    asks: list[tuple[int, bool, int]], cards: int, policy: str
) -> None:
    usable = parsed(shares(policy, 1))[0]
    objects: list[Any] = [
        queue("q"),
        priority_class("low", 1),
        priority_class("high", 9),
        config(),
        mig_node(cards=cards),
    ]
    cluster = SimulatedCluster(flat(objects), NOW)
    for wave, (memory, high, number) in enumerate(asks):
        priority = 9 if high else 1
        made = vgpu(f"p{wave}", memory, number=number, priority=priority)
        cluster.put(*flat([waiting(f"p{wave}", memory=memory)[0], made]))
        for _ in range(2):
            plan = cycle(state_of(cluster.objects), usable, cluster.now)
            assert [f for f in plan.findings if f.error] == []
            cluster.carry_out(plan)
            _check_instances(cluster.objects)


def _check_instances(objects: Any) -> None:
    """No instance is given out twice, and no card is split in two ways."""
    taken: set[str] = set()
    groups: dict[str, int] = {}
    for each in objects:
        if each.kind != "Pod" or not each.spec.node_name:
            continue
        for part in read_record(each.annotations[RECORD])[0]:
            assert part.card not in taken
            taken.add(part.card)
            found = mig_instance(part.card)
            assert found is not None
            assert groups.setdefault(found[0], found[1]) == found[1]
