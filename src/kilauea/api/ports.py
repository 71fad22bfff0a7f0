"""Interfaces between packages that do not import each other: an API, and controllers that a driver runs.

`Api` is an API server as a component sees it; the client speaks HTTP to any Kubernetes, and in one process a direct
transport takes its place. A `Controller` is pure: it is asked about one key, looks at a `View` of objects that watches
keep fresh, and answers with operations; its driver carries them out. The runtime hands the implementations in.

Objects are decoded JSON (dictionaries). Those in a view are shared and must not be changed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

Obj = Mapping[str, Any]
"""An object of the API, to be read."""

PatchType = Literal["json", "merge", "strategic", "apply"]
Propagation = Literal["Background", "Foreground", "Orphan"]


class Resource(NamedTuple):
    """A kind as its address names it."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects write it."""
        return f"{self.group}/{self.version}" if self.group else self.version


ALL_KINDS = Resource("*", "*", "*", "*")
"""In an interest: every kind that the server stores except events, also kinds that definitions add later."""


class Key(NamedTuple):
    """The key of an object; the namespace is empty for kinds without one."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """`namespace/name`, or the name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: Obj) -> Key:
    """The key of an object."""
    metadata = obj["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


# --- the API


@dataclass
class ApiError(Exception):
    """An answer other than success, as `metav1.Status` words it.

    Attributes:
        code: HTTP status; 0 if there was no answer.
        reason: e.g. NotFound, AlreadyExists, Conflict, Invalid, Expired, TooManyRequests.
        message: in words.
        details: as given, with causes.
        retry_after: seconds after which to try again; 0 if not said.
        reported: True if the connection has logged it, so that callers which try again need not.
    """

    code: int
    reason: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)
    retry_after: float = 0
    reported: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        """The message."""
        return self.message


class Holder(Protocol):
    """Something in this process that keeps an object anyway; its `value` may take time to read."""

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
        """The object, if it is kept decoded as well, as those are that have just been written; None else."""
        ...


Text = bytes | Holder
"""The text of an object, or what keeps it anyway."""


LARGEST_DECODED = 16 * 1024
"""Bytes of an object from which on caches do not keep it decoded, too.

Decoded it takes ten times as much, and clients may write a thousand objects of a megabyte that take little compressed.
"""


def bytes_of(text: Text) -> bytes:
    """The bytes of an object."""
    return text if isinstance(text, bytes) else text.value


def is_kept_decoded(text: Text) -> bool:
    """Return True if caches may keep an object decoded, beside this text."""
    return (len(text) if isinstance(text, bytes) else text.length) <= LARGEST_DECODED


class Listed(NamedTuple):
    """All objects of a kind as they were at one version, each as its bytes.

    `holders` are what keeps them, one for each, in the process of a server: to keep those takes no memory.
    """

    items: Sequence[bytes]
    version: str
    holders: Sequence[Holder] = ()

    @property
    def texts(self) -> Sequence[Text]:
        """The objects in the form to keep."""
        return self.holders or self.items


