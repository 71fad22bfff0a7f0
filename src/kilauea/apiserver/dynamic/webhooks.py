"""Mutating and validating webhooks: their calls for a write, and the use of their responses."""

from __future__ import annotations

import asyncio
import logging
import operator
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from kilauea.apiserver import status
from kilauea.apiserver.admission.attributes import Attributes, in_version, subject_of
from kilauea.apiserver.dynamic.conditions import Inputs, conditions_hold
from kilauea.apiserver.dynamic.evaluation import ConditionError
from kilauea.apiserver.dynamic.matching import Selectors, find_match
from kilauea.apiserver.dynamic.remote import CallError, Remote, target_of
from kilauea.apiserver.dynamic.reviews import Verdict, denial, encode_review, read_verdict, request_of, review_version
from kilauea.apiserver.patch import json_patch
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.status import ApiFault

log = logging.getLogger(__name__)
Raw = Mapping[str, Any]
Settle = Callable[[], Awaitable[None]]
"""Completes the object of a write after a change, as the built-in steps do."""

AT_ONCE = 64
"""Validating webhooks that are called concurrently for one write."""
LARGEST_AT_ONCE = 16 * 1024 * 1024
"""Bytes of the objects in these calls."""
COST_OF_LOOK = 50
"""Cost of matching a rule of a webhook with a write."""


@dataclass(frozen=True)
class Webhook:
    """One webhook of a configuration."""

    configuration: str
    name: str
    raw: Raw
    selectors: Selectors
    mutating: bool

    @property
    def is_reinvocable(self) -> bool:
        """True if it is called again after changes of later webhooks."""
        return self.raw.get("reinvocationPolicy") == "IfNeeded"

    @property
    def fails_open(self) -> bool:
        """True if the write proceeds without its response."""
        return self.raw.get("failurePolicy") == "Ignore"


def webhooks_of(configurations: Sequence[Raw], *, mutating: bool) -> list[Webhook]:
    """Return all webhooks in the order of calls: by the names of their configurations."""
    ordered = sorted(configurations, key=lambda each: str(each["metadata"]["name"]))
    return [
        Webhook(configuration["metadata"]["name"], raw["name"], raw, Selectors.of(raw), mutating)
        for configuration in ordered
        for raw in configuration.get("webhooks") or ()
    ]


