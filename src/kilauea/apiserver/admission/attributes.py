"""A write to admit, and its objects in the versions that webhooks and policies ask for.

`Attributes` is what every step looks at. `Subject` is shared by all that is asked about one write, however many
webhooks and policies there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, TypeVar

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.decoding import decode
from kilauea.apiserver.request import User
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.server_state import ServerState

Object = dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
P = ParamSpec("P")
T = TypeVar("T")

LARGEST = 3 * 1024 * 1024
"""Bytes of JSON to which webhooks and policies may let an object grow, as much as the body of a request may have."""
COST_OF_TURN = 40_000
"""Cost, as that of expressions, after which other requests have their turn: some ten milliseconds."""
BYTES_OF_COST = 20
"""Bytes of JSON that are read at a cost of one."""


class Work(Protocol):
    """The work of a write, which is done outside the event loop if the write is large."""

    async def aside(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call a function that depends only on the object of the write."""
        ...

    def grow(self, size: int) -> None:
        """Go on as a large write if this many bytes change the object, and such a write has as many."""

    def rest(self) -> None:
        """Let other large writes go on, as this one waits."""


@dataclass(slots=True)
class Attributes:
    """The write to admit.

    Attributes:
        backend: the state of the server, to read other objects.
        operation: what is done; an eviction or a binding is a CREATE of that subresource.
        resource: the kind of the object.
        subresource: empty for the object itself.
        namespace: empty for objects of the cluster.
        name: empty while it is still to be generated.
        obj: the object as it will be; None for deletions. Steps may change it in `mutate`.
        old: the object as it is; None for creations.
        user: who asks.
        dry_run: True if nothing will be written.
        warnings: texts for the caller; steps may add to them.
        waited: True if webhooks were asked, so that other objects may have changed since `mutate`.
        verb: that of the request, such as `patch`, as roles name it.
        work: where work on large objects is done; None to do it in the event loop.
        subject: what webhooks and policies are asked about, once there are any.
        examined: what a step has found in `examine`; None for a write that is not large.
    """

    backend: ServerState
    operation: Operation
    resource: ResourceType
    subresource: str
    namespace: str
    name: str
    obj: dict[str, Any] | None
    old: dict[str, Any] | None
    user: User
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)
    waited: bool = False
    verb: str = ""
    work: Work | None = None
    subject: Subject | None = None
    examined: Any = None

    def object_name(self) -> str:
        """The name of the object, also where it was generated; the beginning of it while it is still to be."""
        metadata = (self.obj or self.old or {}).get("metadata") or {}
        return str(self.name or metadata.get("name") or metadata.get("generateName") or "Unknown")


class Form(NamedTuple):
    """An object in some version, and its JSON; None if there is none."""

    obj: Object | None
    text: msgspec.Raw


class Subject:
    """The objects that are asked about, and the work that was done for all that is asked.

    Args:
        attributes: the write.
    """

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes
        self._forms: dict[tuple[str, str], Form] = {}
        self._spent = 0
        self.namespace: list[Object | None] = []
        """The namespace, once someone has asked for it."""
        self.others: list[ResourceType] | None = None
        """Other kinds that are the same stored objects, once someone has asked for them."""

    def forget(self) -> None:
        """Make everything again, as the object has changed or time has passed."""
        self._forms.clear()
        self.namespace.clear()
        self.others = None

    async def spend(self, cost: int) -> None:
        """Let other requests have their turn, once this much work has been done since they had one."""
        self._spent += cost
        if self._spent > COST_OF_TURN:
            self._spent = 0
            await asyncio.sleep(0)

    async def aside(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call a function that depends only on objects of the write; for a large write, outside the loop."""
        work = self._attributes.work
        return function(*args, **options) if work is None else await work.aside(function, *args, **options)

    def grow(self, size: int) -> None:
        """Go on as a large write if what changes the object has so many bytes."""
        if self._attributes.work is not None:
            self._attributes.work.grow(size)

    def rest(self) -> None:
        """Let other large writes go on, as this one waits."""
        if self._attributes.work is not None:
            self._attributes.work.rest()

    async def objects(self, resource: ResourceType) -> tuple[Object | None, Object | None]:
        """The new and the old object in the version of a kind, which all share: they must not be changed."""
        return (await self._form("obj", resource)).obj, (await self._form("old", resource)).obj

    async def texts(self, resource: ResourceType) -> tuple[msgspec.Raw, msgspec.Raw]:
        """The new and the old object in the version of a kind, as JSON."""
        return (await self._form("obj", resource)).text, (await self._form("old", resource)).text

    async def _form(self, which: Literal["obj", "old"], resource: ResourceType) -> Form:
        key = (which, resource.api_version)
        if key not in self._forms:
            obj = self._attributes.obj if which == "obj" else self._attributes.old
            found = None if obj is None else await in_version(self._attributes, resource, obj)
            text = await self.aside(msgspec.json.encode, found)
            await self.spend(len(text) // BYTES_OF_COST)
            self._forms[key] = Form(found, msgspec.Raw(text))
        return self._forms[key]


@contextmanager
def asking_about(attributes: Attributes) -> Iterator[None]:
    """Ask about a write as it is now, and keep nothing of what was made for that.

    The subject and the write refer to each other, so its objects would stay until the garbage collector comes.
    """
    attributes.subject = None
    try:
        yield
    finally:
        attributes.subject = None


def subject_of(attributes: Attributes) -> Subject:
    """Return the subject of all questions about a write; the same each time."""
    if attributes.subject is None:
        attributes.subject = Subject(attributes)
    return attributes.subject


async def in_version(attributes: Attributes, resource: ResourceType, obj: Object) -> Object:
    """A copy of an object in the version of a kind; what is not such an object (a Binding, a Scale) stays.

    Raises:
        ApiFault: it has become too large (413), or cannot be converted.
    """
    subject = subject_of(attributes)
    value = await subject.aside(msgspec.json.encode, obj)
    if len(value) > LARGEST:
        raise status.too_large(LARGEST)
    subject.grow(len(value))
    copy = await subject.aside(decode, value)
    known = (attributes.resource.api_version, resource.api_version)
    if obj.get("apiVersion") not in known or obj.get("apiVersion") == resource.api_version:
        return copy
    if resource.conversion is not None:
        subject.rest()
        return (await resource.conversion.convert([copy], resource.api_version))[0]
    if resource.other_form is not None:
        return decode(resource.other_form.served(value, resource.api_version))
    if attributes.resource.other_form is not None:
        return attributes.resource.other_form.stored(copy)
    return copy | {"apiVersion": resource.api_version}
