"""Type checks of validating policies with the kinds to which they apply: undefined fields, and wrong types.

A policy with warnings is stored and takes effect: it may apply to several kinds, and kinds change. The warnings are
written to its status, as by the controller of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kilauea.api.cel import CelError
from kilauea.api.cel.typing import DYN, Type, check_expression
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.schema.admission_types import variables_of, with_composed
from kilauea.apiserver.schema.builtin import builtin_schema
from kilauea.apiserver.schema.custom import from_openapi
from kilauea.apiserver.schema.rule_types import type_of_node

Raw = Mapping[str, Any]
MOST_KINDS = 10
"""Maximum number of kinds per rule to check."""
LIGHT = 4_000
"""Characters of expressions times kinds to check at once."""


class Kind(NamedTuple):
    """A kind, with its schema if it is a custom one."""

    group: str
    version: str
    kind: str
    openapi: Raw | None = None

    def type(self) -> Type | None:
        """Return the type of its objects."""
        if self.openapi is not None:
            return type_of_node(from_openapi(self.openapi), self.kind)
        return type_of_node(builtin_schema(self.group, self.version, self.kind), self.kind)


class Question(msgspec.Struct):
    """A policy and the kinds that it names."""

    spec: dict[str, Any]
    kinds: list[Kind]
    params: Kind | None = None

    @property
    def weight(self) -> int:
        """Return the amount of work of the check."""
        spec = self.spec
        expressions = [*(spec.get("validations") or ()), *(spec.get("variables") or ())]
        texts = (len(str(value)) for each in expressions for value in each.values())
        return sum(texts) * len(self.kinds)


def question_about(spec: dict[str, Any], registry: Registry) -> Question:
    """Return the question for a policy, with the currently served kinds of its rules."""
    param = spec.get("paramKind") or {}
    params = registry.of_kind(param.get("apiVersion", ""), param.get("kind", "")) if param else None
    return Question(spec, sorted(_kinds(spec, registry)), None if params is None else _kind(params))


def _kind(resource: ResourceType) -> Kind:
    custom = resource.custom_schema
    return Kind(resource.group, resource.version, resource.kind, None if custom is None else dict(custom.raw))


def _kinds(spec: Raw, registry: Registry) -> list[Kind]:
    found: dict[tuple[str, str, str], Kind] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        for count, resource in enumerate(_resources(rule, registry), 1):
            kind = _kind(resource)
            found[kind[:3]] = kind
            if count == MOST_KINDS:
                return list(found.values())
    return list(found.values())


def _resources(rule: Raw, registry: Registry) -> Iterator[ResourceType]:
    """Yield the resources that a rule names; none if it has a wildcard for groups or versions."""
    groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
    if any("*" in each for each in (*groups, *versions)):
        return
    plurals = sorted(each for each in rule.get("resources") or () if "*" not in each and "/" not in each)
    for group in sorted(groups):
        for version in sorted(versions):
            for plural in plurals:
                resource = registry.find(group, version, plural)
                if resource is not None:
                    yield resource


def check_types(asked: bytes) -> bytes:
    """Return the warnings about a policy, given a question as JSON; runs in another process if it takes long."""
    return msgspec.json.encode(warnings_of(msgspec.json.decode(asked, type=Question)))


def warnings_of(question: Question) -> list[dict[str, str]]:
    """Return the warnings about the expressions of a policy, in the format of its status."""
    params = question.params.type() if question.params is not None else None
    if params is None and question.spec.get("paramKind"):
        params = DYN  # the kind is not served and so has no known type
    scopes = []
    for kind in question.kinds:
        obj = kind.type()
        if obj is not None:
            variables = variables_of(obj, params)
            scopes.append((kind, with_composed(variables, question.spec.get("variables") or ())))
    found = []
    for number, validation in enumerate(question.spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            words = "\n".join(_told(validation.get(field) or "", scopes))
            if words:
                found.append({"fieldRef": f"spec.validations[{number}].{field}", "warning": words})
    return found


def _told(text: str, scopes: list[tuple[Kind, dict[str, Type]]]) -> Iterator[str]:
    """Yield the errors in an expression, for each kind with errors."""
    if not text.strip():
        return
    for kind, scope in scopes:
        try:
            check_expression(text, scope)
        except CelError as error:
            words = str(error).removeprefix("compilation failed: ")
            yield f"{kind.group}/{kind.version}, Kind={kind.kind}: {words}\n"
