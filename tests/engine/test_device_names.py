"""Resources of vGPUs with other names, and the number of cards for a container that names none."""

from __future__ import annotations

from typing import Any

import pytest

from engine.test_deviceshare import RECORD, REGISTER, ascend_node, record, shares, vgpu_node
from engine.test_mig import config
from kilauea.api.meta import Object
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Changed, Gone
from support.builders import NOW, Objects, binds, flat, group, node, parsed, plan_of, pod, queue, state_of

NAMES = """
nvidia:
  resourceCountName: nvidia.com/gpu
  resourceMemoryName: nvidia.com/gpumem
  resourceCoreName: nvidia.com/gpucores
  resourceMemoryPercentageName: nvidia.com/gpumem-percentage
"""


ONE: dict[str, Any] = {"": 1}
"""A GPU, by a resource without an ending."""


def machine(cards: int = 2) -> Object:
    text = "".join(f"n-{i},10,100,NVIDIA-A100,true,hami-core:" for i in range(cards))
    offers = {"nvidia.com/gpu": 10 * cards, "nvidia.com/gpumem": 100 * cards, "nvidia.com/gpucores": 100 * cards}
    offers["nvidia.com/gpumem-percentage"] = 100 * cards
    return node("n", 64, resources=offers, annotations={REGISTER: text})


def asking(name: str = "p", prefix: str = "nvidia.com/gpu", **limits: Any) -> list[Object]:
    """A pod with its group; the limits are named by what follows the prefix."""
    asked: dict[str, Any] = {"cpu": "1"}
    asked |= {prefix + ending.replace("_", "-"): n for ending, n in limits.items()}
    return [group(name), pod(name, name, requests=asked)]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({"": 1, "mem": 30, "cores": 5}, "n-1,NVIDIA,30,5:", id="memory and cores"),
        pytest.param({"": 1}, "n-1,NVIDIA,100,0:", id="a number alone is all memory"),
        pytest.param({"mem": 30}, "n-1,NVIDIA,30,0:", id="memory alone is one card"),
        pytest.param({"": 1, "mem_percentage": 25}, "n-1,NVIDIA,25,0:", id="a percentage"),
    ],
)
def test_resources_of_the_names_in_the_config_map_ask_for_cards(limits: dict[str, Any], expected: str) -> None:
    plan = plan_of(config(NAMES), machine(), asking(**limits), conf=shares())
    assert record(plan, "p") == expected


def test_a_plain_gpu_is_no_vgpu_without_a_config_map_that_says_so() -> None:
    plan = plan_of(machine(), asking(**ONE), conf=shares())
    assert binds(plan) == {"p": "n"}
    assert dict(plan.binds[0].annotations) == {}


def test_the_usual_names_are_read_beside_those_of_the_config_map() -> None:
    plan = plan_of(config(NAMES), vgpu_node("n", 1, 100), asking(prefix="volcano.sh/vgpu-", memory=7), conf=shares())
    assert record(plan, "p") == "n-0,NVIDIA,7,0:"


def test_names_hold_for_pods_that_were_there_before_the_config_map_and_until_it_goes() -> None:
    usable = parsed(shares())[0]
    has = pod("a", "a", node="n", requests={"nvidia.com/gpu": 1}, annotations={RECORD: "n-1,NVIDIA,100,0:"})
    objects: Objects = [queue("q"), machine(), group("a", phase="Running"), has, asking(**ONE)]
    state = state_of(flat(objects))
    changed = config(NAMES)
    state.apply(Changed(changed))
    assert record(cycle(state, usable, NOW), "p") == "n-0,NVIDIA,100,0:"
    state.apply(Gone("ConfigMap", "kube-system/volcano-vgpu-device-config"))
    assert record(cycle(state, usable, NOW), "p") is None


@pytest.mark.parametrize(
    ("number", "limits", "expected"),
    [
        pytest.param(2, {"memory": 30}, "n-0,NVIDIA,30,0:n-1,NVIDIA,30,0:", id="memory alone is so many cards"),
        pytest.param(2, {"memory": 30, "number": 1}, "n-1,NVIDIA,30,0:", id="the container's own number counts"),
        pytest.param(0, {"memory": 30}, "n-1,NVIDIA,30,0:", id="at least one card"),
        pytest.param(3, {"memory": 30}, None, id="more cards than the node has"),
    ],
)
def test_a_container_that_names_no_number_gets_the_number_of_the_config_map(
    number: int, limits: dict[str, Any], expected: str | None
) -> None:
    text = f"nvidia: {{defaultGPUNum: {number}}}"
    plan = plan_of(config(text), vgpu_node("n", 2, 100), asking(prefix="volcano.sh/vgpu-", **limits), conf=shares())
    assert record(plan, "p") == expected
    assert [f for f in plan.findings if f.code == "DeviceConfig"] == []


# --- NPUs

CHIP = """
vnpus:
- chipName: 310P3
  commonWord: Ascend310P
  resourceName: {number}
  resourceMemoryName: {memory}
  memoryAllocatable: 21527
  memoryCapacity: 24576
  templates:
  - {{name: vir01, memory: 3072}}
"""
NPU_RECORD = "hami.io/Ascend310P-devices-allocated"


@pytest.mark.parametrize(
    ("number", "memory"),
    [
        pytest.param("example.com/npu", "example.com/npu-mem", id="both named otherwise"),
        pytest.param("huawei.com/Ascend310P", "example.com/npu-mem", id="only the memory"),
        pytest.param("example.com/npu", "huawei.com/Ascend310PMem", id="the memory looks like a number of chips"),
    ],
)
def test_resources_of_the_names_in_the_config_map_ask_for_npus(number: str, memory: str) -> None:
    there = node("n", 64, resources={number: 14, memory: 2 * 21527}, annotations=dict(ascend_node().annotations))
    wants = [group("p"), pod("p", "p", requests={"cpu": "1", number: 1, memory: 1000})]
    plan = plan_of(config(CHIP.format(number=number, memory=memory)), there, wants, conf=shares())
    assert record(plan, "p", NPU_RECORD) == "npu-0,Ascend310P,3072,0:"


def test_a_resource_that_no_config_map_names_asks_for_no_npu() -> None:
    there = node("n", 64, resources={"example.com/npu": 14}, annotations=dict(ascend_node().annotations))
    wants = [group("p"), pod("p", "p", requests={"cpu": "1", "example.com/npu": 1})]
    plan = plan_of(there, wants, conf=shares())
    assert binds(plan) == {"p": "n"}
    assert record(plan, "p", NPU_RECORD) is None
