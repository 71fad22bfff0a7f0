"""The bindings of a user, found without reading all bindings of a namespace for each request.

Administrators of a namespace may create thousands of bindings with ten thousand subjects each. Each version of a
binding is read once. Users are looked up by the hashes of subjects. If there are many, only these are kept, and the
binding is read again for a user who may be among them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Container, Iterator
from typing import NamedTuple

from kilauea.apiserver.rbac.records import RoleRef, Subject, read_binding
from kilauea.apiserver.request import User
from kilauea.apiserver.storage import Store
from kilauea.apiserver.storage.records import resource_of

FEW = 32
"""Maximum number of subjects that are kept unhashed."""
FEW_PREFIXES = 64
"""Number of cached namespaces from which those of deleted namespaces are dropped."""
MOST_FOUND = 1024
"""Users whose subject in a binding with many is cached."""


class Asker(NamedTuple):
    """A user whose bindings are requested."""

    user: User
    groups: frozenset[str]
    hashes: frozenset[int]

    @classmethod
    def of(cls, user: User) -> Asker:
        """Return the asker for a user."""
        groups = frozenset(user.groups)
        words = [("User", user.name), ("ServiceAccount", user.name), *(("Group", each) for each in groups)]
        return cls(user, groups, frozenset(map(hash, words)))


class Bound(NamedTuple):
    """A binding of a user: its name, its role, and the first subject that matches the user."""

    name: str
    role: RoleRef
    subject: Subject


class Bindings:
    """The bindings in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[str, tuple[int, dict[str, _Binding]]] = {}
        self._most = FEW_PREFIXES

    def __len__(self) -> int:
        """Return the number of prefixes whose bindings are cached."""
        return len(self._read)

    def count(self, prefix: str) -> int:
        """Return the number of bindings under a prefix when they were last read."""
        return len(self._read.get(prefix, (-1, ()))[1])

    def of(self, asker: Asker, prefix: str, namespace: str, but: Container[RoleRef] = ()) -> Iterator[Bound]:
        """Yield the bindings of a user, by name.

        Args:
            asker: the user.
            prefix: the prefix of the keys of the bindings.
            namespace: the namespace of the bindings; empty for cluster role bindings.
            but: roles to skip, which may grow meanwhile.
        """
        for binding in self._known(prefix, namespace):
            subject = None if binding.role in but else binding.subject_of(asker)
            if subject is not None:
                yield Bound(binding.name, binding.role, subject)

    def _known(self, prefix: str, namespace: str) -> Collection[_Binding]:
        """Return the current bindings; unchanged ones are not read again."""
        newest = self._store.newest(resource_of(prefix))
        read, known = self._read.get(prefix, (-1, {}))
        if read == newest:
            return known.values()
        items = self._store.list(prefix).items
        if not items:  # users may request namespaces that do not exist
            self._read.pop(prefix, None)
            return ()
        before, known = known, {}
        for stored in items:
            old = before.get(stored.key)
            is_same = old is not None and old.revision == stored.revision
            known[stored.key] = old if old is not None and is_same else _Binding(self._store, stored.key, namespace)
        self._read[prefix] = (newest, known)
        if len(self._read) > self._most:
            self._forget_what_is_gone()
        return known.values()

    def _forget_what_is_gone(self) -> None:
        """Drop the bindings of deleted namespaces, which are no longer requested."""
        self._read = {prefix: read for prefix, read in self._read.items() if self._store.list(prefix, limit=1).items}
        self._most = max(FEW_PREFIXES, 2 * len(self._read))


class _Binding:
    """One version of a binding."""

    __slots__ = ("_few", "_few_hashes", "_found", "_hashes", "_key", "_namespace", "_store", "name", "revision", "role")

    def __init__(self, store: Store, key: str, namespace: str) -> None:
        stored = store.get(key)
        assert stored is not None
        binding = read_binding(stored.value)
        self._store, self._key, self._namespace = store, key, namespace
        self.revision, self.name, self.role = stored.revision, binding.metadata.name, binding.role_ref
        subjects = binding.subjects or ()
        self._few = subjects if len(subjects) <= FEW else None
        hashes = frozenset(map(self._hash, subjects))
        self._few_hashes = hashes if self._few is not None else frozenset[int]()
        self._hashes = array("q", () if self._few is not None else sorted(hashes))
        self._found: dict[tuple[str, tuple[str, ...]], Subject | None] = {}

    def subject_of(self, asker: Asker) -> Subject | None:
        """Return the first subject that matches the user or a group of the user."""
        if self._few is not None:
            return None if self._few_hashes.isdisjoint(asker.hashes) else self._first(self._few, asker)
        if not any(self._has(each) for each in asker.hashes):
            return None
        who = (asker.user.name, asker.user.groups)
        if who in self._found:
            return self._found[who]
        stored = self._store.get(self._key)
        assert stored is not None
        found = self._first(read_binding(stored.value).subjects or (), asker)
        if len(asker.groups) <= FEW:
            if len(self._found) >= MOST_FOUND:
                self._found.clear()
            self._found[who] = found
        return found

    def _first(self, subjects: Collection[Subject], asker: Asker) -> Subject | None:
        return next((each for each in subjects if self._is_meant(each, asker)), None)

    def _is_meant(self, subject: Subject, asker: Asker) -> bool:
        if subject.kind == "Group":
            return subject.name in asker.groups
        if subject.kind == "ServiceAccount":
            return asker.user.name == self._account(subject)
        return subject.kind == "User" and subject.name == asker.user.name

    def _account(self, subject: Subject) -> str:
        return f"system:serviceaccount:{subject.namespace or self._namespace}:{subject.name}"

    def _hash(self, subject: Subject) -> int:
        name = self._account(subject) if subject.kind == "ServiceAccount" else subject.name
        return hash((subject.kind, name))

    def _has(self, wanted: int) -> bool:
        at = bisect_left(self._hashes, wanted)
        return at < len(self._hashes) and self._hashes[at] == wanted
