"""Admission of a write before it is stored: a step may complete the object, or reject the write.

Steps are asked in order, first all to complete the object (`mutate`), then all to agree to it (`validate`). They run
between reading what is there and writing, without waiting in between, so what they read cannot change under them. Only
webhooks wait (`kilauea.apiserver.dynamic`): they are asked after `mutate` and before `validate`, and steps that depend
on other objects since `mutate` look again (`recheck`).

A step that keeps account of what is written, or that writes something else in consequence, is told when the write
begins and when it has come out (`begin`, `Effect`); `write_admitted` sees to it that both always happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar

from kilauea.apiserver import status
from kilauea.apiserver.request import User
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.storage import Stored

if TYPE_CHECKING:
    from kilauea.apiserver.backend import Backend
    from kilauea.apiserver.dynamic.versions import Subject

P = ParamSpec("P")
T = TypeVar("T")
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


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
        backend: to read other objects.
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

    backend: Backend
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


class Effect(Protocol):
    """The consequences of a write in progress."""

    def cancel(self) -> None:
        """The write failed."""

    async def settle(self, stored: Stored) -> None:
        """The write is durable; the caller is answered when this returns."""


Kind = tuple[str, str]
"""Group and plural."""


class AdmissionStep:
    """One look at a write; this one has nothing to say."""

    name = ""
    kinds: frozenset[Kind] | None = None
    """The kinds that it looks at, in all of its methods; None for every kind."""

    def mutate(self, attributes: Attributes) -> None:
        """Complete the object; raise an `ApiFault` to refuse."""

    def examine(self, attributes: Attributes) -> None:
        """Look at the final object of a large write alone, outside the event loop; note what `validate` is to know."""

    def validate(self, attributes: Attributes) -> None:
        """Agree to the final object, or raise an `ApiFault`."""

    def recheck(self, attributes: Attributes) -> None:
        """Look at other objects again, which may have changed while webhooks were asked; raise an `ApiFault`."""

    def begin(self, attributes: Attributes) -> Effect | None:
        """Return the consequences of the write that is sent next; may still refuse it with an `ApiFault`."""
        return None


class Admission:
    """Steps in their order; of each method only those are asked that have it and look at the kind of the object."""

    def __init__(self, steps: Sequence[AdmissionStep] = ()) -> None:
        self._steps = tuple(steps)
        self._asked = lru_cache(maxsize=4096)(self._find)

    def mutate(self, attributes: Attributes) -> None:
        """Have the object completed, or refused with an `ApiFault`."""
        for step in self._of("mutate", attributes.resource):
            step.mutate(attributes)

    def examine(self, attributes: Attributes) -> None:
        """Check the final object of a large write, outside the event loop."""
        for step in self._of("examine", attributes.resource):
            step.examine(attributes)

    def validate(self, attributes: Attributes) -> None:
        """Have the final object agreed to, or refused with an `ApiFault`."""
        for step in self._of("validate", attributes.resource):
            step.validate(attributes)

    def recheck(self, attributes: Attributes) -> None:
        """Have the write looked at again after a wait, or refused with an `ApiFault`."""
        for step in self._of("recheck", attributes.resource):
            step.recheck(attributes)

    def begin(self, attributes: Attributes) -> list[Effect]:
        """Return the consequences of the write that is sent next; none of them if a step refuses with an `ApiFault`."""
        effects: list[Effect] = []
        try:
            for step in self._of("begin", attributes.resource):
                effect = step.begin(attributes)
                if effect is not None:
                    effects.append(effect)
        except BaseException:
            _cancel(effects)
            raise
        return effects

    def _of(self, method: str, resource: ResourceType) -> tuple[AdmissionStep, ...]:
        return self._asked(method, resource.group, resource.plural)

    def _find(self, method: str, group: str, plural: str) -> tuple[AdmissionStep, ...]:
        """The steps to ask about a kind."""
        return tuple(
            step
            for step in self._steps
            if (step.kinds is None or (group, plural) in step.kinds)
            and getattr(type(step), method) is not getattr(AdmissionStep, method)
        )


def forbidden(attributes: Attributes, why: str) -> ApiFault:
    """The refusal of a write by a step."""
    resource = attributes.resource
    return status.forbidden(resource.plural, resource.group, attributes.object_name(), why)


async def write_admitted(
    attributes: Attributes,
    key: str,
    expected: int,
    encode: Callable[[int], bytes] | None,
    decoded: dict[str, Any] | None = None,
) -> Stored:
    """`Store.write` with what follows from it in admission."""
    effects = attributes.backend.admission.begin(attributes)
    if not effects:
        return await attributes.backend.store.write(key, expected, encode, decoded)
    # A caller that goes away takes neither the write with it nor what follows from it.
    writing = asyncio.ensure_future(_write(attributes.backend, effects, key, expected, encode, decoded))
    writing.add_done_callback(_retrieve)
    return await asyncio.shield(writing)


async def _write(
    backend: Backend,
    effects: Sequence[Effect],
    key: str,
    expected: int,
    encode: Callable[[int], bytes] | None,
    decoded: dict[str, Any] | None,
) -> Stored:
    try:
        stored = await backend.store.write(key, expected, encode, decoded)
    except BaseException:
        _cancel(effects)
        raise
    for effect in effects:
        await effect.settle(stored)
    return stored


def _retrieve(writing: asyncio.Future[Stored]) -> None:
    """Look at the error of a write whose caller may have gone: asyncio logs errors that are never looked at."""
    if not writing.cancelled():
        writing.exception()


def _cancel(effects: Sequence[Effect]) -> None:
    for effect in effects:
        effect.cancel()
