"""What looks at a write before it is kept: it may complete the object, and it may refuse.

Steps are asked in order, first all to complete the object (`mutate`), then all to agree to it (`validate`). They run
between reading what is there and writing, without waiting in between, so what they read cannot change under them.

A step that keeps account of what is written, or that writes something else in consequence, is told when the write
begins and when it has come out (`begin`, `Effect`); `write_admitted` sees to it that both always happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kilauea.apiserver import status
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.request import User
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.storage import Stored

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Attributes:
    """What is about to happen.

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
        dry_run: whether nothing will be written.
        warnings: texts for the caller; steps may add to them.
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

    def object_name(self) -> str:
        """The name of the object, also where it was generated; the beginning of it while it is still to be."""
        metadata = (self.obj or self.old or {}).get("metadata") or {}
        return str(self.name or metadata.get("name") or metadata.get("generateName") or "Unknown")


class Effect(Protocol):
    """What follows from a write that is under way."""

    def cancel(self) -> None:
        """The write failed."""

    async def settle(self, stored: Stored) -> None:
        """The write is durable; the caller is answered when this returns."""


class AdmissionStep:
    """One look at a write; this one has nothing to say."""

    name = ""

    def mutate(self, attributes: Attributes) -> None:
        """Complete the object; raise an `ApiFault` to refuse."""

    def validate(self, attributes: Attributes) -> None:
        """Agree to the final object, or raise an `ApiFault`."""

    def begin(self, attributes: Attributes) -> Effect | None:
        """What follows from the write that is sent next; may still refuse it with an `ApiFault`."""
        return None


def forbidden(attributes: Attributes, why: str) -> ApiFault:
    """The refusal of a write by a step."""
    resource = attributes.resource
    return status.forbidden(resource.plural, resource.group, attributes.object_name(), why)


async def write_admitted(
    attributes: Attributes, key: str, expected: int, encode: Callable[[int], bytes] | None
) -> Stored:
    """`Store.write` with what follows from it in admission."""
    effects: list[Effect] = []
    try:
        for step in attributes.backend.admission:
            effect = step.begin(attributes)
            if effect is not None:
                effects.append(effect)
    except BaseException:
        _cancel(effects)
        raise
    if not effects:
        return await attributes.backend.store.write(key, expected, encode)
    # A caller that goes away takes neither the write with it nor what follows from it.
    return await asyncio.shield(asyncio.ensure_future(_write(attributes.backend, effects, key, expected, encode)))


async def _write(
    backend: Backend, effects: Sequence[Effect], key: str, expected: int, encode: Callable[[int], bytes] | None
) -> Stored:
    try:
        stored = await backend.store.write(key, expected, encode)
    except BaseException:
        _cancel(effects)
        raise
    for effect in effects:
        await effect.settle(stored)
    return stored


def _cancel(effects: Sequence[Effect]) -> None:
    for effect in effects:
        effect.cancel()
