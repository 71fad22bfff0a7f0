"""The device plugin of a simulated node for Ascend 310P chips that it splits on demand (MindCluster).

A node with the label `servertype` (`Ascend310P-8`) that offers `huawei.com/npu-core` has such chips. A pod that
requests cores gets the chips in its annotation of that name, whole or by a template, if they are on the node, match its
request, and are not in use by pods that run there. Otherwise it fails with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from kilauea.api.devices import NPU_CORES
from kilauea.api.npus import CHIP_IMAGES, CHIP_PROCESSORS, SERVER, Given, chip_count, read_given
from kilauea.api.ports import Obj
from kilauea.api.quantity import QuantityError, amount
from kilauea.nodes.annotations import annotations_of

_UNIT = 1000


def chips_of(node: Obj) -> tuple[int, int]:
    """Return the number of chips of a node and the cores of each."""
    labels = node["metadata"].get("labels") or {}
    if SERVER not in labels:
        return 0, 0
    status = node.get("status") or {}
    offered = (status.get("allocatable") or status.get("capacity") or {}).get(NPU_CORES, 0)
    try:
        return chip_count(labels[SERVER], amount(NPU_CORES, offered) // _UNIT)
    except (QuantityError, TypeError):
        return 0, 0


def refusal(pod: Obj, node: Obj, cores: int, before: Sequence[Obj]) -> str:
    """The reason why a node cannot give a pod its chips; empty if it can, or if the node has no such chips.

    Args:
        pod: the pod that starts on the node.
        node: the node.
        cores: cores that the pod requests.
        before: the pods on the node that have their chips.
    """
    count, each = chips_of(node)
    name = node["metadata"]["name"]
    if not count:
        return ""
    text = annotations_of(pod).get(NPU_CORES)
    if text is None:
        return f"the pod has no annotation {NPU_CORES}: its scheduler has given it no chip (plugin deviceshare)"
    given = read_given(text, count)
    if given is None or (given.split is not None and len(given.chips) != 1):
        return f"annotation {NPU_CORES} is {text[:80]!r}, which names no chips of the {count} of node {name}"
    size = given.split.cores if given.split is not None else len(given.chips) * each
    if size != cores:
        return f"the pod asks for {cores} cores, annotation {NPU_CORES} gives it {size}"
    held = [known for other in before if (known := read_given(annotations_of(other).get(NPU_CORES, ""), count))]
    for chip in given.chips:
        uses = [_taken(one, each) for one in (*held, given) if chip in one.chips]
        if any(sum(used) > most for used, most in zip(zip(*uses, strict=True), _chip(each), strict=True)):
            return f"chip {chip} of node {name} has no room: {len(uses)} pods would share it, with more than it has"
    return ""


def _chip(cores: int) -> tuple[int, int, int]:
    """Cores, processors and image units of a chip."""
    return cores, CHIP_PROCESSORS, CHIP_IMAGES


def _taken(given: Given, cores: int) -> tuple[int, int, int]:
    """Cores, processors and image units in use on each chip."""
    return _chip(cores) if given.split is None else given.split[1:]
