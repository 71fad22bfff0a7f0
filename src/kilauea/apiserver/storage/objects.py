"""The current objects of each resource in the order of keys, and lists of them, now or at earlier revisions."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from kilauea.apiserver.storage.ordered import Ordered
from kilauea.apiserver.storage.records import Event, Page, Stored, resource_of
from kilauea.apiserver.storage.usage import Usage

_key = attrgetter("key")
NOTHING: Mapping[str, Stored | None] = {}
_LAST = "\U0010ffff"
"""Sorts after all keys."""


class Objects:
    """The objects after the events applied so far, and the bytes that they use."""

    def __init__(self, usage: Usage) -> None:
        self.usage = usage
        self._resources: dict[str, Ordered] = {}
        self._found: Stored | None = None

    def get(self, key: str) -> Stored | None:
        """Return the object of a key. The last result is cached, as a write looks up its object several times."""
        found = self._found
        if found is not None and found.key == key:
            return found
        ordered = self._resources.get(key[: key.find("/", key.find("/", 1) + 1) + 1])
        if ordered is None:
            resource_of(key)  # rejects an invalid key
            return None
        found = self._found = ordered.get(key)
        return found

    def apply(self, event: Event) -> None:
        """Apply the write of an event."""
        stored = event.now
        key, resource = stored.key, resource_of(stored.key)
        self._found = None
        self.usage.apply(event)
        ordered = self._resources.get(resource)
        if ordered is None:
            ordered = self._resources[resource] = Ordered()
        if event.kind == "deleted":
            ordered.remove(key)
        else:
            ordered.put(stored)

    def sizes(self) -> dict[str, int]:
        """Return the number of objects of each resource, by the prefix of their keys."""
        return {resource: ordered.count("", _LAST) for resource, ordered in self._resources.items()}

    def page(
        self,
        prefix: str,
        revision: int,
        after_key: str | None,
        limit: int | None,
        then: Mapping[str, Stored | None] = NOTHING,
        grown: int = 0,
    ) -> Page:
        """Return objects under a prefix and after a key, as of a revision.

        Args:
            prefix: ends in `/`.
            revision: the revision of the page.
            after_key: the last key of the previous page.
            limit: the maximum number of objects.
            then: the objects after that key that differed at the revision, as of then; None for those that did not
                exist.
            grown: the number of objects after that key that there are more now than at the revision.
        """
        ordered = self._resources.get(resource_of(prefix))
        if ordered is None:
            return Page([], revision, 0, None)
        first = prefix if after_key is None else max(prefix, after_key + "\0")
        end = prefix[:-1] + chr(ord("/") + 1)
        if limit is None:
            return Page(_merged(ordered.between(first, end), then), revision, 0, None)
        # Enough current objects that at least `limit` are left without those that differed.
        items = _merged(ordered.between(first, end, limit + len(then)), then)[:limit]
        remaining = ordered.count(first, end) - grown - len(items)
        return Page(items, revision, remaining, items[-1].key if items and remaining else None)


def _merged(now: list[Stored], then: Mapping[str, Stored | None]) -> list[Stored]:
    if not then:
        return now
    kept = [stored for stored in now if stored.key not in then]
    kept += [stored for stored in then.values() if stored is not None]
    kept.sort(key=_key)  # two sorted runs: little more than a merge
    return kept
