"""The rules for admission policies: their expressions are type-checked before they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kilauea.api.cel import CelError, compiled
from kilauea.api.cel.syntax import is_identifier
from kilauea.api.cel.typing import DYN, Type
from kilauea.api.names import qualified_name_problems, service_name_problems, subdomain_problems
from kilauea.apiserver.deferred import causes_of
from kilauea.apiserver.fields import check_name, check_word, duplicate, invalid_value, not_supported, required
from kilauea.apiserver.schema.admission_types import variables_of, with_composed
from kilauea.apiserver.schema.policy_literals import plain_literals
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.admission_rules import OPERATIONS, check_match_resources
from kilauea.apiserver.strategies.base import METADATA, Object, Strategy
from kilauea.apiserver.strategies.expressions import conditions_problems, typed_problems, weight_of

Raw = Mapping[str, Any]
_NAMES = frozenset({*variables_of(params=DYN), "variables"})
_PATCHES = {
    "JSONPatch": ("jsonPatch", "applyConfiguration", "list(JSONPatch)"),
    "ApplyConfiguration": ("applyConfiguration", "jsonPatch", "Object"),
}
"""The field of each patch type, the other field, and the type of its expression."""
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MUTABLE = ("*", "CONNECT", "CREATE", "UPDATE")
MOST_ANNOTATIONS = 20


def _checked(obj: Object) -> Object:
    """Return the checked parts of a policy, which are the same in each attempt to write it."""
    return {"name": obj["metadata"].get("name") or "", "spec": obj.get("spec")}


def _params(spec: Raw) -> Type | None:
    return DYN if spec.get("paramKind") else None


def _variables(spec: Raw) -> Iterator[Cause]:
    """Yield the errors in the variables of a policy."""
    known, composed = variables_of(params=_params(spec)), spec.get("variables") or ()
    for number, each in enumerate(composed):
        path, name = f"spec.variables[{number}].expression", each.get("name") or ""
        if not name:
            yield required(f"spec.variables[{number}].name", "name is not specified")
        elif not is_identifier(name):
            yield invalid_value(f"spec.variables[{number}].name", name, "must be a valid CEL identifier")
        text = each.get("expression") or ""
        if text != plain_literals(text):
            yield from _untyped(text, path)
        else:
            yield from typed_problems(text, path, with_composed(known, composed[:number]))


def _untyped(text: str, path: str) -> Iterator[Cause]:
    """Yield the error in a patch expression, whose literals are typed only when it is evaluated."""
    try:
        compiled(plain_literals(text).strip(), _NAMES)
    except CelError as error:
        yield invalid_value(path, text, str(error))


class ValidatingPolicies(Strategy):
    """Validating admission policies."""

    kept_in_status = METADATA
    unconditional_update = False

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a policy."""
        return causes_of("validating policy", check_validating_policy, _checked(obj), weight=weight_of(obj))


def check_validating_policy(obj: Object) -> list[Cause]:
    """Return the errors in a policy."""
    spec = obj.get("spec") or {}
    params = _params(spec)
    causes = [*_heads(spec), *_variables(spec)]
    validations = spec.get("validations") or ()
    if not validations and not spec.get("auditAnnotations"):
        message = "validations or auditAnnotations must contain at least one item"
        causes += [required("spec.validations", message), required("spec.auditAnnotations", message)]
    composed = spec.get("variables") or ()
    scope, silent = variables_of(params=params), variables_of(params=params, may_ask=False)
    if composed:
        scope, silent = with_composed(scope, composed), with_composed(silent, composed)
    for number, each in enumerate(validations):
        causes += _validation(each, f"spec.validations[{number}]", scope, silent)
    return [*causes, *_annotations(spec.get("auditAnnotations") or (), obj.get("name") or "", scope)]


def _validation(each: Raw, path: str, scope: Mapping[str, Type], silent: Mapping[str, Type]) -> Iterator[Cause]:
    """Yield the errors in one validation: its expression, message and reason."""
    yield from typed_problems(each.get("expression") or "", f"{path}.expression", scope, "bool")
    message, made = each.get("message") or "", each.get("messageExpression") or ""
    if made.strip():
        yield from typed_problems(made, f"{path}.messageExpression", silent, "string")
    elif made:
        yield invalid_value(f"{path}.messageExpression", made, "must be non-empty if specified")
    if message and not message.strip():
        yield invalid_value(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        yield invalid_value(f"{path}.message", message, "must not contain line breaks")
    yield from check_word(f"{path}.reason", each.get("reason"), _REASONS)


def _annotations(annotations: Sequence[Raw], policy: str, scope: Mapping[str, Type]) -> Iterator[Cause]:
    """Yield the errors in the audit annotations of a policy."""
    if len(annotations) > MOST_ANNOTATIONS:
        yield invalid_value("spec.auditAnnotations", annotations, f"must not have more than {MOST_ANNOTATIONS} items")
    keys: set[str] = set()
    for number, each in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{number}]", each.get("key") or ""
        yield from check_name(f"{path}.key", f"{policy}/{key}", qualified_name_problems(f"{policy}/{key}"))
        yield from typed_problems(each.get("valueExpression") or "", f"{path}.valueExpression", scope, "string", "null")
        if key in keys:
            yield duplicate(f"{path}.key", key)
        keys.add(key)


