"""Shared devices in annotations: the cards that a node registers, and the cards allocated to a pod.

Device plugins write the former and read the latter. The formats are those of Volcano's vGPU device plugin, of HAMi, and
of the older plugin that shares a card by memory. Amounts are whole MiB, and hundredths of a card's cores.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kilauea.api.times import SECOND

GPU_MEMORY = "volcano.sh/gpu-memory"
GPU_NUMBER = "volcano.sh/gpu-number"
GPU_INDEX = "volcano.sh/gpu-index"
GPU_UNHEALTHY = "volcano.sh/gpu-unhealthy-ids"
PREDICATE_TIME = "volcano.sh/predicate-time"

VGPU_NUMBER = "volcano.sh/vgpu-number"
VGPU_MEMORY = "volcano.sh/vgpu-memory"
VGPU_PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
VGPU_CORES = "volcano.sh/vgpu-cores"
VGPU_REGISTER = "volcano.sh/node-vgpu-register"
VGPU_NODE = "volcano.sh/vgpu-node"
VGPU_TIME = "volcano.sh/vgpu-time"
VGPU_RECORD = "volcano.sh/vgpu-ids-new"
VGPU_TO_ALLOCATE = "volcano.sh/devices-to-allocate"
VGPU_MODE = "volcano.sh/vgpu-mode"
MIG = "mig"
VGPU_USE_ID = "volcano.sh/vgpu-use-gpuuuid"
VGPU_NOT_ID = "volcano.sh/vgpu-nouse-gpuuuid"
VGPU_USE_TYPE = "nvidia.com/use-gputype"
VGPU_NOT_TYPE = "nvidia.com/nouse-gputype"
VGPU_GROUP_POLICY = "volcano.sh/vgpu-podgroup-policy"
BIND_PHASE = "volcano.sh/bind-phase"
BIND_TIME = "volcano.sh/bind-time"
ALLOCATING, SUCCESS = "allocating", "success"
"""Phases of a bind: before and after the device plugin has allocated the cards."""

VNPU_MODE = "huawei.com/vnpu-mode"
SOFT = "hami-core"
"""The value for NPUs shared by software."""
VNPU_SOFT = "hami-vnpu-core"
"""On a node: `true` if its NPUs are shared by software."""

NPU_CORES = "huawei.com/npu-core"
"""Resource: cores of Ascend chips that are split on demand; annotation of a pod: its chips."""
VNPU_LEVEL, VNPU_IMAGES = "vnpu-level", "vnpu-dvpp"
"""Labels of pods that request them."""

CONFIG_NAME, CONFIG_NAMESPACE = "volcano-vgpu-device-config", "kube-system"
"""The ConfigMap of the devices, unless the scheduler is configured otherwise."""

LOCK_TIME = 5 * 60 * SECOND
"""Validity of a lock in microseconds, as the process that set it may have ended."""
GPU_LOCK, VGPU_LOCK, ASCEND_LOCK = "gpu", "hamivgpu", "hami.io/mutex.lock"
"""Lock annotations of a node: the time of the bind of a pod whose cards are not allocated yet."""

ASCEND_REGISTER = "hami.io/node-register-"
ASCEND_PREFIX = "huawei.com/Ascend"

WHOLE = 100
"""All cores of a card, in hundredths."""
LONGEST = 256 * 1024
"""Maximum length of annotations that are read."""
MOST_CARDS = 128
"""Maximum number of cards of a node; nodes with more are rejected."""
_INSTANCE = re.compile(r"(.+)\[([0-9]{1,4})-([0-9]{1,4})\]")
_MOST = 1 << 40
_DIGITS = 12


class DeviceTextError(ValueError):
    """A device annotation is invalid; the message has the reason."""


class Card(NamedTuple):
    """One card of a node."""

    id: str
    slots: int
    """Number of containers that may share it."""
    memory: int
    """Its memory, in MiB."""
    cores: int
    """Its cores, in hundredths of a card."""
    model: str
    healthy: bool = True
    network: int = -1
    """The number of the network that connects it with other cards, or -1."""


class Slice(NamedTuple):
    """The part of a card of a container."""

    card: str
    """The ID of the card, followed by `[group-position]` for a MIG instance."""
    memory: int
    cores: int


def vgpu_cards(text: str) -> tuple[tuple[Card, ...], str]:
    """Read the cards in `volcano.sh/node-vgpu-register`, and the mode of the node, which is that of its last card.

    Raises:
        DeviceTextError: the text is too long, or an entry is incomplete or has an invalid number.
    """
    _check_length(text)
    cards, mode = [], ""
    for entry in text.split(":"):
        fields = [field.strip() for field in entry.split(",")]
        if fields == [""]:
            continue
        if len(fields) < 6:
            raise DeviceTextError(f"card {entry[:80]!r} has {len(fields)} fields instead of 6")
        cards.append(
            Card(fields[0], _number(fields[1]), _number(fields[2]), WHOLE, fields[3], fields[4].lower() != "false")
        )
        mode = fields[5]
    return _checked(cards), mode


def ascend_cards(text: str) -> tuple[Card, ...]:
    """Read the cards in `hami.io/node-register-NAME`, a JSON list.

    Raises:
        DeviceTextError: the text is too long, or is not a list of cards.
    """
    _check_length(text)
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DeviceTextError(f"it is not JSON: {error}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise DeviceTextError("it is not a JSON list of cards")
    return _checked([_ascend_card(entry) for entry in entries])


def _ascend_card(entry: Mapping[str, object]) -> Card:
    custom = entry.get("custominfo")
    network = custom.get("NetworkID", -1) if isinstance(custom, Mapping) else -1
    return Card(
        str(entry.get("id", "")),
        _number(entry.get("count", 1)),
        _number(entry.get("devmem", 0)),
        _number(entry.get("devcore", 0)) or WHOLE,
        str(entry.get("type", "")),
        entry.get("health", True) is not False,
        network if isinstance(network, int) and not isinstance(network, bool) and 0 <= network < _MOST else -1,
    )


def share_cards(memory: int, number: int, unhealthy: str | None) -> tuple[Card, ...]:
    """Return the cards of a node with this memory (MiB) and number of cards, without the unhealthy ones.

    Raises:
        DeviceTextError: it has too many cards.
    """
    if number > MOST_CARDS:
        raise DeviceTextError(f"it offers {number} cards, more than {MOST_CARDS}")
    ill = {part.strip() for part in (unhealthy or "")[:LONGEST].split(",")}
    return tuple(
        Card(str(index), _MOST, memory // number, WHOLE, "", str(index) not in ill) for index in range(max(number, 0))
    )


def _checked(cards: Sequence[Card]) -> tuple[Card, ...]:
    if len(cards) > MOST_CARDS:
        raise DeviceTextError(f"it has {len(cards)} cards, more than {MOST_CARDS}")
    seen: set[str] = set()
    for card in cards:
        if not card.id:
            raise DeviceTextError("a card has no id")
        if card.id in seen:
            raise DeviceTextError(f"card {card.id[:80]!r} is there twice")
        seen.add(card.id)
    return tuple(cards)


def _check_length(text: str) -> None:
    if len(text) > LONGEST:
        raise DeviceTextError(f"it has {len(text)} characters, more than {LONGEST}")


def _number(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise DeviceTextError(f"{str(value)[:40]!r} is not a number from 0 to {_MOST}")
    return value


def record_text(containers: Iterable[Sequence[Slice]], vendor: str) -> str:
    """Format the slices of each container for device plugins."""
    return ";".join(["".join([f"{s.card},{vendor},{s.memory},{s.cores}:" for s in slices]) for slices in containers])


def read_record(text: str) -> tuple[tuple[Slice, ...], ...]:
    """Parse the slices of each container in a record.

    Raises:
        DeviceTextError: the record is too long or malformed.
    """
    _check_length(text)
    return tuple(tuple(map(_slice, filter(None, part.split(":")))) for part in text.split(";"))


def _slice(entry: str) -> Slice:
    fields = entry.split(",")
    if len(fields) < 4 or not fields[0]:
        raise DeviceTextError(f"{entry[:80]!r} is not a part of a card")
    return Slice(fields[0], _number(fields[2]), _number(fields[3]))


def mig_instance(card: str) -> tuple[str, int, int] | None:
    """Return the card, group and position in the ID of a MIG instance; None for the ID of a whole card."""
    found = _INSTANCE.fullmatch(card)
    return (found[1], int(found[2]), int(found[3])) if found else None


def read_indices(text: str) -> tuple[tuple[Slice, ...], ...]:
    """Parse the cards in `volcano.sh/gpu-index`, which does not have the amounts.

    Raises:
        DeviceTextError: the text is too long or malformed.
    """
    _check_length(text)
    return (tuple(Slice(str(_number(part.strip())), 0, 0) for part in text.split(",")),)