class Seen(NamedTuple):
    """One event of a watch. A bookmark has only a version; an error has ended as an `ApiError` before.

    `holder` is what keeps the object, in the process of a server: to keep that takes no memory.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: bytes
    version: str
    holder: Holder | None = None


class Api(Protocol):
    """An API server. All calls raise `ApiError`; a lost connection is one with code 0."""

    async def get(self, resource: Resource, key: Key, subresource: str = "") -> dict[str, Any]:
        """One object."""
        ...

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        reduce: Callable[[bytes], bytes] | None = None,
    ) -> Listed:
        """All objects of a kind, of all namespaces if none is named, read page by page.

        `reduce` is called with each object as it arrives, and the list has what it returns: all objects of a large
        cluster take several times the memory of what a reader needs of them.
        """
        ...

    async def check_list(self, resource: Resource) -> None:
        """Raise the error that a list of a kind would have; reads at most one object."""
        ...

    def watch(
        self, resource: Resource, version: str, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[Seen]]:
        """Yield the events after a version, in batches, with bookmarks; ends when the server ends it."""
        ...

    async def create(
        self, resource: Resource, namespace: str, body: Obj, subresource: str = "", name: str = ""
    ) -> dict[str, Any]:
        """Create an object; with a subresource (`binding`, `eviction`) that of the named object."""
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
        """Change an object; returns it as its bytes, as watches do, since few want to know more than its version."""
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
        """Delete an object, if it still has this uid."""
        ...

    async def delete_all(self, resource: Resource, namespace: str = "") -> bool:
        """Delete all objects of a kind, of all namespaces if none is named; returns True if none is left."""
        ...


# --- controllers


class View(Protocol):
    """Objects of the kinds that a controller watches, as the watches know them; without their `managedFields`."""

    def get(self, resource: Resource, key: Key) -> Obj | None:
        """One object."""
        ...

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Obj]:
        """All objects of a kind, or those of a namespace, in order of their keys."""
        ...

    def owned(self, resource: Resource, uid: str, namespace: str, most: int | None = None) -> Sequence[Obj]:
        """Objects of a kind of which the one with this uid is an owner, in order of their keys.

        Args:
            resource: the kind.
            uid: of the owner.
            namespace: of the owner, as objects of other namespaces cannot have it, whatever they say; empty for all.
            most: so many of them at most, which may be few of thousands; None for all.
        """
        ...

    def labelled(self, resource: Resource, label: str, value: str) -> Sequence[Obj]:
        """Objects of a kind with a label, in order of their keys; only labels that a controller names as indexed."""
        ...

    def indexed(self, resource: Resource, index: str, value: str) -> Sequence[Obj]:
        """Objects of a kind for which an index that a controller has given says this value, in order of their keys."""
        ...

    def count_indexed(self, resource: Resource, index: str, value: str) -> int:
        """Return the number of these objects, none of which is looked at."""
        ...

    def aggregate(self, resource: Resource, name: str, value: str) -> Aggregate | None:
        """The aggregate that a controller has given this name, of the objects with a value; None if there are none."""
        ...


class Aggregate(Protocol):
    """Facts about many objects that are kept up to date object by object, so that a look at all of them reads none.

    They follow from what the objects are now, whatever happened before.
    """

    def __len__(self) -> int:
        """The number of objects."""
        ...

    def put(self, key: Key, obj: Obj) -> None:
        """An object has come, or has changed."""
        ...

    def drop(self, key: Key) -> None:
        """An object is gone, or has another value; it need not have been put."""
        ...


class Aggregation(NamedTuple):
    """A way to aggregate objects of a kind.

    Attributes:
        by: returns the value of an object, as the function of an index does; one with the empty text is left out.
        new: makes the aggregate of a value.
    """

    by: Callable[[Obj], str]
    new: Callable[[], Aggregate]


class Wording(NamedTuple):
    """The reason of an event about a refusal, and the words before the server's."""

    reason: str
    words: str


CREATION_REFUSED = Wording("FailedCreate", "Error creating: ")
"""The words of Kubernetes' controllers."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; an existing one is not an error.

    A refusal by the server (not a lost connection) is reported on `about`, if given, as a Warning of the reason and
    with the words of `wording`.
    """

    resource: Resource
    body: Obj
    about: Obj | None = None
    wording: Wording = CREATION_REFUSED


@dataclass(frozen=True, slots=True)
class Patch:
    """Change an object; a missing one is not an error, one of another version (if one is given) is reconciled again."""

    resource: Resource
    key: Key
    patch: Any
    type: PatchType = "merge"
    subresource: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object if it still has this uid; a missing one is not an error."""

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
    """One object, which another one of the same name does not stand for; without a uid, any of that name."""

    resource: Resource
    key: Key
    uid: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """Go on only if the server, too, says that these objects do not exist; otherwise ask about the key again.

    A view may lag, and each kind by itself: an object may be seen before its owner is.
    """

    absent: Sequence[Reference]


@dataclass(frozen=True, slots=True)
class Remaining:
    """The rest of a kind after all its objects were deleted.

    Attributes:
        resource: the kind.
        count: objects that still exist.
        finalizers: how many of them wait for each finalizer.
        grace: seconds that one of them may still take to end.
        fault: the reason why they could not be deleted or listed; empty if they could.
    """

    resource: Resource
    count: int = 0
    finalizers: Mapping[str, int] = field(default_factory=dict)
    grace: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Empty:
    """Delete all objects of these kinds, and go on only when none is left; otherwise ask again after some seconds.

    Attributes:
        resources: the kinds.
        namespace: in which; empty for everywhere.
        again: seconds, for objects that finalizers or a grace period hold; more of them are asked for less often.
        report: called with what is left; the change that it returns is made at once. With it, a kind that cannot be
            deleted does not keep the others.
    """

    resources: Sequence[Resource]
    namespace: str = ""
    again: float = 1.0
    report: Callable[[Sequence[Remaining]], Patch | None] | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Tell of something about an object, as an Event; equal ones are counted together."""

    about: Obj
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


