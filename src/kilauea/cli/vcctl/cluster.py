"""The cluster of a command, and functions that read objects from it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from kilauea.api.printing import printable

if TYPE_CHECKING:
    from kilauea.api.ports import Api, Key, Obj, Resource
    from kilauea.client.access import Access


@dataclass(frozen=True)
class Cluster:
    """Access to the cluster.

    Attributes:
        kubeconfig: file given by the user; if empty, kubectl's default.
        master: address that replaces the one of the context, or empty.
        agent: user agent of the requests.
    """

    kubeconfig: str = ""
    master: str = ""
    agent: str = "vcctl"

    def access(self) -> Access:
        """The address and credentials.

        Raises:
            AccessError: there are none.
        """
        import dataclasses
        import os
        from pathlib import Path

        from kilauea.client.finding import find_access

        access = find_access(Path(self.kubeconfig) if self.kubeconfig else None, os.environ)
        if self.master:
            address = self.master if "://" in self.master else f"http://{self.master}"
            access = dataclasses.replace(access, server=address)
        return access

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Api]:
        """The API, for the length of a block. Its warnings are printed to standard error, once each, like kubectl's.

        Raises:
            AccessError: there is no address.
        """
        from kilauea.client.blocking import BlockingTransport
        from kilauea.client.rest import Client

        told: set[str] = set()

        def warn(text: str) -> None:
            if text not in told:
                told.add(text)
                click.echo(f"Warning: {printable(text)}", err=True)

        async with BlockingTransport(self.access()) as transport:
            yield Client(transport, self.agent, warned=warn)


async def objects(api: Api, resource: Resource, namespace: str = "", labels: str = "", fields: str = "") -> list[Obj]:
    """The objects of a kind, by namespace and name."""
    from kilauea.api.ports import key_of

    listed = await api.list(resource, namespace, labels, fields)
    return sorted(map(decoded, listed.items), key=key_of)


async def object_or_none(api: Api, resource: Resource, key: Key) -> dict[str, Any] | None:
    """An object; None if it does not exist."""
    from kilauea.api.ports import ApiError

    try:
        return await api.get(resource, key)
    except ApiError as error:
        if error.code == 404:
            return None
        raise


def decoded(item: bytes) -> dict[str, Any]:
    """An object from its bytes."""
    import msgspec

    found: dict[str, Any] = msgspec.json.decode(item)
    return found


def now() -> int:
    """Microseconds since 1970."""
    import time

    return time.time_ns() // 1000
