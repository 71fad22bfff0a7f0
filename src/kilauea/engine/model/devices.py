"""Shared devices, parsed once when an object arrives: cards of nodes, cards that pods request, and those they use.

A node may have cards of several kinds; each kind has its own resources and its own annotations. Memory is in MiB,
cores are in hundredths of a card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kilauea.api import devices, wellknown
from kilauea.api.core import Container, Pod
from kilauea.api.device_config import CardNames, NpuNames, VgpuNames
from kilauea.api.devices import Card, DeviceTextError, Slice
from kilauea.api.quantity import resource_amounts
from kilauea.api.times import parse_time
from kilauea.engine.model.resources import MOST, within

SHARE, VGPU, ASCEND = "gpu", "vgpu", "ascend:"
"""Kinds: GPUs shared by memory or used whole; vGPUs; Ascend vNPUs, followed by the name of a chip."""

DYNAMIC = "npu"
"""Kind: Ascend chips that are split on demand."""

UNIT = 1000
"""Extended resources are counted in thousandths."""

SOFTLY, BY_TEMPLATE = "soft", "template"
"""Modes of nodes with NPUs: shared by software, or split by the templates of the chip."""
_MEMORY, _CORE = "-memory", "-core"


class DeviceSet(NamedTuple):
    """The cards of one kind that a node has."""

    kind: str
    cards: tuple[Card, ...]
    mode: str = ""
    fault: str = ""
    """The error in the annotation, if it is invalid."""
    locked: int = 0
    """Time at which the node was locked for a bind, in microseconds since 1970; 0 without a lock."""


def devices_of_node(annotations: Mapping[str, str], allocatable: Mapping[str, int]) -> tuple[DeviceSet, ...]:
    """The cards of a node, by kind, from its annotations and allocatable resources (in the engine's units)."""
    out = []
    number = allocatable.get(devices.GPU_NUMBER, 0) // UNIT
    if number > 0:
        memory = allocatable.get(devices.GPU_MEMORY, 0) // UNIT
        try:
            cards = devices.share_cards(memory, number, annotations.get(devices.GPU_UNHEALTHY))
            out.append(DeviceSet(SHARE, cards, locked=_lock_time(annotations, devices.GPU_LOCK)))
        except DeviceTextError as error:
            out.append(DeviceSet(SHARE, (), fault=f"{devices.GPU_NUMBER}: {error}"))
    text = annotations.get(devices.VGPU_REGISTER)
    if text is not None:
        try:
            out.append(DeviceSet(VGPU, *devices.vgpu_cards(text), locked=_lock_time(annotations, devices.VGPU_LOCK)))
        except DeviceTextError as error:
            out.append(DeviceSet(VGPU, (), fault=f"{devices.VGPU_REGISTER}: {error}"))
    for key in sorted(key for key in annotations if key.startswith(devices.ASCEND_REGISTER)):
        kind = ASCEND + key.removeprefix(devices.ASCEND_REGISTER)
        try:
            cards, mode = devices.ascend_cards(annotations[key]), _sharing(annotations)
            out.append(DeviceSet(kind, cards, mode, locked=_lock_time(annotations, devices.ASCEND_LOCK)))
        except DeviceTextError as error:
            out.append(DeviceSet(kind, (), fault=f"{key}: {error}"))
    return tuple(out)


def unregistered(sets: Iterable[DeviceSet], allocatable: Mapping[str, int]) -> dict[str, int]:
    """Amounts of card resources that pods request and that the node does not offer as resources.

    Device plugins offer the number of their cards; memory, cores and percentages are often only in the annotation.
    """
    out: dict[str, int] = {}
    for each in sets:
        healthy = [card for card in each.cards if card.healthy]
        memory, cores = sum(card.memory for card in healthy), sum(card.cores for card in healthy)
        if each.kind == VGPU:
            percent = 100 * len(healthy)
            amounts = {devices.VGPU_MEMORY: memory, devices.VGPU_CORES: cores, devices.VGPU_PERCENTAGE: percent}
        elif each.kind.startswith(ASCEND):
            resource = f"huawei.com/{each.kind.removeprefix(ASCEND)}"
            amounts = {f"{resource}-memory": memory, f"{resource}-core": devices.WHOLE * len(healthy)}
        else:
            continue
        out |= {
            name: within(amount * UNIT, 0, MOST)
            for name, amount in amounts.items()
            if amount and name not in allocatable
        }
    return out


def _sharing(annotations: Mapping[str, str]) -> str:
    """The way in which NPUs of a node are shared, from its annotations; empty if not stated."""
    told = annotations.get(devices.VNPU_SOFT)
    return "" if told is None else SOFTLY if told.strip() == "true" else BY_TEMPLATE


def _lock_time(annotations: Mapping[str, str], name: str) -> int:
    """The time of a lock; 0 if it is not a time."""
    text = annotations.get(name, "")
    try:
        return max(parse_time(text), 0) if text else 0
    except ValueError:
        return 0


class CardRequest(NamedTuple):
    """Cards of one kind that a container requests."""

    kind: str
    container: int
    number: int
    """Number of cards."""
    memory: int
    """MiB of each card; 0 for a percentage."""
    percent: int
    """Percentage of each card's memory, if `memory` is 0."""
    cores: int
    """Hundredths of each card's cores."""
    alone: bool = False
    """True if it needs cards that no other pod uses."""
    unstated: bool = False
    """True if the container does not request memory."""
    uncounted: bool = False
    """True if the container does not request a number of cards."""


class DeviceWish(NamedTuple):
    """Cards that a pod requests."""

    requests: tuple[CardRequest, ...]
    containers: int
    mode: str = ""
    models: tuple[str, ...] = ()
    not_models: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    not_ids: tuple[str, ...] = ()
    apart: str = ""
    """The pod group whose pods do not share a card; empty if they may."""
    soft: bool = False
    """True if NPUs must be shared by software."""
    level: str = ""
    """`high` for more processors of an NPU that is split."""
    images: str = ""
    """`yes` for all image units of an NPU that is split, `no` for none."""

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of the requested cards."""
        return frozenset(request.kind for request in self.requests)

    @property
    def selects(self) -> bool:
        """True if not every healthy card is acceptable."""
        return bool(self.mode or self.models or self.not_models or self.ids or self.not_ids or self.soft)


class DeviceSource(NamedTuple):
    """The parts of a pod that may request cards; the names of resources determine if they do."""

    wish: DeviceWish
    """The wish without the requests that depend on names."""
    limits: tuple[tuple[tuple[str, int], ...], ...]
    """Extended resources of each container, by name."""


def device_source(pod: Pod, requests: Mapping[str, int]) -> DeviceSource | None:
    """Return the parts of a pod with these requests that may request cards; None without extended resources."""
    if not any("/" in name for name in requests):
        return None
    containers = pod.spec.containers or ()
    marks = pod.annotations
    group = marks.get(wellknown.GROUP_NAME) or marks.get("scheduling.volcano.sh/group-name", "")
    wish = DeviceWish(
        tuple(_share_requests(pod)),
        len(containers),
        marks.get(devices.VGPU_MODE, ""),
        _listed(marks.get(devices.VGPU_USE_TYPE), fold=True),
        _listed(marks.get(devices.VGPU_NOT_TYPE), fold=True),
        _listed(marks.get(devices.VGPU_USE_ID)),
        _listed(marks.get(devices.VGPU_NOT_ID)),
        f"{pod.namespace}/{group}" if marks.get(devices.VGPU_GROUP_POLICY) == "spread" and group else "",
        marks.get(devices.VNPU_MODE) == devices.SOFT,
        pod.labels.get(devices.VNPU_LEVEL, "") if devices.NPU_CORES in requests else "",
        pod.labels.get(devices.VNPU_IMAGES, "") if devices.NPU_CORES in requests else "",
    )
    extended = (sorted((name, n) for name, n in _limits(each).items() if "/" in name) for each in containers)
    return DeviceSource(wish, tuple(map(tuple, extended)))


def device_wish(source: DeviceSource, names: CardNames) -> DeviceWish | None:
    """Return the cards that a pod requests by resources with these names; None if it requests none."""
    requests = [*source.wish.requests]
    for number, each in enumerate(source.limits):
        limits = dict(each)
        vgpus = (_vgpu_requests(number, limits, of) for of in names.vgpus)
        requests += next(filter(None, vgpus), [])
        requests += _ascend_requests(number, limits, names.npus)
        if cores := _units(limits, devices.NPU_CORES):
            requests.append(CardRequest(DYNAMIC, number, cores, 0, 0, 0))
    return source.wish._replace(requests=tuple(requests)) if requests else None


def _limits(container: Container) -> Mapping[str, int]:
    if not container.resources:
        return {}
    return resource_amounts(container.resources.limits) or resource_amounts(container.resources.requests)


def _units(limits: Mapping[str, int], name: str) -> int:
    """A whole number of a resource, rounded up."""
    return -(-max(limits.get(name, 0), 0) // UNIT)


def _share_requests(pod: Pod) -> list[CardRequest]:
    """A share of one card by memory, or whole cards: the sum of the containers, or the largest init container."""

    def most(name: str) -> int:
        total = sum(_units(_limits(container), name) for container in pod.spec.containers or ())
        return max([total, *(_units(_limits(container), name) for container in pod.spec.init_containers or ())])

    out = []
    if memory := most(devices.GPU_MEMORY):
        out.append(CardRequest(SHARE, 0, 1, memory, 0, 0))
    if number := most(devices.GPU_NUMBER):
        out.append(CardRequest(SHARE, 0, number, 0, 100, devices.WHOLE, alone=True))
    return out


def _vgpu_requests(container: int, limits: Mapping[str, int], names: VgpuNames) -> list[CardRequest]:
    number, memory, cores, percent = (_units(limits, name) for name in names)
    if not (number or memory or percent):
        return []
    cores = min(cores, devices.WHOLE)
    part = 0 if memory else min(percent or 100, 100)
    unstated = not memory and not percent
    alone = cores == devices.WHOLE
    return [CardRequest(VGPU, container, number or 1, memory, part, cores, alone, unstated, not number)]


def _ascend_requests(container: int, limits: Mapping[str, int], names: Iterable[NpuNames]) -> list[CardRequest]:
    out, given = [], dict(names)
    for name in sorted(limits.keys() - given.values()):
        usual = name.startswith(devices.ASCEND_PREFIX) and not name.endswith((_MEMORY, _CORE))
        if not usual and name not in given:
            continue
        count, memory = _units(limits, name), _units(limits, given.get(name, name + _MEMORY))
        if count:
            kind, cores = ASCEND + name.split("/", 1)[1], min(_units(limits, name + _CORE), devices.WHOLE)
            part = 0 if memory else 100
            out.append(CardRequest(kind, container, count, memory, part, cores, alone=cores == devices.WHOLE))
    return out


def _listed(text: str | None, *, fold: bool = False) -> tuple[str, ...]:
    if not text or len(text) > devices.LONGEST:
        return ()
    return tuple(part.strip().upper() if fold else part.strip() for part in text.split(",") if part.strip())


Record = tuple[tuple[str, str], ...]
"""Kinds of cards, each with the annotation that contains the pod's cards."""


def record_of(annotations: Mapping[str, str]) -> Record:
    """The device records of a pod."""
    if not annotations:
        return ()
    out = []
    if text := annotations.get(devices.GPU_INDEX):
        out.append((SHARE, text))
    if text := annotations.get(devices.VGPU_RECORD):
        out.append((VGPU, text))
    if text := annotations.get(devices.NPU_CORES):
        out.append((DYNAMIC, text))
    for key, text in annotations.items():
        if key.endswith("-devices-allocated") and key.startswith("hami.io/"):
            out.append((ASCEND + key.removeprefix("hami.io/").removesuffix("-devices-allocated"), text))
    return tuple(sorted(out))


def slices_in(kind: str, text: str) -> tuple[tuple[Slice, ...], ...]:
    """The slices of each container in the record of a kind.

    Raises:
        DeviceTextError: the record is invalid.
    """
    return devices.read_indices(text) if kind == SHARE else devices.read_record(text)


class GivenCard(NamedTuple):
    """A part of a card that a pod uses."""

    kind: str
    container: int
    card: str
    memory: int
    """MiB; 0 if the record has no amounts."""
    cores: int
    """Hundredths of a card."""


def cards_in(annotations: Iterable[tuple[str, str]]) -> list[GivenCard]:
    """The parts of cards in annotations, by kind and container; invalid records are left out."""
    out: list[GivenCard] = []
    for kind, text in record_of(dict(annotations)):
        try:
            containers = slices_in(kind, text)
        except DeviceTextError:
            continue
        out += [GivenCard(kind, number, *part) for number, slices in enumerate(containers) for part in slices]
    return out
