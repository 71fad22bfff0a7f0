"""Admission of a write before it is stored: a step may complete the object or reject the write.

Steps run in order, first all that complete the object (`mutate`), then all that check it (`validate`). They run between
the read and the write of the object without waiting, so objects that they read cannot change meanwhile. Only webhooks
wait (`kilauea.apiserver.dynamic`): they are called after `mutate` and before `validate`, and steps whose `mutate`
depends on other objects check again (`recheck`).

A step that keeps accounts of writes, or that writes other objects as a consequence, is notified when the write begins
and when it ends (`begin`, `Effect`); `rest/writing.py` ensures that both always happen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from kilauea.apiserver import status
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.storage import Stored


class Effect(Protocol):
    """The consequences of a write in progress."""

    def cancel(self) -> None:
        """Undo the effect: the write has failed."""

    async def settle(self, stored: Stored) -> None:
        """Complete the effect of a durable write; the response is sent when this returns."""


Kind = tuple[str, str]
"""Group and plural."""


class AdmissionStep:
    """A step of admission; this base class does nothing."""

    name = ""
    kinds: frozenset[Kind] | None = None
    """The kinds that all methods handle; None for every kind."""

    def mutate(self, attributes: Attributes) -> None:
        """Complete the object; raise an `ApiFault` to reject the write."""

    def examine(self, attributes: Attributes) -> None:
        """Check the final object of a large write, outside the event loop; record the result for `validate`."""

    def validate(self, attributes: Attributes) -> None:
        """Check the final object; raise an `ApiFault` to reject the write."""

    def recheck(self, attributes: Attributes) -> None:
        """Check other objects again, which may have changed during calls of webhooks; raise an `ApiFault` to reject."""

    def begin(self, attributes: Attributes) -> Effect | None:
        """Return the effect of the write, which begins next; raise an `ApiFault` to reject it."""
        return None


class Admission:
    """Steps in order; each method runs only the steps that override it and handle the kind of the object."""

    def __init__(self, steps: Sequence[AdmissionStep] = ()) -> None:
        self._steps = tuple(steps)
        self._asked = lru_cache(maxsize=4096)(self._find)

    def mutate(self, attributes: Attributes) -> None:
        """Complete the object, or raise an `ApiFault`."""
        for step in self._of("mutate", attributes.resource):
            step.mutate(attributes)

    def examine(self, attributes: Attributes) -> None:
        """Check the final object of a large write, outside the event loop."""
        for step in self._of("examine", attributes.resource):
            step.examine(attributes)

    def validate(self, attributes: Attributes) -> None:
        """Check the final object, or raise an `ApiFault`."""
        for step in self._of("validate", attributes.resource):
            step.validate(attributes)

    def recheck(self, attributes: Attributes) -> None:
        """Check the write again after a wait, or raise an `ApiFault`."""
        for step in self._of("recheck", attributes.resource):
            step.recheck(attributes)

    def begin(self, attributes: Attributes) -> list[Effect]:
        """Return the effects of the write, which begins next; cancel them all if a step raises an `ApiFault`."""
        effects: list[Effect] = []
        try:
            for step in self._of("begin", attributes.resource):
                effect = step.begin(attributes)
                if effect is not None:
                    effects.append(effect)
        except BaseException:
            cancel_all(effects)
            raise
        return effects

    def _of(self, method: str, resource: ResourceType) -> tuple[AdmissionStep, ...]:
        return self._asked(method, resource.group, resource.plural)

    def _find(self, method: str, group: str, plural: str) -> tuple[AdmissionStep, ...]:
        """Return the steps with a method that handle a kind."""
        return tuple(
            step
            for step in self._steps
            if (step.kinds is None or (group, plural) in step.kinds)
            and getattr(type(step), method) is not getattr(AdmissionStep, method)
        )


def forbidden(attributes: Attributes, why: str) -> ApiFault:
    """Return the error of a step that rejects a write."""
    resource = attributes.resource
    return status.forbidden(resource.plural, resource.group, attributes.object_name(), why)


def cancel_all(effects: Iterable[Effect]) -> None:
    """Cancel the effects of a failed write."""
    for effect in effects:
        effect.cancel()
