"""A write to admit, and its objects in the versions that webhooks and policies request.

Every step receives `Attributes`. All webhooks and policies of a write share one `Subject`.
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
"""Bytes of JSON to which webhooks and policies may extend an object; the same limit as for the body of a request."""
COST_OF_TURN = 40_000
"""The cost, in units of expression cost, after which other requests have their turn: about ten milliseconds."""
BYTES_OF_COST = 20
"""Bytes of JSON that are read at a cost of one."""


class Work(Protocol):
    """The work of a write, which runs outside the event loop if the write is large."""

    async def aside(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call a function that depends only on the written object."""
        ...

    def grow(self, size: int) -> None:
        """Continue as a large write if a change of this many bytes makes it one."""

    def rest(self) -> None:
        """Let other large writes go on, as this one waits."""


@dataclass(slots=True)
class Attributes:
    """The write to admit.

    Attributes:
        backend: the state of the server, to read other objects.
        operation: the operation; an eviction or a binding is a CREATE of that subresource.
        resource: the kind of the object.
        subresource: empty for the object itself.
        namespace: empty for cluster-scoped objects.
        name: empty until it is generated.
        obj: the new object; None for deletions. Steps may change it in `mutate`.
        old: the current object; None for creations.
        user: the caller.
        dry_run: True if nothing will be written.
        warnings: warnings for the caller; steps may add to them.
        waited: True if webhooks were called, so that other objects may have changed since `mutate`.
        verb: the verb of the request, such as `patch`, as in roles.
        work: runs work on large objects; None to run it in the event loop.
        subject: the objects for webhooks and policies, once needed.
        examined: the result of `examine`; None for a write that is not large.
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
        """Return the name of the object, also if it was generated; its prefix until it is generated."""
        metadata = (self.obj or self.old or {}).get("metadata") or {}
        return str(self.name or metadata.get("name") or metadata.get("generateName") or "Unknown")


class Form(NamedTuple):
    """An object in some version, and its JSON; None if the object does not exist."""

    obj: Object | None
    text: msgspec.Raw


class Subject:
    """The objects for webhooks and policies, and the accumulated cost of their calls.

    Args:
        attributes: the write.
    """

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes
        self._forms: dict[tuple[str, str], Form] = {}
        self._spent = 0
        self.namespace: list[Object | None] = []
        """The namespace, once requested."""
        self.others: list[ResourceType] | None = None
        """Other kinds of the same stored objects, once requested."""

    def forget(self) -> None:
        """Discard all results, as the object has changed or time has passed."""
        self._forms.clear()
        self.namespace.clear()
        self.others = None

    async def spend(self, cost: int) -> None:
        """Add to the cost of the write; let other requests have their turn when it is high enough."""
        self._spent += cost
        if self._spent > COST_OF_TURN:
            self._spent = 0
            await asyncio.sleep(0)

    async def aside(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call a function that depends only on objects of the write; for a large write, outside the event loop."""
        work = self._attributes.work
        return function(*args, **options) if work is None else await work.aside(function, *args, **options)

    def grow(self, size: int) -> None:
        """Continue as a large write if a change of this many bytes makes it one."""
        if self._attributes.work is not None:
            self._attributes.work.grow(size)

    def rest(self) -> None:
        """Let other large writes go on, as this one waits."""
        if self._attributes.work is not None:
            self._attributes.work.rest()

    async def objects(self, resource: ResourceType) -> tuple[Object | None, Object | None]:
        """Return the new and the old object in the version of a kind; they are shared and must not be changed."""
        return (await self._form("obj", resource)).obj, (await self._form("old", resource)).obj

    async def texts(self, resource: ResourceType) -> tuple[msgspec.Raw, msgspec.Raw]:
        """Return the new and the old object in the version of a kind, as JSON."""
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
    """Call webhooks and policies for a write, and discard the subject afterwards.

    The subject and the write refer to each other, so the objects would stay until garbage collection.
    """
    attributes.subject = None
    try:
        yield
    finally:
        attributes.subject = None


def subject_of(attributes: Attributes) -> Subject:
    """Return the subject of a write, which is created once."""
    if attributes.subject is None:
        attributes.subject = Subject(attributes)
    return attributes.subject


async def in_version(attributes: Attributes, resource: ResourceType, obj: Object) -> Object:
    """Return a copy of an object in the version of a kind; an object of another kind (a Binding, a Scale) is unchanged.

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
