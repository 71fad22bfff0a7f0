"""Quotas in admission: every write in a namespace with quotas is checked, and counted when it is durable.

Check and reservation run without a wait in between, so concurrent writes cannot both use the last of a quota.
Namespaces without a quota have no accounts and cost only a dict lookup.
"""

from __future__ import annotations

import asyncio
from itertools import count

import msgspec

from kilauea.apiserver.admission import AdmissionStep, Effect, forbidden
from kilauea.apiserver.admission.amounts import Amounts, listed
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.admission.quota.account import Account, Change
from kilauea.apiserver.admission.quota.accounts import ROOT, NamespaceAccounts
from kilauea.apiserver.admission.quota.scopes import ends_by_itself
from kilauea.apiserver.admission.quota.usage import (
    CLAIMS,
    PODS,
    SERVICES,
    UNCOUNTED,
    Kind,
)
from kilauea.apiserver.server_state import ServerState
from kilauea.apiserver.storage import Stored

QUOTAS: Kind = ("", "resourcequotas")


class ResourceQuotas(AdmissionStep):
    """Enforces the quotas of namespaces, and updates the status of quotas."""

    name = "ResourceQuota"

    def __init__(self) -> None:
        self._books: dict[str, NamespaceAccounts] | None = None
        self._numbers = count()

    def validate(self, attributes: Attributes) -> None:
        """Check a dry run; other writes are checked in `begin`."""
        if attributes.dry_run and attributes.operation != "DELETE":
            books = self._all(attributes.backend).get(_namespace_of(attributes))
            if books is not None and not books.is_empty():
                _check(books, attributes, _change_of(attributes))

    def begin(self, attributes: Attributes) -> Effect | None:
        """Check a write, and reserve its usage until it ends."""
        everything = self._all(attributes.backend)
        namespace = _namespace_of(attributes)
        if not namespace:
            return None
        books = everything.get(namespace)
        resource = attributes.resource
        is_quota = resource.plural == "resourcequotas" and not resource.group
        if books is None:
            if not is_quota or attributes.operation != "CREATE":
                return None
            books = everything[namespace] = NamespaceAccounts(attributes.backend, namespace)
        change = _change_of(attributes)
        if change.kind in UNCOUNTED:
            return None
        _check(books, attributes, change)
        return _Charge(everything, books, next(self._numbers), change)

    def _all(self, backend: ServerState) -> dict[str, NamespaceAccounts]:
        """Return the accounts by namespace; the first call opens those of existing quotas, whose status may be old."""
        if self._books is None:
            self._books = {}
            for stored in backend.store.list(ROOT).items:
                quota = msgspec.json.decode(stored.value)
                namespace = quota["metadata"]["namespace"]
                books = self._books.setdefault(namespace, NamespaceAccounts(backend, namespace))
                for _ in books.open(quota)[1]:
                    pass
            for books in self._books.values():
                books.show()
        return self._books


class _Charge:
    """The usage of a write in progress; a write of a quota opens or closes its account."""

    def __init__(
        self, everything: dict[str, NamespaceAccounts], books: NamespaceAccounts, number: int, change: Change
    ) -> None:
        self._everything = everything
        self._books = books
        self._number = number
        self._change = change
        self._opens = change.kind == QUOTAS and change.old is None
        books.opening += self._opens
        books.under_way[number] = change
        for account in books.accounts.values():
            account.hold(change)

    def cancel(self) -> None:
        """Release the reservation."""
        self._end()
        self._drop_empty_accounts()

    async def settle(self, stored: Stored) -> None:
        """Count the write, and update the status of the quotas.

        A deletion does not wait for the status, as in Kubernetes.
        """
        self._end()
        booked = [each.book(self._change, stored.revision) for each in self._books.accounts.values()]
        is_changed = any(booked)
        if self._change.kind == QUOTAS:
            await self._follow_quota()
            is_changed = True
        if not any(each.is_stale for each in self._books.accounts.values()):
            return
        shown = self._books.show()  # also of quotas whose status could not be written before
        if is_changed and self._change.new is not None:
            await asyncio.shield(shown)

    def _end(self) -> None:
        del self._books.under_way[self._number]
        self._books.opening -= self._opens
        for account in self._books.accounts.values():
            account.release(self._change)

    async def _follow_quota(self) -> None:
        """Update the account of a quota to its current specification."""
        quota, books = self._change.new, self._books
        if quota is None:
            books.close((self._change.old or {})["metadata"]["name"])
            self._drop_empty_accounts()
            return
        account = books.accounts.get(quota["metadata"]["name"])
        if account is None or account.spec != (quota.get("spec") or {}):
            await books.reopen(quota)
        else:
            account.shown, account.is_stale = quota.get("status") or {}, True

    def _drop_empty_accounts(self) -> None:
        if self._books.is_empty() and self._everything.get(self._books.namespace) is self._books:
            del self._everything[self._books.namespace]


def _namespace_of(attributes: Attributes) -> str:
    """Return the namespace of the object, also in a deletion of a collection."""
    if attributes.namespace or not attributes.resource.namespaced:
        return attributes.namespace
    found: str = (attributes.obj or attributes.old or {})["metadata"].get("namespace", "")
    return found


def _change_of(attributes: Attributes) -> Change:
    return Change((attributes.resource.group, attributes.resource.plural), attributes.old, attributes.obj)


# --- the check


def _check(books: NamespaceAccounts, attributes: Attributes, change: Change) -> None:
    """Reject a write that exceeds a quota."""
    obj = change.new
    if obj is None or not _is_limited(attributes, change):
        return
    accounts = [each for each in books.accounts.values() if each.concerns(change.kind, obj)]
    for account in accounts:
        _check_declared(account, attributes, change)
    if not accounts:
        return
    negative = sorted(name for name, amount in change.now.items() if amount.nanos < 0)
    if negative:
        raise forbidden(attributes, f"quota usage is negative for resource(s): {','.join(negative)}")
    for account in accounts:
        wanted = account.difference(change)
        exceeded = account.exceeded_by(wanted)
        if exceeded:
            raise forbidden(attributes, _words(account, wanted, exceeded))


def _is_limited(attributes: Attributes, change: Change) -> bool:
    """Return True if quotas can reject a write; all others are only counted."""
    kind, old = change.kind, change.old
    if old is None:
        return not attributes.subresource
    if kind == PODS and change.new is not None:
        moved = ends_by_itself(old) != ends_by_itself(change.new)
        return attributes.subresource == "resize" or (moved and not attributes.subresource)
    return kind in (SERVICES, CLAIMS) and not attributes.subresource


def _check_declared(account: Account, attributes: Attributes, change: Change) -> None:
    """Check that a pod has the amounts that the quota counts, and that the quota has a known usage."""
    names = account.names(change.kind)
    missing = sorted(names & change.missing.keys()) if change.kind == PODS else ()
    if missing:
        words = "; ".join(f"{name} for: {change.missing[name]}" for name in missing)
        raise forbidden(attributes, f"failed quota: {account.name}: must specify {words}")
    if not account.counted:
        listing = ",".join(sorted(names))
        raise forbidden(attributes, f"status unknown for quota: {account.name}, resources: {listing}")


def _words(account: Account, wanted: Amounts, exceeded: list[str]) -> str:
    taken = {name: account.taken(name) for name in exceeded}
    requested, used, limited = (listed(each, exceeded) for each in (wanted, taken, account.hard))
    return f"exceeded quota: {account.name}, requested: {requested}, used: {used}, limited: {limited}"
