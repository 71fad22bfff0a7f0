"""Autoscalers of `autoscaling/v1`, stored as those of `autoscaling/v2`.

Values without a field in the older version (metrics other than CPU utilization, behavior, conditions) are in
annotations of the served object, as in Kubernetes, and are restored from them when a client writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kilauea.apiserver.go_json import go_json
from kilauea.apiserver.schema import DecodeError, Schema, apply_defaults, builtin_schema, read_builtin
from kilauea.apiserver.stored_forms.autoscaling_metrics import CURRENT, WANTED, to_v1, to_v2

Object = dict[str, Any]

STORED = "autoscaling/v2"
KIND = "HorizontalPodAutoscaler"
DEFAULT_UTILIZATION = 80
"""The target CPU utilization, in percent of requests, of an autoscaler without metrics."""
_ANNOTATION = "autoscaling.alpha.kubernetes.io/"
_METRICS, _CURRENT, _BEHAVIOR, _CONDITIONS = (
    _ANNOTATION + each for each in ("metrics", "current-metrics", "behavior", "conditions")
)
_OWN = (_METRICS, _CURRENT, _BEHAVIOR, _CONDITIONS)
_SHARE, _SHARE_NOW = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"
_SPEC_FIELDS = ("scaleTargetRef", "minReplicas", "maxReplicas")
_STATUS_FIELDS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
_CONDITION_FIELDS = ("type", "status", "lastTransitionTime", "reason", "message")
_RULES = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
_POLICY = ("type", "value", "periodSeconds")


class FirstAutoscalers:
    """Converts autoscalers between `autoscaling/v1` and the stored form."""

    def served(self, value: bytes, api_version: str) -> bytes:
        """Return stored bytes as `autoscaling/v1`, with kind, apiVersion and metadata first."""
        obj: Object = msgspec.json.decode(value)
        if obj["apiVersion"] == api_version:
            return value
        spec, state = obj.get("spec") or {}, obj.get("status") or {}
        metadata = dict(obj["metadata"])
        annotations = _without_own(metadata.pop("annotations", None) or {}) | _annotations(spec, state)
        if annotations:
            metadata["annotations"] = annotations
        served = {"kind": KIND, "apiVersion": api_version, "metadata": metadata}
        served |= {"spec": _spec_to_v1(spec), "status": _status_to_v1(state)}
        apply_defaults(builtin_schema("autoscaling", "v1", KIND), served)
        return msgspec.json.encode(served)

    def settle(self, obj: Object) -> None:
        """Convert an object of `autoscaling/v1` in place to the form in which it will be served, with defaults."""
        kind, version = obj["kind"], obj["apiVersion"]
        served = msgspec.json.decode(self.served(msgspec.json.encode(self.stored(obj)), version))
        obj.clear()
        obj.update({"kind": kind, **served})

    def stored(self, obj: Object) -> Object:
        """Return the stored form of an object of `autoscaling/v1`; an object in that form is unchanged."""
        if obj.get("apiVersion") == STORED:
            return obj
        metadata = dict(obj["metadata"])
        given = metadata.pop("annotations", None) or {}
        kept = _without_own(given)
        if kept:
            metadata["annotations"] = kept
        spec, state = _spec_to_v2(obj.get("spec") or {}, given), _status_to_v2(obj.get("status") or {}, given)
        stored = {"kind": KIND, "apiVersion": STORED, "metadata": metadata, "spec": spec, "status": state}
        apply_defaults(builtin_schema("autoscaling", "v2", KIND), stored)
        return stored


def _without_own(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key not in _OWN}


# --- to autoscaling/v1


def _is_share(metric: Object) -> bool:
    """Return True for CPU utilization in percent, for which `autoscaling/v1` has a field."""
    resource = metric.get("resource") or {}
    is_cpu = metric.get("type") == "Resource" and resource.get("name") == "cpu"
    return is_cpu and (resource.get("target") or {}).get("averageUtilization") is not None


def _spec_to_v1(spec: Object) -> Object:
    found = {key: spec[key] for key in _SPEC_FIELDS if key in spec}
    for metric in spec.get("metrics") or ():
        if _is_share(metric):
            found[_SHARE] = metric["resource"]["target"]["averageUtilization"]
            break
    return found


def _status_to_v1(state: Object) -> Object:
    found = {key: state[key] for key in _STATUS_FIELDS if key in state}
    for metric in state.get("currentMetrics") or ():
        resource = (metric.get("resource") or {}) if metric.get("type") == "Resource" else {}
        share = (resource.get("current") or {}).get("averageUtilization")
        if resource.get("name") == "cpu" and share is not None:
            found[_SHARE_NOW] = share
    return found


def _annotations(spec: Object, state: Object) -> dict[str, str]:
    """Return the annotations with the values for which `autoscaling/v1` has no fields."""
    others = [to_v1(each, WANTED) for each in spec.get("metrics") or () if not _is_share(each)]
    current = [to_v1(each, CURRENT) for each in state.get("currentMetrics") or ()]
    behavior = spec.get("behavior")
    conditions = [
        {key: each[key] for key in _CONDITION_FIELDS if key in each} for each in state.get("conditions") or ()
    ]
    found = {
        _BEHAVIOR: None if behavior is None else _behavior_to_v1(behavior),
        _CONDITIONS: conditions,
        _CURRENT: current,
        _METRICS: others,
    }
    return {key: go_json(value) for key, value in found.items() if value}


def _behavior_to_v1(behavior: Object) -> Object:
    return {_capital(part): _rules_to_v1(behavior.get(part)) for part in ("scaleUp", "scaleDown")}


def _rules_to_v1(rules: Object | None) -> Object | None:
    if rules is None:
        return None
    found = {_capital(key): rules.get(key) for key in _RULES}
    if rules.get("policies") is not None:
        found["Policies"] = [{_capital(key): each.get(key) for key in _POLICY} for each in rules["policies"]]
    return found


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


# --- to autoscaling/v2


def _spec_to_v2(spec: Object, annotations: Mapping[str, str]) -> Object:
    found = {key: spec[key] for key in _SPEC_FIELDS if key in spec}
    metrics = _read(annotations.get(_METRICS), _metrics_of(WANTED), _part("spec", "metrics")) or []
    if spec.get(_SHARE) is not None:
        metrics.append(_share(spec[_SHARE]))
    found["metrics"] = metrics or [_share(DEFAULT_UTILIZATION)]
    behavior = _read(annotations.get(_BEHAVIOR), _lower, _part("spec", "behavior"))
    return {**found, "behavior": behavior} if behavior else found


def _share(percent: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _status_to_v2(state: Object, annotations: Mapping[str, str]) -> Object:
    found = {key: state[key] for key in _STATUS_FIELDS if state.get(key)}
    current = _read(annotations.get(_CURRENT), _metrics_of(CURRENT), _part("status", "currentMetrics"))
    if current is None and state.get(_SHARE_NOW) is not None:
        share = {"averageUtilization": state[_SHARE_NOW]}
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": share}}]
    if current:
        found["currentMetrics"] = current
    conditions = _read(annotations.get(_CONDITIONS), list, _part("status", "conditions"))
    return {**found, "conditions": conditions} if conditions else found


def _metrics_of(fields: Mapping[str, Any]) -> Callable[[Any], list[Object]]:
    return lambda value: [to_v2(each, fields) for each in value]


def _lower(value: Any) -> Any:
    """Return a value with lower-case field names, as in manifests, without null fields."""
    if isinstance(value, list):
        return [_lower(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key[:1].lower() + key[1:]: _lower(each) for key, each in value.items() if each is not None}


def _part(*path: str) -> Schema:
    schema = builtin_schema("autoscaling", "v2", KIND)
    for step in path:
        schema = schema.properties[step]
    return schema


def _read(text: str | None, change: Callable[[Any], Any], schema: Schema) -> Any:
    """Return the content of an annotation in the form of `autoscaling/v2`; None if missing or invalid."""
    if text is None:
        return None
    try:
        value = change(msgspec.json.decode(text))
        if isinstance(value, list) != (schema.type == "array"):
            return None
        for each in value if isinstance(value, list) else [value]:
            read_builtin(schema.items or schema, each)
    except (msgspec.DecodeError, DecodeError, TypeError, AttributeError, ValueError):
        return None
    return value
