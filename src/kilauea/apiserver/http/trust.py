"""Client TLS contexts by trusted authorities, created without blocking other requests, and cached.

A bundle of a megabyte has thousands of certificates, each of which takes the interpreter about 0.4 ms to read, in any
thread. So they are read a few at a time.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import OrderedDict
from collections.abc import Callable, Iterator

AT_A_TIME = 20
"""Certificates to read before other requests have their turn."""
MOST_KEPT, LARGEST_KEPT = 256, 4 << 20
"""Maximum number of cached contexts, and total characters of their bundles: they use several times as many bytes."""
_END = re.compile(r"-----END (?:X509 |TRUSTED )?CERTIFICATE-----\n?")
"""Ends of OpenSSL certificates: OpenSSL skips keys and other blocks, and fails on a part that has only those.

It matches only the ends, as a search for complete certificates takes quadratic time in a text without any.
"""


class Trust:
    """Creates and caches contexts.

    Args:
        complete: called with each new context.
    """

    def __init__(self, complete: Callable[[ssl.SSLContext], object] = lambda context: None) -> None:
        self._complete = complete
        self._known: OrderedDict[tuple[str, bool], ssl.SSLContext] = OrderedDict()
        self._size = 0
        self._making = asyncio.Lock()

    async def context(self, authority: str, *, verify: bool = True) -> ssl.SSLContext:
        """Return a context.

        Args:
            authority: the certificates as PEM; empty for those of the system.
            verify: True to verify certificates and names of servers.

        Raises:
            ssl.SSLError: the certificates cannot be read.
        """
        key = authority, verify
        if key not in self._known:
            async with self._making:
                if key not in self._known:
                    self._keep(key, await self._made(authority, verify=verify))
        self._known.move_to_end(key)
        return self._known[key]

    async def _made(self, authority: str, *, verify: bool) -> ssl.SSLContext:
        if not authority:  # reading system files releases the interpreter's lock
            context = await asyncio.to_thread(ssl.create_default_context)
        else:
            parts = parts_of(authority)
            context = ssl.create_default_context(cadata=next(parts))
            for part in parts:
                await asyncio.sleep(0)
                context.load_verify_locations(cadata=part)
        if not verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._complete(context)
        return context

    def _keep(self, key: tuple[str, bool], context: ssl.SSLContext) -> None:
        self._known[key] = context
        self._size += len(key[0])
        while len(self._known) > 1 and (len(self._known) > MOST_KEPT or self._size > LARGEST_KEPT):
            (authority, _), _ = self._known.popitem(last=False)
            self._size -= len(authority)


def parts_of(authority: str) -> Iterator[str]:
    """Yield a bundle in parts of a few certificates, or of lines that end like certificates."""
    ends = [found.end() for found in _END.finditer(authority)]
    start = 0
    for end in ends[AT_A_TIME - 1 : -1 : AT_A_TIME]:
        yield authority[start:end]
        start = end
    yield authority[start:]
