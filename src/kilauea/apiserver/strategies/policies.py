"""The rules of admission policies and their bindings: their expressions are typed before they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kilauea.api.cel import CelError, compiled
from kilauea.api.cel.typing import DYN, Type
from kilauea.apiserver.deferred import causes_of
from kilauea.apiserver.dynamic.literals import plain_literals
from kilauea.apiserver.fields import invalid_value, required
from kilauea.apiserver.schema.admission_types import variables_of, with_composed
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy
from kilauea.apiserver.strategies.expressions import conditions_problems, typed_problems, weight_of
from kilauea.apiserver.strategies.webhooks import check_operations

Raw = Mapping[str, Any]
_NAMES = frozenset({*variables_of(params=DYN), "variables"})
_PATCHES = (("jsonPatch", "JSONPatch"), ("applyConfiguration", "ApplyConfiguration"))


def _spec(obj: Object) -> Object:
    """The part of a policy that is checked, which is the same at each try to write it."""
    return {"spec": obj.get("spec")}


def _params(spec: Raw) -> Type | None:
    return DYN if spec.get("paramKind") else None


def _variables(spec: Raw) -> Iterator[Cause]:
    """The errors in the variables that a policy composes."""
    known, composed = variables_of(params=_params(spec)), spec.get("variables") or ()
    for number, each in enumerate(composed):
        path = f"spec.variables[{number}].expression"
        text = each.get("expression") or ""
        if text != plain_literals(text):
            yield from _untyped(text, path)
        else:
            yield from typed_problems(text, path, with_composed(known, composed[:number]))


def _untyped(text: str, path: str) -> Iterator[Cause]:
    """The error of an expression that makes patches: its literals are typed when it is evaluated."""
    try:
        compiled(plain_literals(text).strip(), _NAMES)
    except CelError as error:
        yield invalid_value(path, text, str(error))


class ValidatingPolicies(Strategy):
    """Validating admission policies."""

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a policy."""
        return causes_of("validating policy", check_validating_policy, _spec(obj), weight=weight_of(obj))


def check_validating_policy(obj: Object) -> list[Cause]:
    """Return the errors in a policy."""
    spec = obj.get("spec") or {}
    params = _params(spec)
    causes = [*_constraints(spec), *_variables(spec)]
    causes += conditions_problems(spec.get("matchConditions") or (), "spec.matchConditions", params)
    validations = spec.get("validations") or ()
    if not validations and not spec.get("auditAnnotations"):
        message = "validations or auditAnnotations must contain at least one item"
        causes += [required("spec.validations", message), required("spec.auditAnnotations", message)]
    composed = spec.get("variables") or ()
    scope, silent = variables_of(params=params), variables_of(params=params, may_ask=False)
    if composed:
        scope, silent = with_composed(scope, composed), with_composed(silent, composed)
    for number, each in enumerate(validations):
        path = f"spec.validations[{number}]"
        causes += typed_problems(each.get("expression") or "", f"{path}.expression", scope, "bool")
        if (each.get("messageExpression") or "").strip():
            causes += typed_problems(each["messageExpression"], f"{path}.messageExpression", silent, "string")
    for number, each in enumerate(spec.get("auditAnnotations") or ()):
        path = f"spec.auditAnnotations[{number}].valueExpression"
        causes += typed_problems(each.get("valueExpression") or "", path, scope, "string", "null")
    return causes


class MutatingPolicies(Strategy):
    """Mutating admission policies: they have no status."""

    has_status = False

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a policy."""
        return causes_of("mutating policy", check_mutating_policy, _spec(obj), weight=weight_of(obj))


def check_mutating_policy(obj: Object) -> list[Cause]:
    """Return the errors in a policy."""
    spec = obj.get("spec") or {}
    causes = [*_constraints(spec), *_variables(spec)]
    causes += conditions_problems(spec.get("matchConditions") or (), "spec.matchConditions", _params(spec))
    if not spec.get("mutations"):
        causes.append(required("spec.mutations", "mutations must contain at least one item"))
    for number, mutation in enumerate(spec.get("mutations") or ()):
        causes += _mutation(mutation, f"spec.mutations[{number}]")
    if not spec.get("reinvocationPolicy"):
        causes.append(required("spec.reinvocationPolicy"))
    return causes


def _mutation(mutation: Raw, path: str) -> Iterator[Cause]:
    for field, form in _PATCHES:
        if mutation.get("patchType") == form:
            text = (mutation.get(field) or {}).get("expression") or ""
            if text.strip():
                yield from _untyped(text, f"{path}.{field}.expression")
            else:
                yield required(f"{path}.{field}.expression", "expression is not specified")


def _constraints(spec: Raw) -> Iterator[Cause]:
    limits = spec.get("matchConstraints")
    if limits is None:
        yield required("spec.matchConstraints")
    elif not limits.get("resourceRules"):
        yield required("spec.matchConstraints.resourceRules")
    for number, rule in enumerate((limits or {}).get("resourceRules") or ()):
        yield from check_operations(rule, f"spec.matchConstraints.resourceRules[{number}]")


class PolicyBindings(Strategy):
    """Bindings of policies: they have no status."""

    has_status = False

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a binding."""
        return [] if (obj.get("spec") or {}).get("policyName") else [required("spec.policyName")]
