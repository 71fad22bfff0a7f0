"""The accounts of a namespace: counted once from existing objects, then updated with every write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from kilauea.apiserver.admission.amounts import ZERO, Amount, add
from kilauea.apiserver.admission.quota.account import Account, Change
from kilauea.apiserver.admission.quota.usage import UNCOUNTED, usage_of
from kilauea.apiserver.large_writes import LARGE
from kilauea.apiserver.patch import fields, track_update
from kilauea.apiserver.schema import Schema
from kilauea.apiserver.server_state import ServerState
from kilauea.apiserver.storage import Conflict, Missing, StorageError, Stored

ROOT = "/core/resourcequotas/"
MANAGER = "kube-apiserver"
"""The field manager of the status."""
TRIES = 100
TOGETHER = 16
"""Quotas whose status is written in one commit, for few waits for the disk and turns of other requests in between."""
AT_A_TIME = 512 * 1024
"""Bytes of objects to count before other requests have their turn."""
LEAST = 1024
"""Bytes added to the size of each object for that."""
_decode = msgspec.json.decode
_KEPT = fields("spec", "metadata")


class NamespaceAccounts:
    """All accounts of one namespace.

    Attributes:
        accounts: the accounts by name of the quota, in order.
        under_way: the writes in progress.
        opening: quotas that are being created.
    """

    def __init__(self, backend: ServerState, namespace: str) -> None:
        self._backend = backend
        self.namespace = namespace
        self.accounts: dict[str, Account] = {}
        self.under_way: dict[int, Change] = {}
        self.opening = 0
        self._current: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    def is_empty(self) -> bool:
        """True if the namespace has no accounts."""
        return not self.accounts and not self.opening

    def open(self, quota: dict[str, Any]) -> tuple[Account, Iterator[None]]:
        """Begin the account of a quota; exhausting the iterator counts the existing objects."""
        name = quota["metadata"]["name"]
        account = Account(name, quota.get("spec") or {}, self._backend.store.revision, quota.get("status") or {})
        for change in self.under_way.values():
            account.hold(change)
        self.accounts[name] = account
        self.accounts = dict(sorted(self.accounts.items()))
        return account, self._count(account)

    async def reopen(self, quota: dict[str, Any]) -> None:
        """Begin the account of a quota, yielding to other requests."""
        _, steps = self.open(quota)
        for _ in steps:
            await asyncio.sleep(0)

    def close(self, name: str) -> None:
        """Remove the account of a deleted quota."""
        self.accounts.pop(name, None)

    def _count(self, account: Account) -> Iterator[None]:
        """Count existing objects, some at a time; later writes are added."""
        store, pages = self._backend.store, []
        known: dict[str, Amount] = {}
        for resource in {each.root: each for each in self._backend.registry if each.namespaced}.values():
            kind = (resource.group, resource.plural)
            names = account.names(kind)
            if names and kind not in UNCOUNTED:
                known |= dict.fromkeys(names, ZERO)
                pages.append((kind, store.list(resource.prefix(self.namespace)).items))
        spent = 0
        for kind, items in pages:
            for stored in items:
                obj = _decode(stored.value)
                for name, amount in account.share(kind, obj, usage_of(kind, obj)).items():
                    known[name] = known.get(name, ZERO).plus(amount)
                spent += LEAST + stored.length
                if spent > AT_A_TIME:
                    spent = 0
                    yield
        account.used = add(known, account.used)
        account.counted = account.is_stale = True

    def show(self) -> asyncio.Task[None]:
        """Write the status of all changed quotas; the task ends when it is durable.

        Calls during a round share the next one, so many writes beside many quotas cost few rounds.
        """
        if self._next is None:
            self._next = asyncio.ensure_future(self._round(self._current))
        return self._next

    async def _round(self, previous: asyncio.Task[None] | None) -> None:
        if previous is not None:
            await asyncio.wait((previous,))
        self._current, self._next = self._next, None  # what is counted from now on needs another round
        stale = [each for each in self.accounts.values() if each.counted and each.is_stale]
        for start in range(0, len(stale), TOGETHER):
            await asyncio.gather(*map(self._write_status, stale[start : start + TOGETHER]))

    async def _write_status(self, account: Account) -> None:
        store, key = self._backend.store, f"{ROOT}{self.namespace}/{account.name}"
        for _ in range(TRIES):
            account.is_stale = False
            stored, state = store.get(key), account.status()
            if account.shown == state or stored is None or self.accounts.get(account.name) is not account:
                return
            try:
                await store.write(key, stored.revision, partial(_encode, await self._told(stored, state)))
            except Conflict:
                continue
            except (Missing, StorageError):
                account.is_stale = True
                return  # deleted, or not writable now; the account stays correct
            account.shown = state

    async def _told(self, stored: Stored, state: dict[str, Any]) -> dict[str, Any]:
        """Return the quota with its status, built outside the event loop if it has thousands of names."""
        backend = self._backend
        resource, writes = backend.registry.find("", "v1", "resourcequotas"), backend.large_writes
        schema = None if resource is None else resource.schema
        tell = partial(_told, stored.value, state, schema, backend.timestamp())
        return tell() if writes is None or stored.length <= LARGE else await writes.run(tell)


def _told(value: bytes, state: dict[str, Any], schema: Schema | None, timestamp: str) -> dict[str, Any]:
    """Return a quota with a status, which this server manages."""
    old: dict[str, Any] = _decode(value)
    quota: dict[str, Any] = _decode(value)
    quota["status"] = state
    if schema is not None:
        quota["metadata"]["managedFields"] = track_update(
            old, quota, MANAGER, schema, "v1", timestamp, subresource="status", reset=_KEPT
        )
    return quota


def _encode(quota: dict[str, Any], revision: int) -> bytes:
    quota["metadata"]["resourceVersion"] = str(revision)
    return msgspec.json.encode(quota)
