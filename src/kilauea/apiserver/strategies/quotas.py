"""The rules for resource quotas: the limited resources, and the pods to which they apply."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.api.names import qualified_name_problems
from kilauea.apiserver.fields import check_name, invalid_value, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, spec_of
from kilauea.apiserver.strategies.quantities import NEGATIVE, amount

_COMPUTE = frozenset(
    ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "pods")
)  # fmt: skip
_STORAGE = frozenset(("requests.storage", "persistentvolumeclaims"))
COUNTED_RESOURCES = frozenset(
    (
        "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip
"""Resources without a domain that are counts of objects."""
STANDARD_RESOURCES = (
    _COMPUTE | _STORAGE | COUNTED_RESOURCES
    | {"ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage"}
)  # fmt: skip
"""Resources without a domain."""
_APPLIES = {
    "BestEffort": frozenset(("pods",)),
    "CrossNamespacePodAffinity": _COMPUTE,
    "NotBestEffort": _COMPUTE,
    "NotTerminating": _COMPUTE,
    "PriorityClass": _COMPUTE,
    "Terminating": _COMPUTE,
    "VolumeAttributesClass": _STORAGE,
}
"""The resources that can be limited in each scope."""
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_ONLY_EXISTS = _APPLIES.keys() - {"PriorityClass", "VolumeAttributesClass"}
_EXISTS_WORDS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_SOME_VALUE = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
_NO_VALUE = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
_NOT_APPLIED, _UNKNOWN = "unsupported scope applied to resource", "unsupported scope"


class Quotas(Strategy):
    """Resource quotas: amounts of resources and counts of objects."""

    has_generation = False
    answers_deleted_object = True

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a quota."""
        spec = spec_of(obj)
        hard = spec.get("hard") or {}
        causes = [cause for name, text in hard.items() for cause in _check_limit(f"spec.hard[{name}]", name, text)]
        if spec.get("scopes"):
            causes += _check_scopes(spec["scopes"], hard)
        if spec.get("scopeSelector") is not None:
            causes += _check_selector("spec.scopeSelector.matchExpressions", spec["scopeSelector"], hard)
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        scopes, before = (sorted(spec_of(each).get("scopes") or []) for each in (obj, old))
        if scopes == before:
            return []
        return [invalid_value("spec.scopes", spec_of(obj).get("scopes"), "field is immutable")]


def _check_limit(path: str, name: str, text: object) -> Iterator[Cause]:
    """Check the name and the amount of one limit."""
    problems = qualified_name_problems(name)
    yield from check_name(path, name, problems)
    if "/" not in name:
        standard = name in STANDARD_RESOURCES or name.startswith(("hugepages-", "requests.hugepages-"))
        if not standard and not problems and name != "storage":
            yield invalid_value(path, name, "must be a standard resource type or fully qualified")
        if not standard:
            yield invalid_value(path, name, "must be a standard resource for quota")
    number = amount(str(text))
    if number is not None and number < 0:
        yield invalid_value(path, text, NEGATIVE)
    if number is not None and number.denominator != 1 and _is_count(name):
        yield invalid_value(path, text, "must be an integer")


def _is_count(name: str) -> bool:
    """Return True for counts of objects and for extended resources, which are integers."""
    domain = name.partition("/")[0]
    foreign = "/" in name and not domain.endswith("kubernetes.io") and not domain.startswith("requests.")
    return name in COUNTED_RESOURCES or (foreign and ".storageclass." not in domain)


def _not_applied(scope: str, hard: Object) -> list[str]:
    return [name for name in hard if scope in _APPLIES and _is_standard(name) and name not in _APPLIES[scope]]


def _is_standard(name: str) -> bool:
    return name in STANDARD_RESOURCES or name.startswith(("hugepages-", "requests.hugepages-"))


def _check_scopes(scopes: list[str], hard: Object) -> Iterator[Cause]:
    for scope in scopes:
        if scope not in _APPLIES:
            yield invalid_value("spec.scopes", scopes, _UNKNOWN)
        yield from (invalid_value("spec.scopes", scopes, _NOT_APPLIED) for _ in _not_applied(scope, hard))
    if any(pair <= {*scopes} for pair in _OPPOSITES):
        yield invalid_value("spec.scopes", scopes, "conflicting scopes")


def _check_selector(path: str, selector: Object, hard: Object) -> Iterator[Cause]:
    terms = selector.get("matchExpressions") or []
    parts = (("ScopeName", "scopeName"), ("Operator", "operator"), ("Values", "values"))
    told = {"MatchExpressions": [{name: each.get(field) for name, field in parts} for each in terms]}
    for each in terms:
        scope, operator, values = each.get("scopeName", ""), each.get("operator", ""), each.get("values") or []
        if scope not in _APPLIES:
            yield invalid_value(f"{path}.scopeName", scope, _UNKNOWN)
        yield from (invalid_value(path, told, _NOT_APPLIED) for _ in _not_applied(scope, hard))
        if scope in _ONLY_EXISTS and operator != "Exists":
            yield invalid_value(f"{path}.operator", operator, _EXISTS_WORDS)
        if operator in ("In", "NotIn"):
            if not values:
                yield required(f"{path}.values", _SOME_VALUE)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                yield invalid_value(f"{path}.values", values, _NO_VALUE)
        else:
            yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    if any(pair <= {each.get("scopeName") for each in terms} for pair in _OPPOSITES):
        yield invalid_value(path, None, "conflicting scopes")
