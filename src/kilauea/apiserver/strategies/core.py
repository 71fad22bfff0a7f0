"""The rules for the core kinds except pods, services and volumes."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kilauea.api.names import (
    data_key_problems,
    label_problems,
    label_value_problems,
    path_segment_problems,
    qualified_name_problems,
    subdomain_problems,
)
from kilauea.apiserver.fields import (
    check_name,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.go_json import GO_KINDS
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.addresses import cidr_problems, cidr_warnings, parse_cidr
from kilauea.apiserver.strategies.base import Object, Strategy, keep, spec_of
from kilauea.apiserver.strategies.key_pairs import key_pair_problem
from kilauea.apiserver.strategies.quantities import check_amounts
from kilauea.apiserver.syntax_errors import json_syntax_error

LARGEST_DATA = 1024 * 1024
"""Maximum total bytes of the values of a ConfigMap or Secret."""
NAME_LABEL = "kubernetes.io/metadata.name"


class Plain(Strategy):
    """Kinds with neither status nor generation."""

    has_status = False
    has_generation = False


class Namespaces(Strategy):
    """Namespaces: active until deletion starts, and removed when they have no finalizers left."""

    has_generation = False
    deletes_plainly = True
    name_problems = staticmethod(label_problems)
    selectable = ("status.phase",)

    def default(self, obj: Object) -> None:
        labels = obj["metadata"].get("labels") or {}
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"]["labels"] = {**labels, NAME_LABEL: name}

    def prepare_create(self, obj: Object) -> None:
        self.default(obj)
        obj["status"] = {"phase": "Active"}
        finalizers = spec_of(obj).get("finalizers") or []
        ours = [] if "kubernetes" in finalizers else ["kubernetes"]
        obj["spec"] = {**spec_of(obj), "finalizers": [*finalizers, *ours]}

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in the finalizers of a namespace."""
        finalizers = spec_of(obj).get("finalizers") or []
        return [cause for each in finalizers for cause in _check_finalizer("spec.finalizers", each)]

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        return []

    def validate_part(self, obj: Object, old: Object, subresource: str) -> list[Cause]:
        finalizers = enumerate(spec_of(obj).get("finalizers") or [])
        return [cause for at, each in finalizers for cause in _check_finalizer(f"spec.finalizers[{at}]", each)]

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        phase, is_going = (obj.get("status") or {}).get("phase", ""), bool(obj["metadata"].get("deletionTimestamp"))
        if phase == ("Terminating" if is_going else "Active"):
            return []
        message = (
            "'Terminating' if `deletionTimestamp` is not empty"
            if is_going
            else "'Active' if `deletionTimestamp` is empty"
        )
        return [invalid_value("status.Phase", phase, f"may only be {message}")]

    def prepare_update(self, obj: Object, old: Object) -> None:
        super().prepare_update(obj, old)
        keep(obj, old, "spec")

    def prepare_part(self, obj: Object, old: Object, subresource: str) -> None:
        keep(obj, old, "status")

    def prepare_delete(self, obj: Object) -> None:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def may_go(self, obj: Object) -> bool:
        return not spec_of(obj).get("finalizers")


def _check_finalizer(path: str, name: str) -> list[Cause]:
    causes = check_name(path, name, qualified_name_problems(name))
    if "/" not in name and name != "kubernetes":
        causes.append(invalid_value(path, name, "name is neither a standard finalizer name nor is it fully qualified"))
    return causes


