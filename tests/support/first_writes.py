"""The writes that a server begins with, done by a server once and repeated in the store of each other one.

Servers of tests are many, and a server works for a while on its first objects: it reads, completes and checks them.
The objects, revisions and times are those that the server itself wrote; only uids are the same in all stores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv4Network
from random import Random
from typing import Any, NamedTuple

from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.bootstrap import create_first_objects
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.custom_resources.bundled import install_bundled
from kilauea.apiserver.dynamic.admission import DynamicAdmission
from kilauea.apiserver.resources.builtin import builtin_types
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.storage import Retention, Store
from kilauea.apiserver.storage.records import Stored
from kilauea.runtime.cluster.in_process import Definitions
from support.virtual_time import LoopClock, VirtualLoop, virtual_loop


class Write(NamedTuple):
    """A write of a store: what makes its value, given the revision, or None if it deleted the object."""

    key: str
    encode: Callable[[int], bytes] | None


class _Recorded(Store):
    """A store that remembers its writes."""

    writes: dict[int, Write]

    async def write(
        self,
        key: str,
        expected: int | None,
        encode: Callable[[int], bytes] | None,
        decoded: dict[str, Any] | None = None,
    ) -> Stored:
        stored = await super().write(key, expected, encode, decoded)
        value = stored.value
        self.writes[stored.revision] = Write(key, None if encode is None else lambda revision: value)
        return stored


def started_store(
    loop: asyncio.AbstractEventLoop, retention: Retention | None, service_range: IPv4Network, *, volcano: bool
) -> Store:
    """A store in memory as it is once a server has started at `virtual_time.START`.

    Args:
        loop: of the store.
        retention: of the store.
        service_range: the addresses of services.
        volcano: whether the Volcano kinds are defined, and established.
    """
    writes = _first_writes(service_range, volcano)

    async def repeated() -> Store:
        store = await Store.open(None, "memory", retention=retention or Retention())
        for write in writes:
            await store.write(write.key, None, write.encode)
        return store

    return loop.run_until_complete(repeated())


@lru_cache
def _first_writes(service_range: IPv4Network, volcano: bool) -> list[Write]:
    """The writes in the order of their revisions."""
    with virtual_loop() as loop:
        store = loop.run_until_complete(_Recorded.open(None, "memory", retention=Retention()))
        assert isinstance(store, _Recorded)
        store.writes = {}
        loop.run_until_complete(_start(store, loop, service_range, volcano))
        loop.run_until_complete(store.close())
    return [store.writes[revision] for revision in range(1, store.revision + 1)]


async def _start(store: Store, loop: VirtualLoop, service_range: IPv4Network, volcano: bool) -> None:
    """Start a server and end it."""
    clock, registry = LoopClock(loop), Registry(builtin_types(loopback=service_range.is_loopback))
    rng = Random("first writes")  # other uids than those of the objects to come, whose seeds are numbers
    backend = Backend(store, registry, clock.now, rng, admission_steps(), service_range=service_range)
    backend.dynamic = DynamicAdmission(store, None)
    server = ApiServer(backend)
    await create_first_objects(server)
    if volcano:
        definitions = Definitions(server, clock)
        await install_bundled(server)
        await definitions.start()
        await definitions.stop()
