"""Work that only one process of several does: the one that holds a lease."""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Awaitable, Callable
from random import Random

from kilauea.api.kinds import NAMESPACES
from kilauea.api.ports import Api, ApiError, Clock, Key
from kilauea.client.lease import Election, Terms

log = logging.getLogger(__name__)


async def lead(
    api: Api, clock: Clock, chance: Random, lease: Key | None, terms: Terms, work: Callable[[], Awaitable[None]]
) -> None:
    """Work while a lease is held, whose namespace is made if need be; without a lease, work at once.

    Raises:
        LeaseLost: another process may work now.
    """
    if lease is None:
        await work()
        return
    try:
        await api.create(
            NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lease.namespace}}
        )
    except ApiError as error:
        if error.reason != "AlreadyExists":
            log.warning("namespace %s of the lease: %s", lease.namespace, error)
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    await Election(api, clock, chance, lease, identity, terms).lead(work)
