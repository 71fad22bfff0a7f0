"""Interfaces between packages that do not import each other: an API, and controllers that a driver runs.

`Api` is the interface of an API server; the client uses HTTP with any Kubernetes, or a direct transport within one
process. A `Controller` is pure: it reconciles one key with a `View` of objects that watches update, and returns
operations, which its driver executes. The runtime provides the implementations.

Objects are decoded JSON (dictionaries). Those in a view are shared and must not be changed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

Obj = Mapping[str, Any]
"""A read-only object of the API."""

PatchType = Literal["json", "merge", "strategic", "apply"]
Propagation = Literal["Background", "Foreground", "Orphan"]


class Resource(NamedTuple):
    """A kind, with the names in its path."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version


ALL_KINDS = Resource("*", "*", "*", "*")
"""In an interest: every kind that the server stores except events, including kinds that definitions add later."""


class Key(NamedTuple):
    """The key of an object; the namespace is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Return `namespace/name`, or the name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: Obj) -> Key:
    """Return the key of an object."""
    metadata = obj["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


# --- the API


@dataclass
class ApiError(Exception):
    """An error response, with the content of its `metav1.Status`.

    Attributes:
        code: the HTTP status code; 0 without a response.
        reason: the reason, e.g. NotFound, AlreadyExists, Conflict, Invalid, Expired, TooManyRequests.
        message: the message.
        details: the details, with causes.
        retry_after: seconds after which to retry; 0 if not given.
        reported: True if the connection has logged it, so that callers that retry need not.
    """

    code: int
    reason: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)
    retry_after: float = 0
    reported: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        """Return the message."""
        return self.message


class Holder(Protocol):
    """A record in this process that stores an object anyway; reading its `value` may take time."""

    @property
    def value(self) -> bytes:
        """The bytes of the object."""
        ...

    @property
    def length(self) -> int:
        """The number of these bytes."""
        ...

    @property
    def decoded(self) -> dict[str, Any] | None:
        """The decoded object if it is kept, as for recently written ones; None otherwise."""
        ...


Text = bytes | Holder
"""The text of an object, or the record that stores it."""


LARGEST_DECODED = 16 * 1024
"""Bytes of an object from which caches do not also keep it decoded.

Decoded, it uses ten times the memory, and clients may write a thousand objects of a megabyte that compress well.
"""


def bytes_of(text: Text) -> bytes:
    """Return the bytes of an object."""
    return text if isinstance(text, bytes) else text.value


def is_kept_decoded(text: Text) -> bool:
    """Return True if caches may also keep an object decoded."""
    return (len(text) if isinstance(text, bytes) else text.length) <= LARGEST_DECODED


class Listed(NamedTuple):
    """All objects of a kind at one version, each as bytes.

    `holders` are the records that store them in the process of a server, one for each; keeping those takes no memory.
    """

    items: Sequence[bytes]
    version: str
    holders: Sequence[Holder] = ()

    @property
    def texts(self) -> Sequence[Text]:
        """Return the objects in the form to keep."""
        return self.holders or self.items


class Seen(NamedTuple):
    """One event of a watch. A bookmark has only a version; errors are raised as `ApiError`.

    `holder` is the record that stores the object in the process of a server; keeping it takes no memory.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: bytes
    version: str
    holder: Holder | None = None


class Api(Protocol):
    """An API server. All calls raise `ApiError`; a lost connection is one with code 0."""

    async def get(self, resource: Resource, key: Key, subresource: str = "") -> dict[str, Any]:
        """Return one object."""
        ...

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        reduce: Callable[[bytes], bytes] | None = None,
    ) -> Listed:
        """Return all objects of a kind, in all namespaces unless one is named, read page by page.

        `reduce` is called with each object as it arrives, and the list has its results: all objects of a large cluster
        use several times the memory of the parts that a reader needs.
        """
        ...

    async def check_list(self, resource: Resource) -> None:
        """Raise the error that listing a kind would raise; reads at most one object."""
        ...

    def watch(
        self, resource: Resource, version: str, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[Seen]]:
        """Yield the events after a version, in batches, with bookmarks, until the server ends the watch."""
        ...

    async def create(
        self, resource: Resource, namespace: str, body: Obj, subresource: str = "", name: str = ""
    ) -> dict[str, Any]:
        """Create an object, or a subresource (`binding`, `eviction`) of the named object."""
        ...

    async def update(self, resource: Resource, body: Obj, subresource: str = "") -> dict[str, Any]:
        """Replace an object, at the version that the body has if any."""
        ...

    async def patch(
        self,
        resource: Resource,
        key: Key,
        patch: Any,
        type: PatchType = "merge",
        subresource: str = "",
        manager: str = "",
        force: bool = False,
    ) -> bytes:
        """Change an object; return it as bytes, as watches do, since most callers need only its version."""
        ...

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str = "",
        grace: int | None = None,
        propagation: Propagation = "Background",
    ) -> None:
        """Delete an object if it still has this UID."""
        ...

    async def delete_all(self, resource: Resource, namespace: str = "") -> bool:
        """Delete all objects of a kind, in all namespaces unless one is named; return True if none are left."""
        ...


