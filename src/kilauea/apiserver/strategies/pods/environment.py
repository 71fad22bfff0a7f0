"""Checks of environment variables, and of pod fields that variables and volumes expose."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from kilauea.api.names import data_key_problems, label_problems, qualified_name_problems, subdomain_problems
from kilauea.apiserver.fields import check_name, invalid_value, missing_reference, not_supported, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object
from kilauea.apiserver.strategies.local_paths import check_no_way_up
from kilauea.apiserver.strategies.quantities import amount

_VARIABLE = re.compile(r"[ -<>-~]+")
_VARIABLE_WORDS = "a valid environment variable name must consist only of printable ASCII characters other than '='"
SHOWN_BY_VARIABLES = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
"""Pod fields that a variable can expose."""
SHOWN_BY_VOLUMES = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
)  # fmt: skip
"""Pod fields that a volume can expose."""
_FIELDS = frozenset(
    (*SHOWN_BY_VARIABLES, *SHOWN_BY_VOLUMES, "spec.restartPolicy", "spec.schedulerName", "status.phase")
)
_ALIASES = {"spec.host": "spec.nodeName"}
_MAPS = ("metadata.annotations", "metadata.labels")
_SUBSCRIPT = re.compile(r"(?s)(.+?)\['(.*)'\]")
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
)  # fmt: skip
_HUGE = ("requests.hugepages-", "limits.hugepages-")
_SIZES = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
_DIVISORS = {
    "cpu": ("1m and 1", "cpu"),
    "memory": (_SIZES, "memory"),
    "ephemeral-storage": (_SIZES, "local ephemeral storage"),
    "hugepages": (_SIZES, "hugepages"),
}
_UNITS = {"1m and 1": ("1m", "1"), _SIZES: tuple(_SIZES.split(", "))}
"""The divisors with which a variable can expose a resource, by their list in the error."""
_SOURCES = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_TOO_MANY = "may not have more than one field specified at a time"


def check_variables(path: str, variables: list[Object], volumes: Mapping[str, str]) -> list[Cause]:
    """Check the variables of a container, whose pod has volumes of these kinds."""
    causes: list[Cause] = []
    has_sources = False
    for number, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            causes.append(required(f"{path}[{number}].name"))
        elif not _VARIABLE.fullmatch(name):
            causes.append(invalid_value(f"{path}[{number}].name", name, _VARIABLE_WORDS))
        if "valueFrom" in variable:
            has_sources = True
            causes += _check_source(f"{path}[{number}].valueFrom", variable)
    for number, variable in enumerate(variables if has_sources else ()):
        source = (variable.get("valueFrom") or {}).get("fileKeyRef")
        if source is None:
            continue
        where, volume = f"{path}[{number}].valueFrom.fileKeyRef.volumeName", source.get("volumeName", "")
        if volume not in volumes:
            causes.append(missing_reference(where, volume))
        elif volumes[volume] != "emptyDir":
            causes.append(invalid_value(where, volume, "referenced volume must be of type emptyDir"))
    return causes


def _check_source(path: str, variable: Object) -> Iterator[Cause]:
    """Check that a variable has one source, or a value."""
    source = variable["valueFrom"]
    kinds = [kind for kind in _VALUES if source.get(kind) is not None]
    for kind in kinds:
        yield from _VALUES[kind](f"{path}.{kind}", source[kind])
    if not kinds:
        yield invalid_value(path, "", _SOURCES)
    if variable.get("value"):
        if kinds:
            yield invalid_value(path, "", "may not be specified when `value` is not empty")
    elif len(kinds) > 1:
        yield invalid_value(path, "", _TOO_MANY)


def _field_of_variable(path: str, source: Object) -> Iterator[Cause]:
    yield from check_field(path, source, SHOWN_BY_VARIABLES)


def _resource_of_variable(path: str, source: Object) -> Iterator[Cause]:
    yield from check_shown_resource(path, source, in_volume=False)


def _key_of_object(path: str, source: Object) -> Iterator[Cause]:
    name, key = source.get("name") or "", source.get("key") or ""
    yield from check_name(f"{path}.name", name, subdomain_problems(name))
    if key:
        yield from check_name(f"{path}.key", key, data_key_problems(key))
    else:
        yield required(f"{path}.key")


def _key_of_file(path: str, source: Object) -> Iterator[Cause]:
    key, name, place = (source.get(field) or "" for field in ("key", "volumeName", "path"))
    if not key:
        yield required(f"{path}.key")
    elif not _VARIABLE.fullmatch(key):
        yield invalid_value(f"{path}.key", key, _VARIABLE_WORDS)
    if not name:
        yield required(f"{path}.volumeName")
    else:
        yield from check_name(f"{path}.volumeName", name, label_problems(name))
    if not place:
        yield required(f"{path}.path")
    else:
        yield from check_no_way_up(f"{path}.path", place)


_VALUES: Mapping[str, Callable[[str, Object], Iterator[Cause]]] = {
    "fieldRef": _field_of_variable,
    "resourceFieldRef": _resource_of_variable,
    "configMapKeyRef": _key_of_object,
    "secretKeyRef": _key_of_object,
    "fileKeyRef": _key_of_file,
}


def check_field(path: str, source: Object, allowed: Collection[str]) -> Iterator[Cause]:
    """Check an exposed pod field, which must be an allowed one, or a single label or annotation."""
    version, shown = source.get("apiVersion") or "", source.get("fieldPath") or ""
    if not version:
        yield required(f"{path}.apiVersion")
    elif not shown:
        yield required(f"{path}.fieldPath")
    else:
        field = _ALIASES.get(shown, shown)
        part = _SUBSCRIPT.fullmatch(field)
        problem = _unknown_field(version, shown, field, part[1] if part else "")
        if problem:
            yield invalid_value(f"{path}.fieldPath", shown, f"error converting fieldPath: {problem}")
        elif part:
            key = part[2].lower() if part[1] == "metadata.annotations" else part[2]
            yield from check_name(path, part[2], qualified_name_problems(key))
        elif field not in allowed:
            yield not_supported(f"{path}.fieldPath", field, allowed)


def _unknown_field(version: str, shown: str, field: str, of_map: str) -> str:
    """Return the reason why pods have no such field, empty if they have it; `of_map` precedes a subscript."""
    if version != "v1":
        return f"unsupported pod version: {version}"
    if of_map:
        return "" if of_map in _MAPS else f"field label does not support subscript: {shown}"
    return "" if field in _FIELDS else f"field label not supported: {shown}"


def check_shown_resource(path: str, source: Object, *, in_volume: bool) -> Iterator[Cause]:
    """Check an exposed request or limit; a volume must name the container."""
    resource = source.get("resource") or ""
    if in_volume and not source.get("containerName"):
        yield required(f"{path}.containerName")
    elif not resource:
        yield required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE):
        yield not_supported(f"{path}.resource", resource, _RESOURCES)
    kind = resource.partition(".")[2]
    rule = _DIVISORS.get("hugepages" if resource.startswith(_HUGE) else kind)
    text = str(source.get("divisor") or "0")
    if rule is not None and amount(text) and text not in _UNITS[rule[0]]:
        message = f"only divisor's values {rule[0]} are supported with the {rule[1]} resource"
        yield invalid_value(f"{path}.divisor", resource, message)


def check_variable_sources(path: str, sources: list[Object]) -> Iterator[Cause]:
    """Check the objects whose keys become variables; each source is one object."""
    for number, source in enumerate(sources):
        prefix, where = source.get("prefix"), f"{path}[{number}]"
        if prefix and not _VARIABLE.fullmatch(prefix):
            yield invalid_value(f"{where}.prefix", prefix, _VARIABLE_WORDS)
        kinds = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
        for kind in kinds:
            name = source[kind].get("name") or ""
            if name:
                yield from check_name(f"{where}.{kind}.name", name, subdomain_problems(name))
            else:
                yield required(f"{where}.{kind}.name")
        if not kinds:
            yield invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(kinds) > 1:
            yield invalid_value(path, "", _TOO_MANY)
