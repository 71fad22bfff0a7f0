"""Admission of a write before it is stored: a step may complete the object, or reject the write.

Steps are asked in order, first all to complete the object (`mutate`), then all to agree to it (`validate`). They run
between reading what is there and writing, without waiting in between, so what they read cannot change under them. Only
webhooks wait (`kilauea.apiserver.dynamic`): they are asked after `mutate` and before `validate`, and steps that depend
on other objects since `mutate` look again (`recheck`).

A step that keeps account of what is written, or that writes something else in consequence, is told when the write
begins and when it has come out (`begin`, `Effect`); `rest/writing.py` sees to it that both always happen.
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
            cancel_all(effects)
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


def cancel_all(effects: Iterable[Effect]) -> None:
    """Tell that a write failed."""
    for effect in effects:
        effect.cancel()