class MutatingPolicies(Strategy):
    """Mutating admission policies: they have no status."""

    unconditional_update = False
    has_status = False

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a policy."""
        return causes_of("mutating policy", check_mutating_policy, _checked(obj), weight=weight_of(obj))


def check_mutating_policy(obj: Object) -> list[Cause]:
    """Return the errors in a policy."""
    spec = obj.get("spec") or {}
    causes = [*_heads(spec, _MUTABLE), *_variables(spec)]
    if not spec.get("mutations"):
        causes.append(required("spec.mutations", "mutations must contain at least one item"))
    for number, mutation in enumerate(spec.get("mutations") or ()):
        causes += _mutation(mutation, f"spec.mutations[{number}]", spec)
    if not spec.get("reinvocationPolicy"):
        causes.append(required("spec.reinvocationPolicy"))
    else:
        causes += check_word("spec.reinvocationPolicy", spec["reinvocationPolicy"], ("IfNeeded", "Never"))
    return causes


def _mutation(mutation: Raw, path: str, spec: Raw) -> Iterator[Cause]:
    """Yield the errors in one mutation of a policy, which must have a patch only of the named type."""
    kind = mutation.get("patchType") or ""
    if not kind:
        yield required(f"{path}.patchType")
    elif kind not in _PATCHES:
        yield not_supported(f"{path}.patchType", kind, sorted(_PATCHES))
    else:
        own, other, wanted = _PATCHES[kind]
        if mutation.get(own) is None:
            yield required(f"{path}.{own}", f"must be specified when patchType is {kind}")
        elif (mutation[own].get("expression") or "").strip():
            yield from _patch_problems(mutation[own]["expression"], f"{path}.{own}.expression", spec, wanted)
        else:
            yield required(f"{path}.{own}.expression")
        if mutation.get(other) is not None:
            yield invalid_value(f"{path}.{other}", f"{{{other}}}", f"must not be specified when patchType is {kind}")


def _patch_problems(text: str, path: str, spec: Raw, wanted: str) -> Iterator[Cause]:
    """Yield the error in the expression of a patch. Only an expression with typed literals can have the wanted type."""
    composed = spec.get("variables") or ()
    if any(each != plain_literals(each) for each in (text, *(other.get("expression") or "" for other in composed))):
        yield from _untyped(text, path)
    else:
        yield from typed_problems(text, path, with_composed(variables_of(params=_params(spec)), composed), wanted)


def _heads(spec: Raw, operations: Sequence[str] = OPERATIONS) -> Iterator[Cause]:
    """Yield the errors in the common fields: failure policy, parameters, constraints and conditions."""
    yield from check_word("spec.failurePolicy", spec.get("failurePolicy"), ("Fail", "Ignore"))
    if spec.get("paramKind") is not None:
        yield from _kind(spec["paramKind"], "spec.paramKind")
    yield from _constraints(spec.get("matchConstraints"), "spec.matchConstraints", operations)
    yield from conditions_problems(spec.get("matchConditions") or (), "spec.matchConditions", _params(spec))


def _kind(kind: Raw, path: str) -> Iterator[Cause]:
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    if not version:
        yield required(f"{path}.apiVersion")
    elif version.count("/") > 1:
        yield invalid_value(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    else:
        group, _, rest = version.rpartition("/")
        yield from check_name(f"{path}.apiVersion", group, subdomain_problems(group) if group else ())
        yield from check_name(f"{path}.apiVersion", rest, service_name_problems(rest))
    if not name:
        yield required(f"{path}.kind")
    for each in service_name_problems(name.lower()) if name else ():
        yield invalid_value(f"{path}.kind", name, f"may have mixed case, but should otherwise match: {each}")


def _constraints(limits: Raw | None, path: str, operations: Sequence[str]) -> Iterator[Cause]:
    if limits is None:
        yield required(path)
        return
    yield from check_match_resources(limits, path)
    if not limits.get("resourceRules"):
        yield required(f"{path}.resourceRules")
    for rule in limits.get("resourceRules") or ():
        for each in rule.get("operations") or ():
            if each not in operations and operations is not OPERATIONS:
                yield not_supported(f"{path}.resourceRules.operations", each, operations)
