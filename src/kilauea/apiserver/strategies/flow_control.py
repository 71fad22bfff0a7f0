"""The rules for flow schemas and priority levels; `kilauea.apiserver.flow_control` applies them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kilauea.api.names import label_problems, subdomain_problems
from kilauea.apiserver.fields import check_name, check_range, forbidden_field, invalid_value, not_supported, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import METADATA, Object, Strategy, spec_of

MAX_PRECEDENCE, USUAL_PRECEDENCE = 10_000, 1000
EXEMPT = "exempt"
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_RULE_WORDS = {
    "apiGroups": ("resource rules must supply at least one api group", "api groups"),
    "resources": ("resource rules must supply at least one resource", "resources"),
    "nonResourceURLs": ("nonResourceURLs must contain at least one value", "non-resource URLs"),
}

MOST_QUEUES, HASH_BITS = 10_000_000, 60
_QUEUES = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
"""The values of fields that are missing or zero."""


class FlowSchemas(Strategy):
    """Flow schemas, which assign requests to priority levels."""

    kept_in_status = METADATA

    def default(self, obj: Object) -> None:
        if not spec_of(obj).get("matchingPrecedence"):
            spec_of(obj)["matchingPrecedence"] = USUAL_PRECEDENCE

    def validate(self, obj: Object) -> list[Cause]:
        spec, name = spec_of(obj), obj["metadata"].get("name")
        order, level = spec.get("matchingPrecedence", 0), (spec.get("priorityLevelConfiguration") or {}).get("name", "")
        causes = _check_precedence(order, name)
        method = spec.get("distinguisherMethod")
        if method is not None and method.get("type") not in ("ByNamespace", "ByUser"):
            causes.append(
                not_supported(
                    "spec.distinguisherMethod.type", {"Type": method.get("type", "")}, ("ByNamespace", "ByUser")
                )
            )
        if level:
            causes += check_name("spec.priorityLevelConfiguration.name", level, subdomain_problems(level))
        else:
            causes.append(required("spec.priorityLevelConfiguration.name", "must reference a priority level"))
        for number, rule in enumerate(spec.get("rules") or []):
            causes += _check_rule(f"spec.rules[{number}]", rule)
        return causes


def _check_precedence(order: int, name: str | None) -> list[Cause]:
    messages = []
    if order <= 0:
        messages.append("must be a positive value")
    if order > MAX_PRECEDENCE:
        messages.append(f"must not be greater than {MAX_PRECEDENCE}")
    if order == 1 and name != EXEMPT:
        messages.append("only the schema named 'exempt' may have matchingPrecedence 1")
    return [invalid_value("spec.matchingPrecedence", order, message) for message in messages]


def _check_rule(path: str, rule: Object) -> list[Cause]:
    causes: list[Cause] = []
    if not rule.get("subjects"):
        causes.append(required(f"{path}.subjects", "subjects must contain at least one value"))
    for number, subject in enumerate(rule.get("subjects") or []):
        causes += _check_subject(f"{path}.subjects[{number}]", subject)
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        message = "at least one of resourceRules and nonResourceRules has to be non-empty"
        causes.append(required(path, message))
    for number, each in enumerate(rule.get("resourceRules") or []):
        causes += _check_resources(f"{path}.resourceRules[{number}]", each)
    for number, each in enumerate(rule.get("nonResourceRules") or []):
        where = f"{path}.nonResourceRules[{number}]"
        causes += _check_verbs(where, each) + _check_words(where, each, "nonResourceURLs")
    return causes


def _check_subject(path: str, subject: Object) -> list[Cause]:
    kind = subject.get("kind", "")
    field = _SUBJECTS.get(kind)
    if field is None:
        return [not_supported(f"{path}.kind", kind, _SUBJECTS)]
    value, causes = subject.get(field), []
    if value is None:
        causes.append(required(f"{path}.{field}", f"{field} is required when subject kind is '{kind}'"))
    elif not value.get("name"):
        causes.append(required(f"{path}.{field}.name"))
    if value is not None and field == "serviceAccount" and not value.get("namespace"):
        causes.append(required(f"{path}.{field}.namespace", "must specify namespace for service account"))
    for other_kind, other in (("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")):
        if other != field and subject.get(other) is not None:
            message = f"{other} is forbidden when subject kind is not '{other_kind}'"
            causes.append(forbidden_field(f"{path}.{other}", message))
    return causes


def _check_verbs(path: str, rule: Object) -> list[Cause]:
    verbs = rule.get("verbs") or []
    if not verbs:
        return [required(f"{path}.verbs", "verbs must contain at least one value")]
    if "*" in verbs:
        message = "if '*' is present, must not specify other verbs"
        return [invalid_value(f"{path}.verbs", verbs, message)] if len(verbs) > 1 else []
    return [] if {*verbs} <= {*_VERBS} else [not_supported(f"{path}.verbs", verbs, _VERBS)]


def _check_words(path: str, rule: Object, field: str) -> list[Cause]:
    words, (missing, others) = rule.get(field) or [], _RULE_WORDS[field]
    if not words:
        return [required(f"{path}.{field}", missing)]
    if "*" in words and len(words) > 1:
        return [invalid_value(f"{path}.{field}", words, f"if '*' is present, must not specify other {others}")]
    return []


def _check_resources(path: str, rule: Object) -> list[Cause]:
    causes = _check_verbs(path, rule) + _check_words(path, rule, "apiGroups") + _check_words(path, rule, "resources")
    namespaces = rule.get("namespaces") or []
    if not namespaces and not rule.get("clusterScope"):
        message = "resource rules that are not cluster scoped must supply at least one namespace"
        causes.append(required(f"{path}.namespaces", message))
    elif "*" in namespaces and len(namespaces) > 1:
        message = "if '*' is present, must not specify other namespaces"
        return [*causes, invalid_value(f"{path}.namespaces", namespaces, message)]
    for number, name in enumerate(namespaces):
        problems = [
            f"each member of this list must be '*' or a DNS-1123 label; {each}" for each in label_problems(name)
        ]
        causes += check_name(f"{path}.namespaces[{number}]", name, problems if name != "*" else ())
    return causes


class PriorityLevels(Strategy):
    """Priority levels, which limit concurrent requests, and queue or reject others."""

    kept_in_status = METADATA

    def default(self, obj: Object) -> None:
        limited = spec_of(obj).get("limited") or {}
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            for field, usual in _QUEUES.items():
                queuing[field] = queuing.get(field) or usual

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        kind, limited = spec.get("type", ""), spec.get("limited")
        if not kind:
            return [required("spec.type")]
        if kind not in ("Exempt", "Limited"):
            return [not_supported("spec.type", kind, ("Exempt", "Limited"))]
        causes: list[Cause] = []
        if (kind == "Exempt") != (obj["metadata"].get("name") == "exempt"):
            causes.append(invalid_value("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'"))
        if kind == "Exempt":
            message = "must be nil if the type is not Limited"
            return causes if limited is None else [*causes, forbidden_field("spec.limited", message)]
        if spec.get("exempt") is not None:
            return [*causes, forbidden_field("spec.exempt", "must be nil if the type is Limited")]
        if limited is None:
            return [*causes, required("spec.limited", "must not be empty when type is Limited")]
        return causes + _check_limited("spec.limited", limited)


def _check_limited(path: str, limited: Object) -> list[Cause]:
    causes: list[Cause] = []
    shares = limited.get("nominalConcurrencyShares", 0)
    if shares < 0:
        causes.append(invalid_value(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer"))
    response = limited.get("limitResponse") or {}
    kind, queuing = response.get("type", ""), response.get("queuing")
    where = f"{path}.limitResponse"
    if not kind:
        causes.append(required(f"{where}.type"))
    elif kind not in ("Queue", "Reject"):
        causes.append(not_supported(f"{where}.type", kind, ("Queue", "Reject")))
    elif kind == "Reject" and queuing is not None:
        message = "must be nil if limited.limitResponse.type is not Limited"
        causes.append(forbidden_field(f"{where}.queuing", message))
    elif kind == "Queue" and queuing is None:
        message = "must not be empty if limited.limitResponse.type is Limited"
        causes.append(required(f"{where}.queuing", message))
    elif kind == "Queue" and queuing is not None:
        causes += _check_queues(f"{where}.queuing", queuing)
    causes += check_range(f"{path}.lendablePercent", limited.get("lendablePercent"), 0, 100)
    borrowed = limited.get("borrowingLimitPercent")
    if borrowed is not None and borrowed < 0:
        message = "if specified, must be a non-negative integer"
        causes.append(invalid_value(f"{path}.borrowingLimitPercent", borrowed, message))
    return causes


def _check_queues(path: str, queuing: Object) -> Iterator[Cause]:
    """Check the queues of a level, although only their length and the size of a hand have an effect here."""
    length, queues, hand = (queuing.get(field, 0) for field in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        yield invalid_value(f"{path}.queueLengthLimit", length, "must be positive")
    if queues <= 0:
        yield invalid_value(f"{path}.queues", queues, "must be positive")
    elif queues > MOST_QUEUES:
        yield invalid_value(f"{path}.queues", queues, f"must not be greater than {MOST_QUEUES}")
    if hand <= 0:
        yield invalid_value(f"{path}.handSize", hand, "must be positive")
    elif hand > queues:
        yield invalid_value(f"{path}.handSize", hand, f"should not be greater than queues ({queues})")
    elif math.ceil(math.log2(queues) * hand) > HASH_BITS:
        told = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        yield invalid_value(f"{path}.handSize", hand, told)
