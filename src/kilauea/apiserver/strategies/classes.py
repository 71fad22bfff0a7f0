"""The rules of small cluster-scoped kinds: runtime classes, IP addresses, and API services."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.api.names import label_problems, path_segment_problems, service_name_problems, subdomain_problems
from kilauea.apiserver.fields import (
    check_labels,
    check_name,
    check_path_segments,
    duplicate,
    invalid_value,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.addresses import canonical_address_problems, canonical_cidr_problems, parse_cidr
from kilauea.apiserver.strategies.base import METADATA, Object, Strategy, spec_of
from kilauea.apiserver.strategies.core import Plain
from kilauea.apiserver.strategies.endpoints import IMMUTABLE
from kilauea.apiserver.strategies.limit_ranges import check_resource_name
from kilauea.apiserver.strategies.old_labels import old_label
from kilauea.apiserver.strategies.placement import check_toleration
from kilauea.apiserver.strategies.quantities import NEGATIVE, amount


class RuntimeClasses(Plain):
    """Runtime classes: an immutable handler, the overhead of pods, and the nodes where they can run."""

    always_warns = True
    unconditional_update = False

    def validate(self, obj: Object) -> list[Cause]:
        handler = obj.get("handler", "")
        causes = check_name("handler", handler, label_problems(handler)) if handler else [required("handler")]
        for name, text in ((obj.get("overhead") or {}).get("podFixed") or {}).items():
            causes += check_resource_name(f"overhead.limits[{name}]", "Container", name)
            number = amount(str(text))
            if number is not None and number < 0:
                causes.append(invalid_value(f"overhead.limits[{name}]", text, NEGATIVE))
        scheduling = obj.get("scheduling") or {}
        causes += check_labels("scheduling.nodeSelector", scheduling.get("nodeSelector") or {})
        return [*causes, *_check_tolerations("scheduling.tolerations", scheduling.get("tolerations") or [])]

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        if obj.get("handler") != old.get("handler"):
            return [invalid_value("handler", obj.get("handler"), IMMUTABLE)]
        return []

    def warnings(self, obj: Object) -> list[str]:
        labels = (obj.get("scheduling") or {}).get("nodeSelector") or {}
        return [each for key in labels for each in old_label("scheduling.nodeSelector", key)]


def _check_tolerations(path: str, tolerations: list[Object]) -> Iterator[Cause]:
    parts = ("key", "operator", "value", "effect")
    seen: list[Object] = []
    for number, each in enumerate(tolerations):
        yield from check_toleration(f"{path}[{number}]", each)
        told = {part.capitalize(): each.get(part) or "" for part in parts}
        if told in seen:
            yield duplicate(f"{path}[{number}]", {**told, "TolerationSeconds": each.get("tolerationSeconds")})
        seen.append(told)


class Addresses(Plain):
    """IP addresses of services, each with its object."""

    name_problems = staticmethod(canonical_address_problems)
    selectable = ("spec.parentRef.resource", "spec.parentRef.name", "spec.parentRef.namespace", "spec.parentRef.group")

    def validate(self, obj: Object) -> list[Cause]:
        parent = spec_of(obj).get("parentRef")
        if parent is None:
            return [required("spec.parentRef")]
        causes: list[Cause] = []
        if parent.get("group"):
            causes += check_name("spec.parentRef.group", parent["group"], subdomain_problems(parent["group"]))
        causes += check_path_segments("spec.parentRef", parent, "resource", "name")
        return causes + (check_path_segments("spec.parentRef", parent, "namespace") if parent.get("namespace") else [])

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        if spec_of(obj).get("parentRef") != spec_of(old).get("parentRef"):
            return [invalid_value("spec.parentRef", spec_of(obj).get("parentRef"), IMMUTABLE)]
        return []


class AddressRanges(Strategy):
    """CIDR ranges of service addresses."""

    kept_in_status = METADATA
    has_generation = False

    def validate(self, obj: Object) -> list[Cause]:
        ranges = spec_of(obj).get("cidrs") or []
        if not ranges:
            return [required("spec.cidrs", "at least one CIDR required")]
        if len(ranges) > 2:
            return [invalid_value("spec", spec_of(obj), "may only hold up to 2 values")]
        causes: list[Cause] = []
        for number, text in enumerate(ranges):
            causes += check_name(f"spec.cidrs[{number}]", text, canonical_cidr_problems(text))
        found = [parse_cidr(text) for text in ranges]
        versions = [each.version for each in found if each]
        if len(versions) > len(set(versions)):
            message = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
            causes.append(invalid_value("spec.cidrs", ranges, message))
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        new, before = spec_of(obj).get("cidrs") or [], spec_of(old).get("cidrs") or []
        changed = [number for number, each in enumerate(new) if number >= len(before) or each != before[number]]
        return [invalid_value(f"spec.cidrs[{number}]", new[number], IMMUTABLE) for number in changed]


class ApiServices(Strategy):
    """API services: versions of API groups, of this server or another (`kilauea.apiserver.aggregator`)."""

    kept_in_status = METADATA
    has_generation = False
    unconditional_update = False

    name_problems = staticmethod(path_segment_problems)

    def prepare_create(self, obj: Object) -> None:
        """Mark a version without a service as available, as this server provides it."""
        super().prepare_create(obj)
        if spec_of(obj).get("service") is None:
            condition = {
                "type": "Available",
                "status": "True",
                "lastTransitionTime": obj["metadata"]["creationTimestamp"],
                "reason": "Local",
                "message": "Local APIServices are always available",
            }
            obj["status"] = {"conditions": [condition]}

    def validate(self, obj: Object) -> list[Cause]:
        spec, name = spec_of(obj), obj["metadata"].get("name", "")
        group, version, service = spec.get("group", ""), spec.get("version", ""), spec.get("service")
        causes: list[Cause] = []
        if name and name != f"{version}.{group}":
            message = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
            causes.append(invalid_value("metadata.name", name, message))
        if not group and version != "v1":
            message = "only v1 may have an empty group and it better be legacy kube"
            causes.append(required("spec.group", message))
        if group:
            causes += check_name("spec.group", group, subdomain_problems(group))
        causes += check_name("spec.version", version, service_name_problems(version))
        for field, most in (("groupPriorityMinimum", 20_000), ("versionPriority", 1000)):
            if not 0 < spec.get(field, 0) <= most:
                message = f"must be positive and less than {most}"
                causes.append(invalid_value(f"spec.{field}", spec.get(field, 0), message))
        return causes + (_check_local(spec) if service is None else _check_service(spec, service))


def _check_local(spec: Object) -> list[Cause]:
    if spec.get("insecureSkipTLSVerify"):
        message = "local APIServices may not have insecureSkipTLSVerify"
        return [invalid_value("spec.insecureSkipTLSVerify", True, message)]
    return []


def _check_service(spec: Object, service: Object) -> list[Cause]:
    causes = [required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
    port = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        message = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid_value("spec.service.port", port, message))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        causes.append(invalid_value("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present"))
    return causes
