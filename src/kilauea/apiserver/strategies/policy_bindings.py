"""The rules for bindings of admission policies: the policy, its parameters, its matches and its actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kilauea.api.names import path_segment_problems, subdomain_problems
from kilauea.apiserver.fields import (
    check_label_selector,
    check_name,
    check_required_name,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.admission_rules import check_match_resources
from kilauea.apiserver.strategies.base import Object, Strategy, spec_of

_ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND = ("Deny", "Allow")
_EXCLUSIVE = "name and selector are mutually exclusive"


class PolicyBindings(Strategy):
    """Bindings of mutating policies: they have no status."""

    unconditional_update = False
    has_status = False

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a binding."""
        spec = spec_of(obj)
        causes = check_required_name("spec.policyName", spec.get("policyName") or "", subdomain_problems)
        if spec.get("paramRef") is not None:
            causes += _check_parameters(spec["paramRef"], "spec.paramRef")
        return [*causes, *check_match_resources(spec.get("matchResources") or {}, "spec.matchResources")]


class ValidatingBindings(PolicyBindings):
    """Bindings of validating policies, which have the actions for invalid requests."""

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a binding."""
        actions = spec_of(obj).get("validationActions") or []
        return [*super().validate(obj), *_check_actions(actions, "spec.validationActions")]


def _check_parameters(reference: Object, path: str) -> Iterator[Cause]:
    name, selector, action = reference.get("name"), reference.get("selector"), reference.get("parameterNotFoundAction")
    if name:
        yield from check_name(f"{path}.name", name, path_segment_problems(name))
        if selector is not None:
            yield forbidden_field(f"{path}.name", _EXCLUSIVE)
    if selector is not None:
        yield from check_label_selector(f"{path}.selector", selector)
        if name:
            yield forbidden_field(f"{path}.selector", _EXCLUSIVE)
    elif not name:
        yield required(path, "one of name or selector must be specified")
    if action is None:
        yield required(f"{path}.parameterNotFoundAction")
    elif action not in _NOT_FOUND:
        yield not_supported(f"{path}.parameterNotFoundAction", action, _NOT_FOUND)


def _check_actions(actions: Sequence[str], path: str) -> Iterator[Cause]:
    if not actions:
        yield required(path, "at least one validation action is required")
    for number, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(f"{path}[{number}]", action, _ACTIONS)
        elif action in actions[:number]:
            yield duplicate(f"{path}[{number}]", action)
    if "Deny" in actions and "Warn" in actions:
        message = "must not contain both Deny and Warn (repeating the same validation failure information in the API "
        yield invalid_value(path, actions, f"{message}response and headers serves no purpose)")