# --- controllers

HEAD = ("name", "namespace", "uid", "deletionTimestamp", "finalizers", "ownerReferences")
"""The metadata that relates an object to its owners and dependents."""


class View(Protocol):
    """Cached objects of the kinds that a controller watches, without their `managedFields`."""

    def get(self, resource: Resource, key: Key) -> Obj | None:
        """Return one object."""
        ...

    def head(self, resource: Resource, key: Key) -> Obj | None:
        """Return an object with at least the part of its metadata in `HEAD`: it may be large, and looked up often."""
        ...

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Obj]:
        """Return all objects of a kind, or those in a namespace, ordered by key."""
        ...

    def owned(self, resource: Resource, uid: str, namespace: str, most: int | None = None) -> Sequence[Obj]:
        """Return objects of a kind with this UID as an owner, ordered by key.

        Args:
            resource: the kind.
            uid: the UID of the owner.
            namespace: the namespace of the owner, as it cannot own objects in other namespaces; empty for all.
            most: the maximum number of objects, as there may be thousands; None for all.
        """
        ...

    def labelled(self, resource: Resource, label: str, value: str) -> Sequence[Obj]:
        """Return objects of a kind with a label that a controller has declared as indexed, ordered by key."""
        ...

    def indexed(self, resource: Resource, index: str, value: str) -> Sequence[Obj]:
        """Return objects of a kind with this value in an index that a controller has declared, ordered by key."""
        ...

    def count_indexed(self, resource: Resource, index: str, value: str) -> int:
        """Return the number of these objects, without decoding them."""
        ...

    def aggregate(self, resource: Resource, name: str, value: str) -> Aggregate | None:
        """Return the aggregate with this name of the objects with a value; None without objects."""
        ...


class Aggregate(Protocol):
    """Facts about many objects that are updated incrementally, so that using them does not read the objects.

    They depend only on the current objects, and not on earlier states.
    """

    def __len__(self) -> int:
        """The number of objects."""
        ...

    def put(self, key: Key, obj: Obj) -> None:
        """Add an object, or update it."""
        ...

    def drop(self, key: Key) -> None:
        """Remove an object that was deleted or has another value, if present."""
        ...


class Aggregation(NamedTuple):
    """A way to aggregate objects of a kind.

    Attributes:
        by: returns the value of an object, like the function of an index; objects with an empty value are excluded.
        new: creates the aggregate of a value.
    """

    by: Callable[[Obj], str]
    new: Callable[[], Aggregate]


class Wording(NamedTuple):
    """The reason of an event about a rejection, and the prefix of the server's message."""

    reason: str
    words: str


CREATION_REFUSED = Wording("FailedCreate", "Error creating: ")
"""The wording of Kubernetes controllers."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; an existing one is not an error.

    A rejection by the server (not a lost connection) is reported on `about`, if given, as a Warning with the reason and
    prefix of `wording`.
    """

    resource: Resource
    body: Obj
    about: Obj | None = None
    wording: Wording = CREATION_REFUSED


@dataclass(frozen=True, slots=True)
class Patch:
    """Change an object; a missing one is not an error, one at another version (if given) is reconciled again."""

    resource: Resource
    key: Key
    patch: Any
    type: PatchType = "merge"
    subresource: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object if it still has this UID; a missing one is not an error."""

    resource: Resource
    key: Key
    uid: str
    grace: int | None = None
    propagation: Propagation = "Background"


@dataclass(frozen=True, slots=True)
class Replace:
    """Write a whole object, or a subresource that cannot be patched, at the version that the body has."""

    resource: Resource
    body: Obj
    subresource: str = ""


class Reference(NamedTuple):
    """A reference to one object by UID; without a UID, to any object of that name."""

    resource: Resource
    key: Key
    uid: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """Continue only if these objects do not exist on the server either; otherwise reconcile the key again.

    A view may lag, independently for each kind: an object may be seen before its owner.
    """

    absent: Sequence[Reference]


@dataclass(frozen=True, slots=True)
class Remaining:
    """The rest of a kind after all its objects were deleted.

    Attributes:
        resource: the kind.
        count: the number of remaining objects.
        finalizers: the number of them that wait for each finalizer.
        grace: the maximum remaining grace period in seconds.
        fault: the reason why they could not be deleted or listed; empty if they could.
    """

    resource: Resource
    count: int = 0
    finalizers: Mapping[str, int] = field(default_factory=dict)
    grace: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Empty:
    """Delete all objects of these kinds, and continue only when none is left; otherwise retry after some seconds.

    Attributes:
        resources: the kinds.
        namespace: the namespace; empty for all.
        again: seconds to wait for objects with finalizers or a grace period; longer for many objects.
        report: called with the remaining objects; the change that it returns is made at once. With it, a kind that
            cannot be deleted does not block the others.
    """

    resources: Sequence[Resource]
    namespace: str = ""
    again: float = 1.0
    report: Callable[[Sequence[Remaining]], Patch | None] | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Record an Event about an object; equal ones are combined with a count."""

    about: Obj
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


