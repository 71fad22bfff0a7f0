"""Admission policies with their bindings and parameters, and the evaluation of validating ones."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kilauea.api.selectors import matches
from kilauea.apiserver import status
from kilauea.apiserver.admission.attributes import BYTES_OF_COST, Attributes, subject_of
from kilauea.apiserver.decoding import decode
from kilauea.apiserver.dynamic.conditions import Inputs, conditions_hold
from kilauea.apiserver.dynamic.evaluation import COST_OF_POLICY, ConditionError, OutOfBudget
from kilauea.apiserver.dynamic.matching import Selectors, find_match, parse_selector
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.status import ApiFault

log = logging.getLogger(__name__)
Raw = Mapping[str, Any]

LONGEST_MESSAGE = 5 * 1024
COST_OF_LOOK = 200
"""Cost of matching a policy, a binding or a parameter object with a write."""
CODES = {"Invalid": 422, "Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}


@dataclass(frozen=True)
class Policy:
    """A policy with its bindings."""

    name: str
    spec: Raw
    selectors: Selectors
    bindings: tuple[Binding, ...]

    @property
    def fails_open(self) -> bool:
        """True if the write proceeds when the policy cannot be evaluated."""
        return self.spec.get("failurePolicy") == "Ignore"

    @property
    def is_reinvocable(self) -> bool:
        """True if the policy runs again after later changes by webhooks."""
        return self.spec.get("reinvocationPolicy") == "IfNeeded"


@dataclass(frozen=True)
class Binding:
    """A binding: the scope of a policy, with its parameters."""

    name: str
    spec: Raw
    selectors: Selectors


@dataclass(frozen=True)
class Denial:
    """A decision to reject a write."""

    policy: Policy
    binding: Binding | None
    message: str
    reason: str = ""


@dataclass(frozen=True)
class Application:
    """A policy that applies to a write by a binding, with one parameter object."""

    policy: Policy
    binding: Binding
    resource: ResourceType
    params: Any


def policies_of(policies: Sequence[Raw], bindings: Sequence[Raw]) -> list[Policy]:
    """Return the policies that have a binding, by name."""
    by_policy: dict[str, list[Binding]] = {}
    for each in sorted(bindings, key=lambda each: str(each["metadata"]["name"])):
        spec = each.get("spec") or {}
        found = Binding(each["metadata"]["name"], spec, Selectors.of(spec.get("matchResources") or {}))
        by_policy.setdefault(spec.get("policyName") or "", []).append(found)
    return [
        Policy(name, spec, Selectors.of(spec.get("matchConstraints") or {}), tuple(by_policy[name]))
        for each in sorted(policies, key=lambda each: str(each["metadata"]["name"]))
        if (name := each["metadata"]["name"]) in by_policy
        for spec in [each.get("spec") or {}]
    ]


async def applications(
    policies: Sequence[Policy], attributes: Attributes, denials: list[Denial]
) -> AsyncIterator[Application]:
    """Yield the policies that apply to a write; an error in one is a denial, unless its failures are ignored."""
    subject = subject_of(attributes)
    for policy in policies:
        await subject.spend(COST_OF_LOOK)
        resource = _match(policy.spec.get("matchConstraints") or {}, policy.selectors, attributes)
        if resource is None:
            continue
        for binding in policy.bindings:
            await subject.spend(COST_OF_LOOK)
            limits = binding.spec.get("matchResources") or {}
            if _match(limits, binding.selectors, attributes, everything=True) is None:
                continue
            try:
                async for params in params_of(policy, binding, attributes):
                    yield Application(policy, binding, resource, params)
            except LookupError as error:
                if not policy.fails_open:
                    named = None if isinstance(error, NoSuchKind) else binding
                    denials.append(Denial(policy, named, str(error.args[0])))


def _match(
    limits: Raw, selectors: Selectors, attributes: Attributes, *, everything: bool = False
) -> ResourceType | None:
    """Return the kind with which a write matches constraints; those of a binding without rules match everything."""
    rules = limits.get("resourceRules") or ()
    if everything and not rules:
        rules = ({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "*/*"]},)
    found = find_match(
        rules, limits.get("matchPolicy") or "Equivalent", attributes, limits.get("excludeResourceRules") or ()
    )
    return found if found is not None and selectors.match(attributes) else None


class NoSuchKind(LookupError):
    """The kind of a policy's parameters is not served."""


async def params_of(policy: Policy, binding: Binding, attributes: Attributes) -> AsyncIterator[Any]:
    """Yield the parameter objects; a single None if the policy has no parameters.

    Raises:
        LookupError: they cannot be found; `NoSuchKind` if the policy is the cause.
    """
    kind, reference = policy.spec.get("paramKind"), binding.spec.get("paramRef")
    if not kind:
        yield None
        return
    resource = attributes.backend.registry.of_kind(kind.get("apiVersion", ""), kind.get("kind", ""))
    if resource is None:
        group, _, version = kind.get("apiVersion", "").rpartition("/")
        message = f"failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind.get('kind', '')}'"
        raise NoSuchKind(f"failed to configure policy: {message}")
    if not reference:
        yield None
        return
    namespace = reference.get("namespace") or ""
    if namespace and not resource.namespaced:
        message = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
        raise LookupError(f"failed to configure binding: {message}")
    namespace = namespace or attributes.namespace
    if resource.namespaced and not namespace:
        message = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        raise LookupError(f"failed to configure binding: {message}")
    has_some = False
    async for each in _stored_params(attributes, resource, reference, namespace):
        has_some = True
        yield each
    if not has_some and reference.get("parameterNotFoundAction") == "Deny":
        message = "no params found for policy binding with `Deny` parameterNotFoundAction"
        raise LookupError(f"failed to configure binding: {message}")


