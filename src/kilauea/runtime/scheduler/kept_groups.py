"""Pod groups as the scheduler stores them: most of them run, and do not change for hours."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, MutableMapping

import msgspec

from kilauea.api.ports import Holder, Text, bytes_of, is_kept_decoded
from kilauea.api.scheduling import PodGroup
from kilauea.runtime.inputs.reading import decoded

DECODED = 1000
"""Number of groups to keep decoded, too: those changed or decoded last. Most take 2 KB each."""

_encode = msgspec.json.Encoder().encode


class KeptGroups(MutableMapping[str, PodGroup]):
    """Pod groups by key, as JSON; in the process of a server, in its stored form."""

    def __init__(self) -> None:
        self._texts: dict[str, Text] = {}
        self._decoded: OrderedDict[str, PodGroup] = OrderedDict()

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __contains__(self, key: object) -> bool:
        return key in self._texts

    def __getitem__(self, key: str) -> PodGroup:
        group = self._decoded.get(key)
        if group is None:
            read = decoded("PodGroup", bytes_of(self._texts[key]))
            assert isinstance(read, PodGroup)
            group = read
            self._keep_decoded(key, group)
        return group

    def __setitem__(self, key: str, group: PodGroup) -> None:
        self._texts[key] = _encode(group)
        self._decoded.pop(key, None)
        self._keep_decoded(key, group)

    def __delitem__(self, key: str) -> None:
        del self._texts[key]
        self._decoded.pop(key, None)

    def text(self, key: str) -> Text:
        """The stored form of a group that is not decoded."""
        return self._texts[key]

    def hold(self, key: str, group: PodGroup, holder: Holder) -> None:
        """Store a group in the form that this process already holds, if it is the same."""
        known = self.get(key)
        if known is not None and known.metadata.resource_version == group.metadata.resource_version:
            self._texts[key] = holder

    def _keep_decoded(self, key: str, group: PodGroup) -> None:
        if not is_kept_decoded(self._texts[key]):
            return
        if len(self._decoded) >= DECODED:
            self._decoded.popitem(last=False)
        self._decoded[key] = group