Single = Create | Patch | Replace | Delete | Confirm | Empty | Record


@dataclass(frozen=True, slots=True)
class Together:
    """Chains of operations that need not wait for each other, each in order; one that fails ends only its own.

    When all have ended, the whole has failed if one has.
    """

    chains: Sequence[Sequence[Single]]


Operation = Single | Together


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a reconciliation: operations, and when to look again.

    Attributes:
        operations: to be carried out in order; the first that fails ends them, and the key is asked about again.
        again: seconds after which to ask about the key even if nothing happens.
        foreseen: True if this takes into account what the operation makes of the key's object, so that to see that is
            no reason to ask; what others do is. Only where there is one, and it is a `Patch` with a version.
        refused: given the reason of the event about a creation that the server refuses, and the server's message,
            returns what to write about it. These operations are best effort: the key is asked about again in any case.
    """

    operations: Sequence[Operation] = ()
    again: float | None = None
    foreseen: bool = False
    refused: Callable[[str, str], Sequence[Operation]] | None = None


Steps = Generator[Sequence[Operation], None, Outcome]
"""A reconciliation that looks at very many objects. After each step, the operations that it yields are carried out, and
others have their turn; a failure is raised when all steps are done. The view may change between steps."""


def finished(outcome: Outcome | Steps) -> Outcome:
    """All of a reconciliation, with the operations of all of its steps."""
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
    """An object that is only looked up: `Interest.keys` of a kind of which no change makes a controller look."""
    return ()


Texts = Callable[[Obj], "str | tuple[str, ...]"]
"""The text that an index says of an object, or several."""


def says(texts: Texts, obj: Obj, value: str) -> bool:
    """Return True if an index says a text of an object."""
    said = texts(obj)
    return said == value if isinstance(said, str) else value in said


@dataclass(frozen=True, slots=True)
class Interest:
    """A kind that a controller wants to see, and about which keys an object of it makes it look.

    Attributes:
        resource: the kind; `ALL_KINDS` for every kind.
        keys: keys that an object concerns, e.g. its own, or its owner's.
        labels: labels by which the controller looks objects up.
        indexes: further look-ups, each a function of an object by a name, such as `spec.nodeName`; an object for
            which it says the empty text is not in it, one for which it says several texts is found by each. Two
            controllers that give the same name mean the same function.
        aggregates: facts about all objects with the same value, each by a name, as with indexes.
        delay: seconds by which a look may be put off, so that many changes make one look (a thousand pods that start
            are not a thousand reconciliations of their owner); what is due sooner for another reason is not put off.
        always: keys to ask about once the view is complete, although no object may concern them (yet).
        fields: paths of the fields that the controller and these functions read, such as `metadata.finalizers` or, of
            each item of a list, `spec.volumes[].name`; None for all. The view keeps a field if any interest requests
            it, and always what identifies an object, its owners, and when it was deleted.
        matters: returns True for a change, from an object's old state to its new one (None for no object), that
            makes the controller look; every change does if there is no such function.
        signs: paths of fields of which an object has at least one if it concerns any key or is in any index, unless
            it is deleted; None for no such fields. Of objects without them a view need not read more than their keys.
        unless: returns True for a key about which, as the view is, a change of an object of this kind gives nothing to
            do, such as that of a node that is well when a pod comes; what makes it False must concern the key, too.
            None for no such keys.
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
    """Keeps objects as they should be, one key at a time; equal views give equal outcomes."""

    @property
    def name(self) -> str:
        """In logs and events."""
        ...

    @property
    def interests(self) -> Sequence[Interest]:
        """The kinds that the controller watches."""
        ...

    def reconcile(self, key: Key, view: View, now: int) -> Outcome | Steps:
        """Return the operations that a key needs; `now` in microseconds since 1970.

        Asked again, it may trust the view to show what was written for this key before.
        """
        ...


class Clock(Protocol):
    """Time, so that it can be a virtual one.

    `now` is for what people read and for what objects say; it may be set, forward or backward. Every wait, pause
    and deadline of a process goes by `monotonic`.
    """

    def now(self) -> int:
        """The time of day: microseconds since 1970."""
        ...

    def monotonic(self) -> int:
        """Microseconds since a fixed moment; never goes backward, whatever becomes of the time of day."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
