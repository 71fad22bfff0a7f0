"""Records of unfinished pods, in a format that needs a fifth of the memory: there may be 100,000 of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, MutableMapping
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from kilauea.api.shared import shared
from kilauea.history.records import PodRecord

_OWN = ("name", "submitted", "bound", "started", "ended", "node")
"""Fields in which most pods differ."""
_COMMON = tuple(name for name in PodRecord.__struct_fields__ if name not in ("uid", *_OWN))
_own_of, _common_of = attrgetter(*_OWN), attrgetter(*_COMMON)
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[Any, ...]).decode


@lru_cache(maxsize=256)
def _common_in(packed: bytes) -> Mapping[str, Any]:
    """The fields that pods share, by name."""
    return dict(zip(_COMMON, _unpack(packed), strict=True))


class PackedPods(MutableMapping[str, PodRecord]):
    """Records of pods by uid, in insertion order. Each access to a record rebuilds it.

    A scheduler in this process shares the texts of the uids.

    Args:
        records: initial records.
    """

    def __init__(self, records: Mapping[str, PodRecord]) -> None:
        self._packed: dict[str, bytes] = {}
        """The number of a pod's shared fields, and its own fields."""
        self._common = _Numbered()
        self.update(records)

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __contains__(self, uid: object) -> bool:
        return uid in self._packed

    def __getitem__(self, uid: str) -> PodRecord:
        number, *own = _unpack(self._packed[uid])
        return PodRecord(uid=uid, **dict(zip(_OWN, own, strict=True)), **_common_in(self._common[number]))

    def __setitem__(self, uid: str, record: PodRecord) -> None:
        before = self._packed.get(uid)
        number = self._common.take(_pack(_common_of(record)))
        self._packed[shared(uid)] = _pack((number, *_own_of(record)))
        if before is not None:
            self._common.give_back(_unpack(before)[0])

    def __delitem__(self, uid: str) -> None:
        self._common.give_back(_unpack(self._packed.pop(uid))[0])


class _Numbered:
    """Values by number, each stored as long as it is used. Numbers are reused."""

    def __init__(self) -> None:
        self._values: list[bytes] = []
        self._uses = array("L")
        self._numbers: dict[bytes, int] = {}
        self._free: list[int] = []

    def __getitem__(self, number: int) -> bytes:
        return self._values[number]

    def take(self, value: bytes) -> int:
        """The number of a value, with one more use."""
        number = self._numbers.get(value)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._values[number] = value
            else:
                number = len(self._values)
                self._values.append(value)
                self._uses.append(0)
            self._numbers[value] = number
        self._uses[number] += 1
        return number

    def give_back(self, number: int) -> None:
        """Remove one use of a value."""
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._numbers[self._values[number]]
            self._values[number] = b""
            self._free.append(number)
