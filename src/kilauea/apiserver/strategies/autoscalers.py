"""The rules of horizontal pod autoscalers."""

from __future__ import annotations

from typing import Any

from kilauea.api.names import label_problems, path_segment_problems
from kilauea.api.quantity import QuantityError, parse_size
from kilauea.apiserver.fields import (
    check_name,
    check_not_negative,
    check_path_segments,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.stored_forms.autoscaling import FirstAutoscalers
from kilauea.apiserver.strategies.base import Object, Strategy, spec_of
from kilauea.apiserver.strategies.pods.resources import check_container_resource
from kilauea.apiserver.strategies.quantities import NEGATIVE, amount

_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
"""The field of each type of metric."""
_STORED = FirstAutoscalers()
_TARGETS = ("Utilization", "Value", "AverageValue")
LONGEST_PERIOD, LONGEST_WINDOW = 1800, 3600
_NO_METRIC = "must specify at least one Object or External metric to support scaling to zero replicas"
_RAW_OR_SHARE = "must set either a target raw value or a target utilization"


class Autoscalers(Strategy):
    """Autoscalers: the target workload, bounds on its replicas, and metrics."""

    has_generation = False

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        causes = _check_bounds(spec.get("minReplicas"), spec.get("maxReplicas", 0))
        causes += _check_target_reference("spec.scaleTargetRef", spec.get("scaleTargetRef") or {})
        for number, metric in enumerate(spec.get("metrics") or []):
            causes += _check_metric(f"spec.metrics[{number}]", metric)
        outside = any(each.get("type") in ("Object", "External") for each in spec.get("metrics") or [])
        if spec.get("minReplicas") == 0 and not outside:
            causes.append(forbidden_field("spec.metrics", _NO_METRIC))
        behavior = spec.get("behavior") or {}
        for part in ("scaleUp", "scaleDown"):
            if behavior.get(part) is not None:
                causes += _check_rules(f"spec.behavior.{part}", behavior[part])
        return causes

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        state = obj.get("status") or {}
        causes = check_not_negative("status.currentReplicas", state.get("currentReplicas"))
        return causes + check_not_negative("status.desiredReplicas", state.get("desiredReplicas"))


class OlderAutoscalers(Autoscalers):
    """Autoscalers of `autoscaling/v1`, which are checked in their stored form."""

    def default(self, obj: Object) -> None:
        _STORED.settle(obj)

    def validate(self, obj: Object) -> list[Cause]:
        return super().validate(_STORED.stored(obj))


def _check_bounds(least: int | None, most: int) -> list[Cause]:
    causes: list[Cause] = []
    if least is not None and least < 1:
        causes.append(invalid_value("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most == 0:
        causes.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        causes.append(invalid_value("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if least is not None and most < least:
        causes.append(invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    return causes


def _check_target_reference(path: str, reference: Object) -> list[Cause]:
    causes = check_path_segments(path, reference, "kind", "name")
    version = reference.get("apiVersion", "")
    controller = reference.get("kind") == "ReplicationController" and version == "v1"
    if version.count("/") > 1:
        causes.append(invalid_value(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    elif "/" not in version and not controller:
        causes.append(invalid_value(f"{path}.apiVersion", version, "apiVersion must specify API group"))
    return causes


def _check_metric(path: str, metric: Object) -> list[Cause]:
    kind = metric.get("type", "")
    causes: list[Cause] = []
    if not kind:
        causes.append(required(f"{path}.type", "must specify a metric source type"))
    if kind not in _SOURCES:
        causes.append(not_supported(f"{path}.type", kind, _SOURCES))
    given = [field for field in ("object", "external", "pods", "resource", "containerResource") if field in metric]
    for field in given[:1]:
        causes += _check_source(f"{path}.{field}", field, metric[field] or {})
    expected = _SOURCES.get(kind)
    if expected is None:
        causes.append(not_supported(f"{path}.type", kind, _SOURCES))
    elif expected not in given:
        causes.append(required(f"{path}.{expected}", "must populate information for the given metric source"))
    if len(given) != 1:
        others = [field for field in given if field != expected]
        causes += [forbidden_field(f"{path}.{field}", "must populate the given metric source only") for field in others]
    return causes


def _check_source(path: str, field: str, source: Object) -> list[Cause]:
    target = source.get("target") or {}
    if field in ("resource", "containerResource"):
        name, container = source.get("name") or "", source.get("container") or ""
        causes = [] if name else [required(f"{path}.name", "must specify a resource name")]
        if field == "containerResource":
            if name:
                causes += check_container_resource(f"{path}.name", name)
            if not container:
                causes.append(required(f"{path}.container", "must specify a container"))
            else:
                causes += check_name(f"{path}.container", container, label_problems(container))
        causes += _check_target(f"{path}.target", target)
        if target.get("averageUtilization") is None and target.get("averageValue") is None:
            causes.append(required(f"{path}.target.averageUtilization", _RAW_OR_SHARE))
        elif target.get("averageUtilization") is not None and target.get("averageValue") is not None:
            message = "may not set both a target raw value and a target utilization"
            causes.append(forbidden_field(f"{path}.target.averageValue", message))
        return causes
    causes = _check_target_reference(f"{path}.describedObject", _described(source)) if field == "object" else []
    name = (source.get("metric") or {}).get("name")
    if name:
        causes += check_name(f"{path}.metric.name", name, path_segment_problems(name))
    else:
        causes.append(required(f"{path}.metric.name", "must specify a metric name"))
    return causes + _check_target(f"{path}.target", target) + _check_values(path, field, target)


def _described(source: Object) -> Object:
    """Return the object that a metric describes; objects of the core group are allowed."""
    described = source.get("describedObject") or {}
    return {**described, "apiVersion": "core/v1"} if "/" not in described.get("apiVersion", "") else described


def _check_values(path: str, field: str, target: Object) -> list[Cause]:
    value, average = target.get("value"), target.get("averageValue")
    where = f"{path}.target.averageValue"
    if field == "pods":
        return [] if average is not None else [required(where, "must specify a positive target averageValue")]
    if value is None and average is None:
        words = {"object": "must set either a target value or averageValue"}
        return [required(where, words.get(field, "must set either a target value for metric or a per-pod target"))]
    if field == "external" and value is not None and average is not None:
        message = "may not set both a target value for metric and a per-pod target"
        return [forbidden_field(f"{path}.target.value", message)]
    return []


def _check_target(path: str, target: Object) -> list[Cause]:
    kind, share = target.get("type", ""), target.get("averageUtilization")
    causes: list[Cause] = []
    if not kind:
        causes.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in _TARGETS:
        causes.append(invalid_value(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for field in ("value", "averageValue"):
        if target.get(field) is not None and not _is_positive(target[field]):
            causes.append(invalid_value(f"{path}.{field}", target[field], "must be positive"))
    if share is not None and share < 1:
        causes.append(invalid_value(f"{path}.averageUtilization", share, "must be greater than 0"))
    return causes


def _is_positive(value: Any) -> bool:
    try:
        return parse_size(value) > 0
    except QuantityError:
        return False


def _check_rules(path: str, rules: Object) -> list[Cause]:
    causes: list[Cause] = []
    window, choice = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    if window is not None and window < 0:
        causes.append(invalid_value(f"{path}.stabilizationWindowSeconds", window, _at_least("zero")))
    elif window is not None and window > LONGEST_WINDOW:
        message = f"must be less than or equal to {LONGEST_WINDOW}"
        causes.append(invalid_value(f"{path}.stabilizationWindowSeconds", window, message))
    if choice is not None and choice not in ("Disabled", "Max", "Min"):
        causes.append(not_supported(f"{path}.selectPolicy", choice, ("Disabled", "Max", "Min")))
    if not rules.get("policies"):
        causes.append(required(f"{path}.policies", "must specify at least one Policy"))
    for number, policy in enumerate(rules.get("policies") or []):
        causes += _check_policy(f"{path}.policies[{number}]", policy)
    tolerance = amount(str(rules["tolerance"])) if rules.get("tolerance") is not None else None
    if tolerance is not None and tolerance < 0:
        causes.append(invalid_value(f"{path}.tolerance", rules["tolerance"], NEGATIVE))
    return causes


def _check_policy(path: str, policy: Object) -> list[Cause]:
    causes: list[Cause] = []
    if policy.get("type") not in ("Percent", "Pods"):
        causes.append(not_supported(f"{path}.type", policy.get("type", ""), ("Percent", "Pods")))
    for field in ("value", "periodSeconds"):
        if policy.get(field, 0) <= 0:
            causes.append(invalid_value(f"{path}.{field}", policy.get(field, 0), "must be greater than zero"))
    if policy.get("periodSeconds", 0) > LONGEST_PERIOD:
        message = f"must be less than or equal to {LONGEST_PERIOD}"
        causes.append(invalid_value(f"{path}.periodSeconds", policy["periodSeconds"], message))
    return causes


def _at_least(least: str) -> str:
    return f"must be greater than or equal to {least}"
