"""The rules of Workloads and PodGroups of scheduling.k8s.io."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kilauea.api.names import label_problems, qualified_name_problems, subdomain_problems
from kilauea.apiserver.fields import check_name, check_path_segments, duplicate, invalid_value, not_supported, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import METADATA, Object, Strategy, spec_of
from kilauea.apiserver.strategies.conditions import check_conditions

IMMUTABLE = "field is immutable"
MOST_TEMPLATES, MOST_TOPOLOGIES = 8, 1
MODES = ("Pod", "PodGroup")
POLICIES = ("basic", "gang")
HIGHEST_PRIORITY = 1_000_000_000


class Workloads(Strategy):
    """Workloads: templates of pod groups, which never change."""

    has_status = False
    has_generation = False

    def prepare_create(self, obj: Object) -> None:
        """Remove fields that the real server has behind a feature gate that is off by default."""
        super().prepare_create(obj)
        for template in spec_of(obj).get("podGroupTemplates") or ():
            template.pop("resourceClaims", None)

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Remove the same fields."""
        super().prepare_update(obj, old)
        for template in spec_of(obj).get("podGroupTemplates") or ():
            template.pop("resourceClaims", None)

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        causes = _check_controller(spec["controllerRef"]) if spec.get("controllerRef") is not None else []
        templates = spec.get("podGroupTemplates") or []
        if not templates:
            return [*causes, required("spec.podGroupTemplates")]
        if len(templates) > MOST_TEMPLATES:
            return [*causes, _too_many("spec.podGroupTemplates", len(templates), MOST_TEMPLATES)]
        seen: set[str] = set()
        for number, template in enumerate(templates):
            path, name = f"spec.podGroupTemplates[{number}]", template.get("name", "")
            if name in seen:
                causes.append(duplicate(path, _as_written(template)))
            seen.add(name)
        for number, template in enumerate(templates):
            path, name = f"spec.podGroupTemplates[{number}]", template.get("name", "")
            causes += check_name(f"{path}.name", name, label_problems(name)) if name else [required(f"{path}.name")]
            causes += check_group(path, template)
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return _unchanged(obj, old, "controllerRef", "podGroupTemplates")


class PodGroups(Strategy):
    """Pod groups, of which only the status changes, written by schedulers."""

    kept_in_status = METADATA
    has_generation = False
    unowned: Mapping[str, tuple[str, ...]] = MappingProxyType({"": ()})

    def default(self, obj: Object) -> None:
        spec = obj.get("spec")
        if isinstance(spec, dict):
            spec.setdefault("disruptionMode", MODES[0])

    def prepare_create(self, obj: Object) -> None:
        """Remove fields that the real server has behind a feature gate that is off by default."""
        super().prepare_create(obj)
        spec_of(obj).pop("resourceClaims", None)

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Remove the same fields."""
        super().prepare_update(obj, old)
        spec_of(obj).pop("resourceClaims", None)

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        origin = spec.get("podGroupTemplateRef")
        return [*(_check_origin(origin) if origin is not None else []), *check_group("spec", spec)]

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        fixed = "podGroupTemplateRef schedulingPolicy schedulingConstraints disruptionMode"
        return _unchanged(obj, old, *fixed.split(), "priorityClassName", "priority")

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        return [*check_conditions("status.conditions", (obj.get("status") or {}).get("conditions") or ())]


def check_group(path: str, spec: Object) -> list[Cause]:
    """Check the fields that pod groups and their templates share."""
    causes = _check_policy(f"{path}.schedulingPolicy", spec.get("schedulingPolicy") or {})
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    place = f"{path}.schedulingConstraints.topology"
    if len(topology) > MOST_TOPOLOGIES:
        causes.append(_too_many(place, len(topology), MOST_TOPOLOGIES))
    else:
        for number, each in enumerate(topology):
            key, where = each.get("key", ""), f"{place}[{number}].key"
            causes += check_name(where, key, qualified_name_problems(key)) if key else [required(where)]
    if spec.get("disruptionMode", MODES[0]) not in MODES:
        causes.append(not_supported(f"{path}.disruptionMode", spec["disruptionMode"], MODES))
    if name := spec.get("priorityClassName"):
        causes += check_name(f"{path}.priorityClassName", name, subdomain_problems(name))
    if (spec.get("priority") or 0) > HIGHEST_PRIORITY:
        message = f"must be less than or equal to {HIGHEST_PRIORITY}"
        causes.append(invalid_value(f"{path}.priority", spec["priority"], message))
    return causes


def _check_policy(path: str, policy: Object) -> list[Cause]:
    """Check that exactly one policy is set."""
    given, names = [name for name in POLICIES if policy.get(name) is not None], "`basic`, `gang`"
    if not given:
        return [invalid_value(path, "", f"must specify one of: {names}")]
    causes = []
    if len(given) > 1:
        causes.append(invalid_value(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {names}"))
    if "gang" in given:
        minimum, place = policy["gang"].get("minCount") or 0, f"{path}.gang.minCount"
        if not minimum:
            causes.append(required(place))
        elif minimum < 0:
            causes.append(invalid_value(place, minimum, "must be greater than or equal to 1"))
    return causes


def _check_controller(reference: Object) -> list[Cause]:
    group = reference.get("apiGroup", "")
    causes = check_name("spec.controllerRef.apiGroup", group, subdomain_problems(group)) if group else []
    return causes + check_path_segments("spec.controllerRef", reference, "kind", "name")


def _check_origin(reference: Object) -> list[Cause]:
    path, workload = "spec.podGroupTemplateRef", reference.get("workload")
    if workload is None:
        return [invalid_value(path, "", "must specify one of: `workload`")]
    causes = []
    for field, problems in (("workloadName", subdomain_problems), ("podGroupTemplateName", label_problems)):
        name, place = workload.get(field, ""), f"{path}.workload.{field}"
        causes += check_name(place, name, problems(name)) if name else [required(place)]
    return causes


def _unchanged(obj: Object, old: Object, *fields: str) -> list[Cause]:
    spec, before = spec_of(obj), spec_of(old)
    return [invalid_value(f"spec.{field}", None, IMMUTABLE) for field in fields if spec.get(field) != before.get(field)]


def _too_many(path: str, count: int, most: int) -> Cause:
    items = "item" if most == 1 else "items"
    return Cause(path, "FieldValueTooMany", f"Too many: {count}: must have at most {most} {items}")


def _as_written(template: Object) -> dict[str, Any]:
    """Return a template as the real server shows it."""
    fields = ("name", "schedulingPolicy")
    return {field: template.get(field) for field in fields} | {
        "schedulingConstraints": template.get("schedulingConstraints")
    }