class Dispatcher:
    """Calls webhooks.

    Args:
        remote: sends the calls; without it, all calls fail.
    """

    def __init__(self, remote: Remote | None) -> None:
        self._remote = remote

    async def mutate(
        self, hooks: Sequence[Webhook], attributes: Attributes, settle: Settle, again: set[int]
    ) -> tuple[bool, set[int]]:
        """Call mutating webhooks in sequence; each sees the changes of the previous ones.

        Args:
            hooks: the webhooks that may apply.
            attributes: the write.
            settle: completes the object after a change.
            again: the only webhooks to call in a second round; empty in the first.

        Returns:
            True if the object has changed, and the webhooks to call again because it has changed since their call.
        """
        changed = False
        asked: set[int] = set()
        stale: set[int] = set()
        for number, hook in enumerate(hooks):
            if again and number not in again:
                continue
            if await self._mutate_once(hook, attributes, settle):
                changed = True
                stale |= asked
            if hook.is_reinvocable:
                asked.add(number)
        return changed, stale

    async def _mutate_once(self, hook: Webhook, attributes: Attributes, settle: Settle) -> bool:
        resource = await matched(hook, attributes)
        if resource is None:
            return False
        verdict = await self._ask(hook, attributes, resource)
        if verdict is None or not verdict.patch or attributes.obj is None:
            return False
        before = await in_version(attributes, resource, attributes.obj)
        subject = subject_of(attributes)
        try:
            changed = await subject.aside(json_patch, before, verdict.patch)
        except ApiFault as fault:
            raise status.internal(str(fault)) from fault
        if not isinstance(changed, dict):
            raise status.internal(f'admission webhook "{hook.name}" leaves no object')
        changed = await in_version(attributes, attributes.resource, changed)
        if await subject.aside(operator.eq, changed, attributes.obj):
            return False
        replace(attributes.obj, changed)
        await settle()
        subject.forget()
        return True

    async def validate(self, hooks: Sequence[Webhook], attributes: Attributes) -> None:
        """Call validating webhooks concurrently; raise the error of the first in order."""
        concerned = [(hook, resource) for hook in hooks if (resource := await matched(hook, attributes)) is not None]
        subject = subject_of(attributes)
        largest = max([sum(map(len, await subject.texts(resource))) for _, resource in concerned], default=0)
        places = asyncio.Semaphore(max(1, min(AT_ONCE, LARGEST_AT_ONCE // (largest or 1))))

        async def ask(hook: Webhook, resource: ResourceType) -> None:
            async with places:
                await self._ask(hook, attributes, resource)

        results = await asyncio.gather(*starmap(ask, concerned), return_exceptions=True)
        failures = [each for each in results if isinstance(each, BaseException)]
        del results
        try:
            if failures:
                raise failures[0]
        finally:
            failures.clear()  # the traceback refers to this frame

    async def _ask(self, hook: Webhook, attributes: Attributes, resource: ResourceType) -> Verdict | None:
        """Return the verdict of a webhook that allows a write; None if it failed and failures are ignored.

        Raises:
            ApiFault: it denies the write, or failed.
        """
        if attributes.dry_run and hook.raw.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise status.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            verdict = await self._call(hook, attributes, resource)
        except CallError as error:
            message = f'failed calling webhook "{hook.name}": {error}'
            if hook.fails_open:
                log.warning("%s; its failure policy lets the request pass", message)
                return None
            raise status.internal(message) from error
        attributes.warnings += verdict.warnings
        for key, text in verdict.audit.items():
            log.debug("audit annotation %s/%s of webhook %s: %s", hook.name, key, hook.configuration, text)
        if not verdict.allowed:
            raise denial(hook.name, verdict.result)
        return verdict

    async def _call(self, hook: Webhook, attributes: Attributes, resource: ResourceType) -> Verdict:
        if self._remote is None:
            raise CallError("failed to call webhook: this server has no client for webhooks")
        version, uid = review_version(hook.raw), attributes.backend.new_uid()
        subject = subject_of(attributes)
        obj, old = await subject.texts(resource)
        body = encode_review(version, request_of(attributes, resource, uid), obj, old)
        backend = attributes.backend
        target = target_of(hook.raw.get("clientConfig") or {}, backend.store, backend.connections)
        subject.rest()
        answer = await self._remote.post(target, body, float(hook.raw.get("timeoutSeconds") or 10))
        if not hook.mutating:
            return read_verdict(answer, version, uid, mutating=False)
        subject.grow(len(answer))
        return await subject.aside(read_verdict, answer, version, uid, mutating=True)


async def matched(hook: Webhook, attributes: Attributes) -> ResourceType | None:
    """Return the kind with which a webhook matches a write; None if it does not match.

    Raises:
        ApiFault: its conditions cannot be evaluated, and its failure policy is Fail.
    """
    subject, rules = subject_of(attributes), hook.raw.get("rules") or ()
    await subject.spend(COST_OF_LOOK * (1 + len(rules)))
    resource = find_match(rules, hook.raw.get("matchPolicy") or "Equivalent", attributes)
    if resource is None or not hook.selectors.match(attributes):
        return None
    conditions = hook.raw.get("matchConditions") or ()
    if not conditions:
        return resource
    try:
        inputs = Inputs(attributes, resource, *await subject.objects(resource))
        return resource if await conditions_hold(conditions, inputs) else None
    except ConditionError as error:
        if hook.fails_open:
            return None
        raise _condition_fault(attributes, str(error)) from error


def _condition_fault(attributes: Attributes, why: str) -> ApiFault:
    resource = attributes.resource
    return status.forbidden(resource.plural, resource.group, attributes.object_name(), why)


def replace(obj: dict[str, Any], changed: Mapping[str, Any]) -> None:
    """Replace the content of an object in place, as the caller holds the dict."""
    copy = dict(changed)
    obj.clear()
    obj.update(copy)