class Nodes(Strategy):
    """Nodes: their status has their resources, and may be set on creation."""

    has_generation = False
    selectable = ("spec.unschedulable",)
    zero_values = MappingProxyType({"spec.unschedulable": "false"})

    def default(self, obj: Object) -> None:
        spec = spec_of(obj)
        if spec.get("podCIDR") and (spec.get("podCIDRs") or [""])[0] != spec["podCIDR"]:
            spec["podCIDRs"] = [spec["podCIDR"]]  # older clients change only the first field

    def prepare_create(self, obj: Object) -> None:
        """Keep the status, which kubelets send when they register."""

    def validate(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        seen: set[tuple[str, str]] = set()
        for number, taint in enumerate(spec_of(obj).get("taints") or []):
            path, effect = f"metadata.taints[{number}]", taint.get("effect") or ""
            key, value = taint.get("key") or "", taint.get("value") or ""
            causes += check_name(f"{path}.key", key, qualified_name_problems(key))
            causes += check_name(f"{path}.value", value, label_value_problems(value))
            causes += [] if effect in _EFFECTS else [_bad_effect(f"{path}.effect", effect)]
            if (key, effect) in seen:
                told = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
                again = duplicate(path, told)
                message = f"{again.message}: taints must be unique by key and effect pair"
                causes.append(Cause(path, again.reason, message))
            seen.add((key, effect))
        causes += _check_ranges("spec.podCIDRs", spec_of(obj).get("podCIDRs") or [])
        state = obj.get("status") or {}
        for part in ("capacity", "allocatable"):
            causes += check_amounts(f"status.{part}", state.get(part) or {})
        return causes

    def warnings(self, obj: Object) -> list[str]:
        ranges = spec_of(obj).get("podCIDRs") or []
        return [each for number, text in enumerate(ranges) for each in cidr_warnings(f"spec.podCIDRs[{number}]", text)]

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        causes = []
        for field, told in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            before, now = spec_of(old).get(field), spec_of(obj).get(field)
            if before and before != now:
                message = f'node updates may not change {told} except from "" to valid'
                causes.append(forbidden_field(f"spec.{field}", message))
        return causes


def _bad_effect(path: str, effect: str) -> Cause:
    return not_supported(path, effect, _EFFECTS) if effect else required(path)


def _check_ranges(path: str, ranges: list[str]) -> list[Cause]:
    """Check the pod CIDR ranges of a node: at most one per IP family."""
    causes = []
    for number, text in enumerate(ranges):
        causes += check_name(f"{path}[{number}]", text, cidr_problems(text))
    versions = [each.version for each in map(parse_cidr, ranges) if each]
    if len(versions) > len(set(versions)):
        causes.append(invalid_value(path, ranges, "may specify no more than one CIDR for each IP family"))
    return causes


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class ConfigMaps(Plain):
    """ConfigMaps: data under keys, which may be immutable."""

    def validate(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        for key in data:
            causes += check_name(f"data[{key}]", key, data_key_problems(key))
            if key in binary:
                causes.append(invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData"))
        for key in binary:
            causes += check_name(f"binaryData[{key}]", key, data_key_problems(key))
        size = sum(len(str(value).encode()) for value in data.values()) + sum(map(_size, binary.values()))
        return causes + _check_size("", size)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return _check_immutable(obj, old, ("data", "binaryData"))


class Secrets(Plain):
    """Secrets: data under keys, with an immutable type."""

    always_warns = True
    selectable = ("type",)

    def prepare_create(self, obj: Object) -> None:
        _absorb_strings(obj)

    def prepare_update(self, obj: Object, old: Object) -> None:
        _absorb_strings(obj)
        if not obj.get("type"):
            keep(obj, old, "type")

    def validate(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        data = obj.get("data") or {}
        for key in data:
            causes += check_name(f"data[{key}]", key, data_key_problems(key))
        causes += _check_size("data", sum(map(_size, data.values())))
        return causes + _check_needed(obj, data)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        causes = []
        if obj.get("type") != old.get("type"):
            causes.append(invalid_value("type", obj.get("type"), "field is immutable"))
        return causes + _check_immutable(obj, old, ("data",))

    def warnings(self, obj: Object) -> list[str]:
        if obj.get("type") != _TLS:
            return []
        data = obj.get("data") or {}
        problem = key_pair_problem(*(base64.b64decode(data.get(key) or "") for key in _NEEDED_KEYS[_TLS]))
        return [problem] if problem else []


_TLS = "kubernetes.io/tls"
_NEEDED_KEYS = {
    _TLS: ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def _check_needed(obj: Object, data: Object) -> list[Cause]:
    """Check that a secret of a built-in type has the required data."""
    kind = obj.get("type", "")
    causes = [required(f"data[{key}]") for key in _NEEDED_KEYS.get(kind, ()) if key not in data]
    if kind in _DOCKER and _DOCKER[kind] in data:
        path = f"data[{_DOCKER[kind]}]"
        problem = _json_problem(data[_DOCKER[kind]])
        causes += [invalid_value(path, "<secret contents redacted>", problem)] if problem else []
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        causes += [required("data[username]"), required("data[password]")]
    if kind == "kubernetes.io/ssh-auth" and "ssh-privatekey" in data and not data["ssh-privatekey"]:
        causes.append(required("data[ssh-privatekey]"))
    if kind == _TOKEN and not (obj["metadata"].get("annotations") or {}).get(_ACCOUNT):
        causes.append(required(f"metadata.annotations[{_ACCOUNT}]"))
    return causes


def _json_problem(coded: str) -> str:
    """Return the error in a JSON object in base64; empty if none."""
    try:
        text = base64.b64decode(coded or "")
    except binascii.Error:
        return ""
    try:
        found = json.loads(text)
    except ValueError as error:
        return json_syntax_error(text, str(error))
    if isinstance(found, dict | None):
        return ""
    kind = GO_KINDS.get(type(found), "number")
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


_DOCKER = {"kubernetes.io/dockerconfigjson": ".dockerconfigjson", "kubernetes.io/dockercfg": ".dockercfg"}
_TOKEN, _ACCOUNT = "kubernetes.io/service-account-token", "kubernetes.io/service-account.name"


def _absorb_strings(obj: Object) -> None:
    """Move `stringData`, which is write-only, to `data`."""
    strings = obj.pop("stringData", None) or {}
    if strings:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in strings.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _size(value: str) -> int:
    try:
        return len(base64.b64decode(value))
    except binascii.Error:
        return 0


def _check_size(path: str, size: int) -> list[Cause]:
    if size > LARGEST_DATA:
        return [Cause(path, "FieldValueTooLong", f"Too long: may not be more than {LARGEST_DATA} bytes")]
    return []


def _check_immutable(obj: Object, old: Object, parts: tuple[str, ...]) -> list[Cause]:
    """Check that an immutable object stays immutable, with unchanged data."""
    if not old.get("immutable"):
        return []
    message = "field is immutable when `immutable` is set"
    causes = [] if obj.get("immutable") else [forbidden_field("immutable", message)]
    return causes + [forbidden_field(part, message) for part in parts if (obj.get(part) or {}) != (old.get(part) or {})]


class Events(Plain):
    """Events, which an update may create."""

    create_on_update = True
    name_problems = staticmethod(path_segment_problems)
    checks_metadata_last = True
    selectable: tuple[str, ...] = (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
        "reason", "reportingComponent", "source", "type",
    )  # fmt: skip

    sources: Mapping[str, tuple[str, ...]] = MappingProxyType({"source": ("source.component", "reportingComponent")})

    def validate(self, obj: Object) -> list[Cause]:
        causes = _check_about(obj, obj.get("involvedObject") or {})
        if obj.get("eventTime"):
            causes += _check_report(obj, "reportingComponent", "message")
        return causes


def _new_path(path: str) -> str:
    """Return the path of a field of an event in `events.k8s.io`."""
    return path.replace("involvedObject", "regarding").replace("reportingComponent", "reportingController")


class NewEvents(Events):
    """Events of `events.k8s.io`: the same objects with other field names and stricter rules."""

    name_problems = staticmethod(subdomain_problems)
    checks_metadata_last = False
    checks_metadata_between = True
    selectable = tuple(_new_path(path) for path in Events.selectable if path != "source")
    sources = MappingProxyType({_new_path(path): (path,) for path in Events.selectable})

    def validate(self, obj: Object) -> list[Cause]:
        causes = _check_about(obj, obj.get("regarding") or {})
        if obj.get("eventTime"):
            causes += _check_report(obj, "reportingController", "note")
        return causes

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        return self.validate(obj) + (_check_series(obj.get("series")) if obj.get("eventTime") else [])

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return an error for each changed field but the series, with the names that fields have in the core group."""
        causes = []
        for field, told, form in _FIXED_IN_EVENTS:
            value = obj.get(field) or {}
            if value != (old.get(field) or {}):
                if isinstance(form, dict):
                    shown = {name: value.get(part, "") for name, part in form.items()}
                else:
                    shown = value or form
                causes.append(invalid_value(told, shown, "field is immutable"))
        return causes

    def validate_last(self, obj: Object) -> list[Cause]:
        causes = _check_series(obj.get("series"))
        if not obj.get("eventTime"):
            causes.append(required("eventTime"))
        if obj.get("type") not in ("Normal", "Warning"):
            causes.append(invalid_value("type", "", f"has invalid value: {obj.get('type', '')}"))
        for field, told in _OF_OLD_EVENTS.items():
            if obj.get(field):
                causes.append(invalid_value(told, "", "needs to be unset"))
        return causes


_OF_OLD_EVENTS = {
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "deprecatedSource": "source",
}
"""Fields that new events must not have, and their names in the other version, used in messages."""
_REFERENCE = {
    "Kind": "kind", "Namespace": "namespace", "Name": "name", "UID": "uid", "APIVersion": "apiVersion",
    "ResourceVersion": "resourceVersion", "FieldPath": "fieldPath",
}  # fmt: skip
_FIXED_IN_EVENTS: tuple[tuple[str, str, Any], ...] = (
    ("regarding", "involvedObject", _REFERENCE),
    ("reason", "reason", ""),
    ("note", "message", ""),
    ("deprecatedSource", "source", {"Component": "component", "Host": "host"}),
    ("deprecatedFirstTimestamp", "firstTimestamp", None),
    ("deprecatedLastTimestamp", "lastTimestamp", None),
    ("deprecatedCount", "count", 0),
    ("reason", "reason", ""),  # the real server checks it twice
    ("type", "type", ""),
    ("eventTime", "eventTime", None),
    ("action", "action", ""),
    ("related", "related", _REFERENCE),
    ("reportingController", "reportingController", ""),
    ("reportingInstance", "reportingInstance", ""),
)
"""Fields of events that updates must not change, with their names in messages, and the names of their parts there or
their empty value."""
_LONGEST_WORD, _LONGEST_NOTE = 128, 1024


def _check_about(obj: Object, about: Object) -> list[Cause]:
    """Check that an event is in the namespace of its object; one with an eventTime may be in another."""
    namespace, named = obj["metadata"].get("namespace", ""), about.get("namespace") or ""
    if obj.get("eventTime"):
        wrong = not named and namespace not in ("default", "kube-system")
    else:
        wrong = (named or "default") != namespace
    return [invalid_value("involvedObject.namespace", named, "does not match event.namespace")] if wrong else []


def _check_report(obj: Object, controller: str, note: str) -> list[Cause]:
    """Check controller, action and reason of an event with an eventTime, in fields with these names."""
    name = obj.get(controller) or ""
    causes = [] if name else [required(controller)]
    causes += check_name(controller, name, qualified_name_problems(name))
    for field in ("reportingInstance", "action", "reason"):
        text = obj.get(field) or ""
        if not text:
            causes.append(required(field))
        elif len(text) > _LONGEST_WORD:
            causes.append(invalid_value(field, "", f"can have at most {_LONGEST_WORD} characters"))
    if len(obj.get(note) or "") > _LONGEST_NOTE:
        causes.append(invalid_value("message", "", f"can have at most {_LONGEST_NOTE} characters"))
    return causes


def _check_series(series: Object | None) -> list[Cause]:
    """Check the series of an event: a count above one, and the time of the last."""
    if series is None:
        return []
    causes = [] if series.get("count", 0) >= 2 else [invalid_value("series.count", "", "should be at least 2")]
    return causes if series.get("lastObservedTime") else [*causes, required("series.lastObservedTime")]