class _Labels(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Labels


_labelled = msgspec.json.Decoder(_Labelled).decode


async def _stored_params(
    attributes: Attributes, resource: ResourceType, reference: Raw, namespace: str
) -> AsyncIterator[Any]:
    """Yield the objects that a binding names or selects, one at a time: there may be thousands."""
    store, subject = attributes.backend.store, subject_of(attributes)
    if reference.get("name"):
        stored = store.get(resource.key(namespace, reference["name"]))
        if stored is not None:
            yield decode(resource.served(stored.value))
        return
    selector = parse_selector(reference.get("selector"))
    for each in store.list(resource.prefix(namespace)).items:
        await subject.spend(COST_OF_LOOK + each.length // BYTES_OF_COST)
        value = each.value
        if matches(selector, _labelled(value).metadata.labels or {}):
            yield decode(resource.served(value))


async def check_by_policies(policies: Sequence[Policy], attributes: Attributes) -> None:
    """Evaluate the validating policies; raise the error of the first that denies the write."""
    denials: list[Denial] = []
    async for each in applications(policies, attributes, denials):
        inputs = await inputs_of(each, attributes)
        for index, (message, reason) in enumerate(await _failures(each, inputs)):
            _act(each, attributes, message, reason, denials, index)
    if denials:
        raise refusal(attributes, denials[0], "ValidatingAdmissionPolicy")


async def inputs_of(application: Application, attributes: Attributes) -> Inputs:
    """Return the variables of the expressions of a policy."""
    obj, old = await subject_of(attributes).objects(application.resource)
    variables = application.policy.spec.get("variables") or ()
    return Inputs(attributes, application.resource, obj, old, application.params, variables)


async def _failures(application: Application, inputs: Inputs) -> list[tuple[str, str]]:
    """Return message and reason of each failed validation."""
    policy = application.policy
    try:
        if not await conditions_hold(policy.spec.get("matchConditions") or (), inputs):
            return []
    except ConditionError as error:
        return [] if policy.fails_open else [(str(error), "")]
    try:
        return await _judged(policy, inputs)
    except OutOfBudget as error:
        return [] if policy.fails_open else [(str(error), "")]


async def _judged(policy: Policy, inputs: Inputs) -> list[tuple[str, str]]:
    """Return message and reason of each failed expression; raises OutOfBudget."""
    failed: list[tuple[str, str]] = []
    inputs.left = COST_OF_POLICY
    for validation in policy.spec.get("validations") or ():
        try:
            if await inputs.evaluate(validation["expression"]) is not True:
                failed.append((await _message(validation, inputs), validation.get("reason") or "Invalid"))
        except OutOfBudget:
            raise
        except ConditionError as error:
            if not policy.fails_open:
                failed.append((str(error), ""))
    inputs.left = COST_OF_POLICY
    for each in policy.spec.get("auditAnnotations") or ():
        try:
            value = await inputs.evaluate(each["valueExpression"])
            log.debug("audit annotation %s/%s: %s", policy.name, each["key"], value)
        except OutOfBudget:
            raise
        except ConditionError as error:
            if not policy.fails_open:
                failed.append((str(error), ""))
    return failed


async def _message(validation: Raw, inputs: Inputs) -> str:
    """Return the message of a failed validation: that of its message expression, its own, or the expression itself."""
    if validation.get("messageExpression"):
        try:
            made = await inputs.evaluate(validation["messageExpression"])
        except OutOfBudget as error:
            return f"failed messageExpression: {error}"
        except ConditionError as error:
            log.info("the messageExpression of a policy fails: %s", error)
            made = ""
        text = made.strip() if isinstance(made, str) else ""
        if text and "\n" not in text and len(text.encode()) <= LONGEST_MESSAGE:
            return text
    return (validation.get("message") or "").strip() or f"failed expression: {validation['expression'].strip()}"


def _act(
    application: Application, attributes: Attributes, message: str, reason: str, denials: list[Denial], index: int
) -> None:
    """Apply the actions of the binding to a failed validation."""
    policy, binding = application.policy, application.binding
    for action in binding.spec.get("validationActions") or ():
        if action == "Deny":
            denials.append(Denial(policy, binding, message, reason))
        elif action == "Warn":
            words = f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
            attributes.warnings.append(f"{words}: {message}")
        elif action == "Audit":
            log.info("policy %s, binding %s: validation %d failed: %s", policy.name, binding.name, index, message)


def refusal(attributes: Attributes, denial: Denial, kind: str) -> ApiFault:
    """Return the error for a write that a policy denies."""
    subject = f"{kind} '{denial.policy.name}'"
    if denial.binding is not None:
        subject += f" with binding '{denial.binding.name}'"
    message = f"{subject} denied request: {denial.message}"
    resource = attributes.resource
    fault = status.forbidden(resource.plural, resource.group, attributes.object_name(), message)
    reason = denial.reason or "Invalid"
    details = {**fault.status["details"], "causes": [{"message": message}]}
    return ApiFault(CODES.get(reason, 422), reason, str(fault), details)


def same(left: Any, right: Any) -> bool:
    """Return True if two objects are equal as JSON."""
    return msgspec.json.encode(left) == msgspec.json.encode(right)
