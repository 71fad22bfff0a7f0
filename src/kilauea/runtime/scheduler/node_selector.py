"""The nodes of a scheduler, selected by their labels (`--node-selector`): to it, the others do not exist."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kilauea.api.ports import Seen, Text, bytes_of
from kilauea.runtime.scheduler.feed import Feed

Labels = Sequence[tuple[str, str]]
"""Labels with their values; a node needs one of them."""


class _Metadata(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] | None = None


class _Node(msgspec.Struct):
    metadata: _Metadata


_read = msgspec.json.Decoder(_Node).decode


def labels_of(texts: Sequence[str]) -> Labels:
    """Return the labels that options name: `key:value`, several with commas between them.

    Raises:
        ValueError: a text is not of this form.
    """
    found = []
    for text in filter(None, (each.strip() for given in texts for each in given.split(","))):
        key, colon, value = text.partition(":")
        if not (colon and key.strip() and value.strip()):
            raise ValueError(f'invalid label "{text}": use KEY:VALUE, for example volcano.sh/role:train')
        found.append((key.strip(), value.strip()))
    return tuple(found)


class SelectedNodes:
    """Receives the events of all nodes, and passes on those of selected nodes.

    Args:
        feed: receives the nodes; one that loses its label is gone for it.
        labels: a node is selected by one of them.
    """

    def __init__(self, feed: Feed, labels: Labels) -> None:
        self._feed = feed
        self._labels = labels
        self._selected: set[str] = set()

    def on_relist(self, items: Sequence[Text], version: str) -> None:
        """Replace all nodes."""
        self._selected.clear()
        self._feed.relisted("Node", [each for each in items if self._note(bytes_of(each))])

    def on_events(self, batch: Sequence[Seen]) -> None:
        """Apply events; heartbeats of other nodes change nothing."""
        passed = [event for each in batch if (event := self._event(each)) is not None]
        if passed:
            self._feed.seen("Node", passed)

    def _event(self, seen: Seen) -> Seen | None:
        """Return the event for the feed; None if it is about a node that is not selected, and was not before."""
        if seen.type == "BOOKMARK":
            return None
        name = _read(seen.object).metadata.name
        known = name in self._selected
        if seen.type == "DELETED" or not self._note(seen.object):
            self._selected.discard(name)
            return seen._replace(type="DELETED") if known else None
        return seen

    def _note(self, data: bytes) -> bool:
        """Return True if a node is selected, and remember it."""
        metadata = _read(data).metadata
        labels = metadata.labels or {}
        selected = any(labels.get(key) == value for key, value in self._labels)
        if selected:
            self._selected.add(metadata.name)
        return selected
