"""Live pages: each browser has one stream, which sends the parts of its page that have changed.

For each browser, only the last sent state is kept. Changes are collected for a second or more, depending on the cost of
rendering and sending the page, so that a viewer uses a limited share of a processor. Nothing is rendered for a browser
while it does not read; after a while it is disconnected.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from kilauea.dashboard.pages import Cluster, page_of
from kilauea.dashboard.rendering import Renderer, change

SHORTEST_PAUSE = 1.0
"""Minimum seconds between two checks for changes."""
SHARE = 0.03
"""Maximum fraction of a processor for a viewer."""
BYTES_A_SECOND = 64 * 1024
"""Bytes sent to a viewer per second, on average."""
QUIET_SECONDS = 15.0
"""Seconds after which something is sent in any case, to detect a lost connection."""
PATIENCE_SECONDS = 20.0
"""Seconds after which a browser that does not read is disconnected."""
MOST_VIEWERS = 100
MOST_RENDERED = 32
"""Maximum number of rendered pages to cache, for viewers of the same page."""
_AGE = re.compile(r"(<time [^>]*>)[^<]*")

Query = Mapping[str, str]


class Rendered(NamedTuple):
    """The rendered parts of a page, and the processor time for them, in seconds."""

    parts: Mapping[str, str]
    digests: Mapping[str, bytes]
    seconds: float


class Pages:
    """Renders pages, once for all viewers of the same page.

    Args:
        cluster: the picture to show.
        renderer: templates.
        refresh: called before a page is rendered.
    """

    def __init__(self, cluster: Cluster, renderer: Renderer, refresh: Callable[[], None]) -> None:
        self._cluster, self._renderer, self._refresh = cluster, renderer, refresh
        self._kept: OrderedDict[tuple[str, tuple[tuple[str, str], ...]], tuple[Any, Rendered]] = OrderedDict()

    def whole(self, path: str, query: Query, live: str) -> str | None:
        """Render a whole page; None if the path does not exist."""
        self._refresh()
        page = page_of(path, query, self._cluster)
        return self._renderer.page(page, live) if page is not None else None

    def rendered(self, path: str, query: Query) -> Rendered | None:
        """Render the parts of a page that may change; None if the page does not exist."""
        self._refresh()
        at = path, tuple(sorted(query.items()))
        version = self._cluster.version
        known = self._kept.get(at)
        if known is not None and known[0] == version:
            self._kept.move_to_end(at)
            return known[1]
        started = time.thread_time()
        page = page_of(path, query, self._cluster)
        if page is None:
            return None
        parts = {part.id: self._renderer.part(part) for part in page.parts if part.id not in page.still}
        digests = {id: _digest(text) for id, text in parts.items()}
        found = Rendered(parts, digests, time.thread_time() - started)
        self._kept[at] = version, found
        while len(self._kept) > MOST_RENDERED:
            self._kept.popitem(last=False)
        return found


def _digest(text: str) -> bytes:
    """A digest of a part without its ages, which browsers update themselves."""
    return hashlib.blake2b(_AGE.sub(r"\1", text).encode(), digest_size=16).digest()


async def stream(pages: Pages, path: str, query: Query, send: Callable[[bytes], Awaitable[None]]) -> None:
    """Send changes of a page until its viewer is gone.

    Args:
        pages: renders the pages.
        path: the page.
        query: its query.
        send: sends bytes, and waits while the viewer does not read; raises `ConnectionError` when the viewer is gone.
    """
    sent: dict[str, bytes] = {}
    seen: Rendered | None = None
    spoken, size = time.monotonic(), 0
    while True:
        found = pages.rendered(path, query)
        if found is None:
            return
        if found is not seen:
            news = [id for id, digest in found.digests.items() if sent.get(id) != digest]
            data = "".join(change(id, found.parts[id]) for id in news).encode()
            if data:
                await send(data)
                spoken = time.monotonic()
            sent, seen, size = dict(found.digests), found, len(data)
        elif time.monotonic() - spoken > QUIET_SECONDS:
            await send(b": quiet\n\n")
            spoken = time.monotonic()
        await asyncio.sleep(max(SHORTEST_PAUSE, found.seconds / SHARE, size / BYTES_A_SECOND))
        size = 0