Single = Create | Patch | Replace | Delete | Confirm | Empty | Record


@dataclass(frozen=True, slots=True)
class Together:
    """Independent chains of operations, each executed in order; a failure ends only its own chain.

    When all have ended, the operation has failed if any chain has.
    """

    chains: Sequence[Sequence[Single]]


Operation = Single | Together


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a reconciliation: operations, and the time of the next one.

    Attributes:
        operations: executed in order; the first failure ends them, and the key is reconciled again.
        again: seconds after which to reconcile the key even without changes.
        foreseen: True if this accounts for the result of the operation on the key's object, so that seeing it does not
            trigger a reconciliation, unlike changes by others. Only for a single `Patch` with a version.
        refused: given the event reason for a rejected creation and the server's message, returns operations to report
            it. These operations are best effort: the key is reconciled again in any case.
    """

    operations: Sequence[Operation] = ()
    again: float | None = None
    foreseen: bool = False
    refused: Callable[[str, str], Sequence[Operation]] | None = None


Steps = Generator[Sequence[Operation], None, Outcome]
"""A reconciliation that reads very many objects. After each step, the operations that it yields are executed, and
others have their turn; a failure is raised when all steps are done. The view may change between steps."""


def finished(outcome: Outcome | Steps) -> Outcome:
    """Run a whole reconciliation, and return the operations of all steps."""
    if isinstance(outcome, Outcome):
        return outcome
    operations: list[Operation] = []
    while True:
        try:
            operations += next(outcome)
        except StopIteration as end:
            last: Outcome = end.value
            return replace(last, operations=[*operations, *last.operations])


def no_keys(obj: Obj) -> Iterable[Key]:
    """Return no keys: `Interest.keys` of a kind that is only looked up, and never triggers a reconciliation."""
    return ()


Texts = Callable[[Obj], "str | tuple[str, ...]"]
"""Returns the index value of an object, or several."""


def says(texts: Texts, obj: Obj, value: str) -> bool:
    """Return True if an object has a value in an index."""
    said = texts(obj)
    return said == value if isinstance(said, str) else value in said


@dataclass(frozen=True, slots=True)
class Interest:
    """A kind that a controller watches, and the keys to reconcile when its objects change.

    Attributes:
        resource: the kind; `ALL_KINDS` for every kind.
        keys: returns the keys that an object concerns, e.g. its own, or its owner's.
        labels: the labels by which the controller looks up objects.
        indexes: other indexes by name, such as `spec.nodeName`, each a function of an object; an object with an empty
            value is not in the index, one with several values is found by each. Controllers that use the same name
            mean the same function.
        aggregates: facts about all objects with the same value, by name, like indexes.
        delay: seconds by which a reconciliation may be delayed, so that many changes cause only one (a thousand pods
            that start do not cause a thousand reconciliations of their owner); one due sooner is not delayed.
        always: keys to reconcile once the view is complete, even if no object concerns them yet.
        fields: paths of the fields that the controller and these functions read, such as `metadata.finalizers` or, of
            each item of a list, `spec.volumes[].name`; None for all. The view keeps a field if any interest requests
            it, and always what identifies an object, its owners, and when it was deleted.
        matters: returns True for a change, from an object's old state to its new one (None for no object), that
            triggers a reconciliation; every change does without such a function.
        signs: paths of fields of which an object has at least one if it concerns any key or is in any index, unless
            it is deleted; None for no such fields. Of objects without them a view need not read more than their keys.
        unless: returns True for a key that, given the view, needs no reconciliation after a change of an object of this
            kind, such as that of a healthy node when a pod is added; changes that make it False must also concern the
            key. None for no such keys.
    """

    resource: Resource
    keys: Callable[[Obj], Iterable[Key]]
    labels: tuple[str, ...] = ()
    indexes: Mapping[str, Texts] = field(default_factory=dict)
    aggregates: Mapping[str, Aggregation] = field(default_factory=dict)
    delay: float = 0.0
    always: tuple[Key, ...] = ()
    fields: tuple[str, ...] | None = None
    matters: Callable[[Obj | None, Obj | None], bool] | None = None
    signs: tuple[str, ...] | None = None
    unless: Callable[[Key, View], bool] | None = None


class Controller(Protocol):
    """Reconciles objects, one key at a time; equal views give equal outcomes."""

    @property
    def name(self) -> str:
        """The name in logs and events."""
        ...

    @property
    def interests(self) -> Sequence[Interest]:
        """The kinds that the controller watches."""
        ...

    def reconcile(self, key: Key, view: View, now: int) -> Outcome | Steps:
        """Return the operations that a key needs; `now` in microseconds since 1970.

        In later calls, the view includes the writes for this key.
        """
        ...


class Clock(Protocol):
    """Time, so that it can be a virtual one.

    `now` is for users and objects; it may be set forward or backward. All waits, pauses and deadlines of a process use
    `monotonic`.
    """

    def now(self) -> int:
        """Return the wall-clock time: microseconds since 1970."""
        ...

    def monotonic(self) -> int:
        """Return microseconds since a fixed time; never goes backward, regardless of wall-clock time."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
