"""Annotations of devices that are malformed, huge or stale never stop a cycle: other nodes and pods go on."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.test_deviceshare import RECORD, shares, vgpu, vgpu_node, waiting
from engine.test_mig import config
from kilauea.api.device_config import device_config
from kilauea.nodes.devices import families_of, offered, refusal
from support.builders import binds, group, node, plan_of, pod

VALID = [
    "a,10,32768,NVIDIA-A100,true,hami-core:",
    "a,7,40960,NVIDIA-A100-SXM4-40GB,true,mig:",
    "a,10,100,NVIDIA,true,hami-core:b,10,100,NVIDIA,false,hami-core:",
    "n-0,NVIDIA,8192,30:",
    "n-0[0-1],NVIDIA,8192,30:;n-1,NVIDIA,1,1:",
    '[{"id":"npu-0","count":7,"devmem":21527,"type":"Ascend310P","custominfo":{"NetworkID":1}}]',
    "2026-01-01T00:00:00Z",
    "true",
    "",
]


@st.composite
def mangled(draw: st.DrawFn) -> str:
    """A text that a device plugin might write, with something wrong in it; or anything."""
    if draw(st.booleans()):
        return draw(st.text(max_size=60))
    text = draw(st.sampled_from(VALID))
    at = draw(st.integers(0, len(text)))
    piece = draw(st.sampled_from(["", ":", ",", ";", "[", "]", "-1", "9" * 30, "\x00", "é", "NaN", "null", "1e9", "{"]))
    return (text[:at] + piece + text[at + draw(st.integers(0, 3)) :]) * draw(st.sampled_from([1, 1, 1, 2, 200]))


SHARED = ["volcano.sh/node-vgpu-register", "hami.io/node-register-Ascend310P", "volcano.sh/gpu-unhealthy-ids"]
NODE_KEYS = [*SHARED, "hami-vnpu-core", "hamivgpu", "gpu", "hami.io/mutex.lock"]
POD_KEYS = [
    RECORD,
    "volcano.sh/vgpu-mode",
    "volcano.sh/vgpu-use-gpuuuid",
    "nvidia.com/use-gputype",
    "volcano.sh/vgpu-podgroup-policy",
    "huawei.com/vnpu-mode",
    "hami.io/Ascend310P-devices-allocated",
    "volcano.sh/gpu-index",
]
OFFERS = {
    "volcano.sh/vgpu-number": 10,
    "volcano.sh/vgpu-memory": 10**6,
    "volcano.sh/vgpu-cores": 1000,
    "volcano.sh/gpu-memory": 100,
    "volcano.sh/gpu-number": 4,
    "huawei.com/Ascend310P": 10,
    "huawei.com/Ascend310P-memory": 10**6,
}


@given(
    st.dictionaries(st.sampled_from(NODE_KEYS), mangled(), max_size=4),
    st.lists(st.dictionaries(st.sampled_from(POD_KEYS), mangled(), max_size=3), max_size=3),
    st.sampled_from([{}, {"volcano.sh/gpu-memory": 5}, {"huawei.com/Ascend310P": 1}, {"volcano.sh/vgpu-number": 2}]),
)
def test_a_node_and_pods_with_mangled_annotations_do_not_hold_up_the_others(
    marks: dict[str, str], held: list[dict[str, str]], asked: dict[str, int]
) -> None:
    bad = node("bad", 64, resources=OFFERS, annotations=marks)
    there: list[Any] = [group(f"h{i}", phase="Running") for i in range(len(held))]
    there += [vgpu(f"h{i}", 5, node="bad", annotations=each) for i, each in enumerate(held)]
    more = [[group(f"w{i}"), vgpu(f"w{i}", 5, annotations=each)] for i, each in enumerate(held)]
    odd = [group("odd"), pod("odd", "odd", requests={"cpu": "1"} | asked, annotations=held[0] if held else {})]
    chosen = {"volcano.sh/vgpu-use-gpuuuid": "good-0,better-0"}
    plan = plan_of(
        bad,
        vgpu_node("good"),
        vgpu_node("better"),
        there,
        waiting("p", memory=7, annotations=chosen),
        more,
        odd,
        conf=shares("binpack", 1, NodeLockEnable=True),
    )
    assert [finding for finding in plan.findings if finding.error] == []
    assert binds(plan)["p"] in ("good", "better")


FIELDS = (
    "nvidia vnpus configs models knownMigGeometries allowedGeometries geometries templates commonWord resourceName "
    "memory count gpuMemoryFactor"
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(max_value=3) | st.text(max_size=5),
    lambda of: st.lists(of, max_size=3) | st.dictionaries(st.sampled_from(FIELDS.split()), of, max_size=4),
    max_leaves=12,
)


@given(mangled() | TREES.map(json.dumps))
def test_any_text_of_a_configuration_is_read(text: str) -> None:
    assert device_config(text).factor >= 1
    plan = plan_of(config(text), vgpu_node("n"), waiting("p", annotations={}), conf=shares())
    assert [finding for finding in plan.findings if finding.error] == []
    assert binds(plan) == {"p": "n"}


@given(
    st.dictionaries(st.sampled_from(SHARED), mangled(), max_size=2),
    st.dictionaries(st.sampled_from(POD_KEYS), mangled(), max_size=3),
)
def test_the_device_plugin_of_a_simulated_node_reads_any_annotations(
    marks: dict[str, str], notes: dict[str, str]
) -> None:
    there = {"metadata": {"name": "n", "annotations": marks}}
    limits = {"volcano.sh/vgpu-number": "1", "huawei.com/Ascend310P": "1"}
    container = {"name": "c", "resources": {"limits": limits}}
    made = {"metadata": {"name": "p", "uid": "p", "annotations": notes}, "spec": {"containers": [container]}}
    assert isinstance(refusal(made, there, []), str)
    assert len(offered(there)) >= len(families_of(there))
