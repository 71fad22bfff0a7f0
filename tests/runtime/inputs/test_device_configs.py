"""The ConfigMap of shared devices that a plan of a live cluster reads."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.kinds import CONFIG_MAPS, NAMESPACES
from kilauea.runtime.inputs.snapshot import read_snapshot
from support.live_world import live_world

CONF = """
actions: allocate
tiers:
- plugins:
  - name: deviceshare
    arguments: {ARGUMENTS}
"""
NAMED = "{deviceshare.KnownGeometriesCMName: ours, deviceshare.KnownGeometriesCMNamespace: default}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", ["kube-system/volcano-vgpu-device-config"], id="no configuration in the cluster"),
        pytest.param(
            CONF.replace("{ARGUMENTS}", "{}"), ["kube-system/volcano-vgpu-device-config"], id="no name is given"
        ),
        pytest.param(
            CONF.replace("{ARGUMENTS}", NAMED),
            ["default/ours", "kube-system/volcano-vgpu-device-config"],
            id="the configuration names another",
        ),
        pytest.param(
            CONF.replace("{ARGUMENTS}", "{deviceshare.KnownGeometriesCMName: gone}"),
            ["kube-system/volcano-vgpu-device-config"],
            id="the one that it names is not there",
        ),
        pytest.param("a: [", ["kube-system/volcano-vgpu-device-config"], id="the configuration is not YAML"),
    ],
)
def test_a_snapshot_has_the_config_map_of_devices_that_the_scheduler_reads(text: str, expected: list[str]) -> None:
    with live_world() as live:
        data: dict[str, Any] = {"data": {"device-config.yaml": "nvidia: {}"}}
        live.create(CONFIG_MAPS, "ours", **data)
        live.create(CONFIG_MAPS, "volcano-vgpu-device-config", namespace="kube-system", **data)
        if text:
            live.create(NAMESPACES, "volcano-system")
            scheduler = {"data": {"volcano-scheduler.conf": text}}
            live.create(CONFIG_MAPS, "volcano-scheduler-configmap", namespace="volcano-system", **scheduler)
        found = live.world.run(read_snapshot(live.calm))
    assert sorted(obj.key for obj in found.objects if obj.kind == "ConfigMap") == expected
