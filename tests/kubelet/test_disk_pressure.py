"""While the disk of the cluster's folder is nearly full, the pods that fill it are evicted, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilauea.api.kinds import PRIORITY_CLASSES
from kilauea.api.ports import ApiError
from kilauea.kubelet.disk_pressure import HOLD_SECONDS, LOOK_SECONDS, MOST
from kilauea.kubelet.storage import measurer
from support.kubelets import KubeletWorld, Space, kubelet_world, pod, until_removed

MIB = 1 << 20
ENOUGH, LOW = Space(1 << 40, MOST), Space(1 << 40, MOST - 1)


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[KubeletWorld]:
    with kubelet_world(tmp_path) as world:
        yield world


def fills(name: str, request: str = "0", **fields: Any) -> dict[str, Any]:
    """A pod with a volume, and a request for disk space."""
    resources = {"requests": {"ephemeral-storage": request}} if request != "0" else {}
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    main = {"resources": resources, "volumeMounts": mounts}
    return pod(name, volumes=[{"name": "scratch", "emptyDir": {}}], main=main, **fields)


def write(kubelet: KubeletWorld, **mebibytes: int) -> dict[str, Path]:
    """Write so much to the volumes of pods; returns their files."""
    found = {}
    for run in kubelet.runtime.started:
        for name, size in mebibytes.items():
            if run.pod == kubelet.pod(name)["metadata"]["uid"]:
                (mount,) = [each for each in run.mounts if each.target == "/scratch"]
                found[name] = Path(mount.source) / "big"
                found[name].write_bytes(b"x" * (size * MIB))
    return found


def look(kubelet: KubeletWorld) -> None:
    """Let the kubelet look at the disk a few times, and do what follows."""
    for _ in range(30):
        kubelet.wait(LOOK_SECONDS)
        until_removed()
        measurer.submit(int).result()
    kubelet.wait(LOOK_SECONDS)


def phases(kubelet: KubeletWorld, *names: str) -> list[str]:
    return [kubelet.phase(name) for name in names]


def test_the_pod_that_fills_the_disk_is_evicted_and_its_files_are_removed(kubelet: KubeletWorld) -> None:
    kubelet.create(fills("large"), fills("small"))
    kubelet.space = Space(1 << 40, MOST + 5 * MIB)
    files = write(kubelet, large=3, small=2)
    look(kubelet)
    assert phases(kubelet, "large", "small") == ["Running", "Running"]
    kubelet.space = Space(1 << 40, MOST + 5 * MIB - 1024)
    look(kubelet)
    assert phases(kubelet, "large", "small") == ["Failed", "Running"]
    assert (files["large"].exists(), files["small"].exists()) == (False, True)
    status = kubelet.pod("large")["status"]
    expected = (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 1048576Ki, available: 1048575Ki. "
        "The pod was using 3072Ki, its request is 0Ki. "
    )
    assert (status["reason"], status["message"]) == ("Evicted", expected)
    assert f"Evicted: {expected}" in kubelet.events("large")


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(fills("a", "9Mi"), fills("b"), id="pods that use more than they request go first"),
        pytest.param(fills("a", priorityClassName="high"), fills("b"), id="then those of low priority"),
        pytest.param(fills("a", "3Mi"), fills("b"), id="then those that use most beyond their request"),
        pytest.param(fills("a", priorityClassName="system-node-critical"), fills("b"), id="critical pods stay"),
    ],
)
def test_pods_are_evicted_in_the_order_of_kubelets(
    kubelet: KubeletWorld, first: dict[str, Any], then: dict[str, Any]
) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}
    kubelet.world.run(kubelet.world.calm.create(PRIORITY_CLASSES, "", high))
    kubelet.create(first, then)
    kubelet.space = Space(1 << 40, MOST + 5 * MIB)
    write(kubelet, a=4, b=2)
    look(kubelet)
    assert phases(kubelet, "a", "b") == ["Running", "Failed"]


def test_one_pod_after_the_other_goes_until_there_is_room(kubelet: KubeletWorld) -> None:
    kubelet.create(fills("a"), fills("b"), fills("idle"))
    write(kubelet, a=3, b=2)
    kubelet.space = LOW
    for _ in range(3):
        look(kubelet)
    assert phases(kubelet, "a", "b") == ["Failed", "Failed"]
    assert phases(kubelet, "idle") == ["Running"], "its end would free nothing"


def test_a_pod_is_evicted_even_if_the_disk_is_too_full_to_write_its_status(
    kubelet: KubeletWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubelet.create(fills("a"))
    file = write(kubelet, a=3)["a"]
    kubelet.space = LOW

    async def full(*_: Any, **__: Any) -> bytes:
        raise ApiError(500, "InternalError", "the write could not be stored: database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(kubelet.world.calm, "patch", full)
        look(kubelet)
        assert not file.exists()
    kubelet.space = ENOUGH
    look(kubelet)
    assert kubelet.pod("a")["status"]["reason"] == "Evicted"


def test_a_pod_that_takes_long_to_end_holds_up_no_eviction(kubelet: KubeletWorld) -> None:
    kubelet.create(fills("slow", argv=("run", "forever", "stubborn")), fills("large"))
    write(kubelet, slow=2, large=3)
    kubelet.delete("slow", 3600)
    kubelet.space = LOW
    look(kubelet)
    assert phases(kubelet, "large") == ["Failed"]


def test_the_next_pod_is_evicted_while_the_status_of_the_first_cannot_be_written(
    kubelet: KubeletWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubelet.create(fills("a"), fills("b"))
    files = write(kubelet, a=3, b=2)
    kubelet.space = LOW

    async def full(*_: Any, **__: Any) -> bytes:
        raise ApiError(500, "InternalError", "the write could not be stored: database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(kubelet.world.calm, "patch", full)
        look(kubelet)
        assert not any(each.exists() for each in files.values())


def test_the_pressure_is_reported_for_some_minutes_after_its_end(kubelet: KubeletWorld) -> None:
    assert not kubelet.has_disk_pressure()
    kubelet.space = LOW
    look(kubelet)
    assert kubelet.has_disk_pressure()
    kubelet.space = ENOUGH
    look(kubelet)
    assert kubelet.has_disk_pressure()
    kubelet.wait(HOLD_SECONDS)
    assert not kubelet.has_disk_pressure()


def test_a_small_disk_is_nearly_full_below_a_tenth(kubelet: KubeletWorld) -> None:
    kubelet.space = Space(1000, 100)
    look(kubelet)
    assert not kubelet.has_disk_pressure()
    kubelet.space = Space(1000, 99)
    look(kubelet)
    assert kubelet.has_disk_pressure()
