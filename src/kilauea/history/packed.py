"""Records of the pods that have not ended, in a form that takes a third of the memory: there may be 100,000 of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import msgspec

from kilauea.history.records import PodRecord

_FIELDS = PodRecord.__struct_fields__
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[Any, ...]).decode


class PackedPods(MutableMapping[str, PodRecord]):
    """Records of pods by uid, in the order in which they came. Each look at a record makes it again.

    Args:
        records: those to begin with.
    """

    def __init__(self, records: Mapping[str, PodRecord]) -> None:
        self._packed: dict[str, bytes] = {}
        self.update(records)

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __contains__(self, uid: object) -> bool:
        return uid in self._packed

    def __getitem__(self, uid: str) -> PodRecord:
        return PodRecord(uid=uid, **dict(zip(_FIELDS[1:], _unpack(self._packed[uid]), strict=True)))

    def __setitem__(self, uid: str, record: PodRecord) -> None:
        self._packed[uid] = _pack(msgspec.structs.astuple(record)[1:])

    def __delitem__(self, uid: str) -> None:
        del self._packed[uid]
