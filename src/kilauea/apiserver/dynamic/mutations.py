"""Mutating admission policies: the patches that result from their expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kilauea.apiserver.admission.attributes import Attributes, Subject, in_version, subject_of
from kilauea.apiserver.dynamic.conditions import Inputs, conditions_hold
from kilauea.apiserver.dynamic.evaluation import ConditionError
from kilauea.apiserver.dynamic.policies import (
    Application,
    Denial,
    Policy,
    applications,
    inputs_of,
    refusal,
    same,
)
from kilauea.apiserver.dynamic.webhooks import Settle, replace
from kilauea.apiserver.patch import FailedTest, json_patch, merge_configuration
from kilauea.apiserver.schema.nodes import Schema
from kilauea.apiserver.schema.policy_literals import plain_literals
from kilauea.apiserver.status import ApiFault

Raw = Mapping[str, Any]
KIND = "MutatingAdmissionPolicy"


async def change_by_policies(policies: Sequence[Policy], attributes: Attributes, settle: Settle) -> None:
    """Let policies change an object in sequence; those affected by a later change may run again.

    Raises:
        ApiFault: one cannot be evaluated, and its failure policy is Fail.
    """
    if attributes.obj is None or not policies:
        return
    stale: list[Policy] = []
    ran: list[Policy] = []
    for policy in policies:
        if await _run(policy, attributes, settle):
            stale += [each for each in ran if each not in stale]
        if policy.is_reinvocable:
            ran.append(policy)
    for policy in stale:
        await _run(policy, attributes, settle)


async def _run(policy: Policy, attributes: Attributes, settle: Settle) -> bool:
    """Apply the mutations of a policy for each of its bindings; return True if they changed the object."""
    denials: list[Denial] = []
    changed = False
    async for each in applications([policy], attributes, denials):
        try:
            changed |= await _apply(each, attributes)
        except ConditionError as error:
            if not policy.fails_open:
                denials.append(Denial(policy, each.binding, str(error)))
    if denials:
        raise _refusal(attributes, denials[0])
    if changed:
        await settle()
        subject_of(attributes).forget()
    return changed


def _refusal(attributes: Attributes, denial: Denial) -> ApiFault:
    """Return the error for a write that a policy cannot change, which names the object only in the details."""
    fault = refusal(attributes, denial, "policy")
    details = fault.status["details"]
    return ApiFault(403, "Invalid", details["causes"][0]["message"], details)


async def _apply(application: Application, attributes: Attributes) -> bool:
    """Apply the mutations of a policy in order."""
    if attributes.obj is None:
        return False
    conditions = application.policy.spec.get("matchConditions") or ()
    if not await conditions_hold(conditions, await inputs_of(application, attributes)):
        return False
    changed, subject = False, subject_of(attributes)
    for mutation in application.policy.spec.get("mutations") or ():
        inputs = await inputs_of(application, attributes)
        obj = await in_version(attributes, application.resource, attributes.obj)
        new = await _mutated(application, mutation, inputs, obj, subject)
        new = await in_version(attributes, attributes.resource, new)
        if not await subject.aside(same, new, attributes.obj):
            replace(attributes.obj, new)
            changed = True
        subject.forget()  # the patch may share parts with its sources
    return changed


async def _mutated(application: Application, mutation: Raw, inputs: Inputs, obj: Any, subject: Subject) -> Any:
    """Return the object with one mutation applied."""
    try:
        if mutation.get("patchType") == "JSONPatch":
            operations = await _evaluated(inputs, mutation, "jsonPatch")
            copy = await subject.aside(lambda: msgspec.json.decode(msgspec.json.encode(obj)))
            return await subject.aside(json_patch, copy, operations)
        patch = await _evaluated(inputs, mutation, "applyConfiguration")
        if not isinstance(patch, dict):
            raise ConditionError("must evaluate to Object")
        resource = application.resource
        schema = resource.schema if obj.get("kind") == resource.kind else None
        return await subject.aside(_with_configuration, obj, patch, schema)
    except FailedTest:  # a failed test means that the patch does not apply to this object
        return obj
    except ApiFault as fault:
        raise ConditionError(str(fault)) from fault


def _with_configuration(obj: dict[str, Any], patch: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    try:
        return merge_configuration(obj, patch, schema)
    except ValueError as error:
        raise ConditionError(f"error applying patch: {error}") from error


async def _evaluated(inputs: Inputs, mutation: Raw, field: str) -> Any:
    """Return the value of the expression of a mutation, in which typed literals are maps."""
    expression = (mutation.get(field) or {}).get("expression") or ""
    plain = plain_literals(expression)
    try:
        return await inputs.evaluate(plain)
    except ConditionError as error:
        raise ConditionError(str(error).replace(plain, expression)) from error
