"""The device plugin of a simulated node: resources of its cards, and the check of cards assigned to pods.

A Node that registers cards in an annotation, as device plugins write it, offers their resources. When a pod that
requests such resources starts, the cards in its annotations are checked like by a device plugin: they must exist,
belong to this node, match the number that each container requests, and not be in use by pods that run here. A pod with
invalid annotations fails, with the reason; for one that starts, the phase of its bind becomes `success`, and the lock
of its node is released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kilauea.api import devices
from kilauea.api.devices import Card, DeviceTextError, Slice, mig_instance
from kilauea.api.numbers import plural
from kilauea.api.ports import Obj
from kilauea.api.quantity import QuantityError, amount
from kilauea.nodes.annotations import annotations_of
from kilauea.nodes.pod_status import ENDED

REFUSED = "UnexpectedAdmissionError"
_UNIT = 1000
_VGPU_RESOURCES = (devices.VGPU_NUMBER, devices.VGPU_MEMORY, devices.VGPU_PERCENTAGE)


class Family(NamedTuple):
    """The cards of one kind on a node, and the related names."""

    cards: Mapping[str, Card]
    fault: str
    split: bool
    resources: tuple[str, ...]
    """Resources by which pods request them; the first is the number of cards."""
    memory: str
    record: str
    """Annotation with the cards of a pod."""
    node: str
    """Annotation with their node."""
    phase: str
    lock: str


def families_of(node: Obj) -> list[Family]:
    """The kinds of cards that a node registers."""
    notes = annotations_of(node)
    out: list[Family] = []
    cards: tuple[Card, ...]
    if devices.VGPU_REGISTER in notes:
        cards, fault, mode = (), "", ""
        try:
            cards, mode = devices.vgpu_cards(notes[devices.VGPU_REGISTER])
        except DeviceTextError as error:
            fault = str(error)
        names = (devices.VGPU_RECORD, devices.VGPU_NODE, devices.BIND_PHASE, devices.VGPU_LOCK)
        by_id = {card.id: card for card in cards}
        out.append(Family(by_id, fault, mode == devices.MIG, _VGPU_RESOURCES, devices.VGPU_MEMORY, *names))
    for key in sorted(key for key in notes if key.startswith(devices.ASCEND_REGISTER)):
        word = key.removeprefix(devices.ASCEND_REGISTER)
        cards, fault = (), ""
        try:
            cards = devices.ascend_cards(notes[key])
        except DeviceTextError as error:
            fault = str(error)
        resource, record = f"huawei.com/{word}", f"hami.io/{word}-devices-allocated"
        names = (record, "hami.io/vgpu-node", "hami.io/bind-phase", devices.ASCEND_LOCK)
        # Pods that request cores share a chip by software, in hundredths.
        by_id = {card.id: card._replace(cores=devices.WHOLE) for card in cards}
        out.append(Family(by_id, fault, False, (resource,), f"{resource}-memory", *names))
    return out


def offered(node: Obj) -> dict[str, str]:
    """The resources of the cards that a node registers, as quantities."""
    out: dict[str, str] = {}
    for family in families_of(node):
        cards = [card for card in family.cards.values() if card.healthy]
        out[family.resources[0]] = str(sum(card.slots for card in cards))
        out[family.memory] = str(sum(card.memory for card in cards))
        if family.resources is _VGPU_RESOURCES:
            out[devices.VGPU_CORES] = str(sum(card.cores for card in cards))
    return out


def asked(container: Obj, names: Sequence[str]) -> list[int]:
    """The whole numbers of some resources that a container requests."""
    resources: Mapping[str, Any] = container.get("resources") or {}
    limits: Mapping[str, Any] = resources.get("limits") or resources.get("requests") or {}
    out = []
    for name in names:
        try:
            out.append(-(-amount(name, limits[name]) // _UNIT) if name in limits else 0)
        except (QuantityError, TypeError):
            out.append(0)
    return out


def npu_cores(pod: Obj) -> int:
    """The cores of split chips that a pod requests: those of its first container that requests any."""
    wanted = (asked(each, (devices.NPU_CORES,))[0] for each in pod["spec"].get("containers") or ())
    return next((cores for cores in wanted if cores), 0)


def serving(pod: Obj, node: Obj) -> list[Family]:
    """The kinds of cards of a node that a pod requests."""
    containers = pod["spec"].get("containers") or ()
    return [f for f in families_of(node) if any(any(asked(each, f.resources)) for each in containers)]


def refusal(pod: Obj, node: Obj, others: Sequence[Obj]) -> str:
    """The reason why a node cannot give a pod its cards; empty if it can, or if the pod requests none.

    Args:
        pod: the pod that starts on the node.
        node: the node.
        others: all pods on the node.
    """
    before = [each for each in others if comes_first(each, pod)]
    messages = (_refusal(pod, node, family, before) for family in serving(pod, node))
    return next(filter(None, messages), "")


def comes_first(other: Obj, pod: Obj) -> bool:
    """Return True if another pod already has its resources on the node, or gets them before this one."""
    if other["metadata"]["uid"] == pod["metadata"]["uid"] or (other.get("status") or {}).get("phase") in ENDED:
        return False
    return bool((other.get("status") or {}).get("startTime")) or turn_of(other) < turn_of(pod)


def turn_of(pod: Obj) -> tuple[str, str, str]:
    """The place of a pod among those of its node: by its age."""
    metadata = pod["metadata"]
    return metadata.get("creationTimestamp") or "", metadata.get("namespace", ""), metadata["name"]


def _refusal(pod: Obj, node: Obj, family: Family, before: Sequence[Obj]) -> str:
    notes, name = annotations_of(pod), node["metadata"]["name"]
    if family.fault:
        return f"the device plugin of node {name} cannot read its cards: {family.fault}"
    if family.record not in notes:
        return f"the pod has no annotation {family.record}: its scheduler has given it no card (plugin deviceshare)"
    if notes.get(family.node) != name:
        return f"annotation {family.node} is {notes.get(family.node, '')!r}, but the pod is on node {name}"
    try:
        record = devices.read_record(notes[family.record])
    except DeviceTextError as error:
        return f"annotation {family.record} cannot be read: {error}"
    for number, container in enumerate(pod["spec"].get("containers") or ()):
        wanted, slices = asked(container, family.resources), record[number] if number < len(record) else ()
        about = f"container {container['name']} asks for"
        cards = wanted[0] or int(any(wanted))
        # If the pod does not request a number, the scheduler's configuration defines it.
        if len(slices) < cards or (len(slices) > cards and (wanted[0] or not cards)):
            return f"{about} {plural(cards, 'card')}, annotation {family.record} has {len(slices)}"
        memory = asked(container, (family.memory,))[0]
        short = next((part for part in slices if part.memory < memory), None)
        if short is not None:
            return f"{about} {memory} MiB of each card, {short.card} gives {short.memory}"
    return _overbooked([part for slices in record for part in slices], family, _held(before, family), name)


def _held(pods: Sequence[Obj], family: Family) -> list[Slice]:
    """The parts of cards that pods use; pods with invalid records fail separately."""
    out: list[Slice] = []
    for pod in pods:
        try:
            record = devices.read_record(annotations_of(pod).get(family.record, ""))
        except DeviceTextError:
            continue
        out += [part for slices in record for part in slices]
    return out


def _overbooked(parts: Sequence[Slice], family: Family, held: Sequence[Slice], node: str) -> str:
    """The first card that would be overbooked."""
    for part in parts:
        instance = mig_instance(part.card) if family.split else None
        card = family.cards.get(instance[0] if instance is not None else part.card)
        if card is None or (family.split and instance is None):
            return f"node {node} has no card {part.card}"
        if not card.healthy:
            return f"card {part.card} is not healthy"
        uses = [use for use in (*held, *parts) if use.card == part.card]
        if instance is not None:
            if len(uses) > 1:
                return f"MIG instance {part.card} is given to {len(uses)} containers"
            continue
        memory, cores = sum(use.memory for use in uses), sum(use.cores for use in uses)
        if memory > card.memory or cores > card.cores or len(uses) > card.slots:
            return (
                f"card {part.card} would be given to {plural(len(uses), 'container')} of {card.slots}, "
                f"with {memory} MiB of {card.memory} and {cores} cores of {card.cores}"
            )
    return ""
