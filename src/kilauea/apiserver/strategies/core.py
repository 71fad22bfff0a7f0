"""The rules of the core kinds but for pods, services and volumes."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kilauea.api.names import label_problems
from kilauea.apiserver.fields import forbidden_field, invalid_value, not_supported, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, keep, spec_of, text_at
from kilauea.apiserver.strategies.quantities import check_amounts

LARGEST_DATA = 1024 * 1024
"""Bytes of all values of a ConfigMap or Secret together."""
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_WORDS = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
NAME_LABEL = "kubernetes.io/metadata.name"


class Plain(Strategy):
    """Kinds with neither status nor generation."""

    has_status = False
    has_generation = False


class Namespaces(Strategy):
    """A namespace is active until its deletion starts, and is removed when it has no finalizers left."""

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
        obj["spec"] = {**spec_of(obj), "finalizers": list(dict.fromkeys([*finalizers, "kubernetes"]))}

    def prepare_update(self, obj: Object, old: Object) -> None:
        super().prepare_update(obj, old)
        keep(obj, old, "spec")

    def prepare_part(self, obj: Object, old: Object, subresource: str) -> None:
        keep(obj, old, "status")

    def prepare_delete(self, obj: Object) -> None:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def may_go(self, obj: Object) -> bool:
        return not spec_of(obj).get("finalizers")


class Nodes(Strategy):
    """Nodes say what they have in their status, which may come with their creation."""

    has_generation = False
    selectable = ("spec.unschedulable",)
    zero_values = MappingProxyType({"spec.unschedulable": "false"})

    def default(self, obj: Object) -> None:
        spec = spec_of(obj)
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]

    def prepare_create(self, obj: Object) -> None:
        """The status stays: kubelets send it when they register."""

    def validate(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        for number, taint in enumerate(spec_of(obj).get("taints") or []):
            path = f"metadata.taints[{number}]"
            if not taint.get("key"):
                causes.append(required(f"{path}.key"))
            effect = taint.get("effect", "")
            if effect not in _EFFECTS:
                causes.append(not_supported(f"{path}.effect", effect, _EFFECTS))
        state = obj.get("status") or {}
        for part in ("capacity", "allocatable"):
            causes += check_amounts(f"status.{part}", state.get(part) or {})
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        before, now = spec_of(old).get("providerID"), spec_of(obj).get("providerID")
        if before and before != now:
            return [
                forbidden_field("spec.providerID", 'node updates may not change providerID except from "" to valid')
            ]
        return []


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class ConfigMaps(Plain):
    """Data under keys, which may be made immutable."""

    def validate(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        for key in data:
            causes += _check_key(f"data[{key}]", key)
            if key in binary:
                causes.append(invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData"))
        for key in binary:
            causes += _check_key(f"binaryData[{key}]", key)
        size = sum(len(str(value).encode()) for value in data.values()) + sum(map(_size, binary.values()))
        return causes + _check_size("", size)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return _check_immutable(obj, old, ("data", "binaryData"))


class Secrets(Plain):
    """Secret data under keys; the type cannot change."""

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
            causes += _check_key(f"data[{key}]", key)
        causes += _check_size("data", sum(map(_size, data.values())))
        for key in _NEEDED_KEYS.get(obj.get("type", ""), ()):
            if key not in data:
                causes.append(required(f"data[{key}]"))
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        causes = []
        if obj.get("type") != old.get("type"):
            causes.append(invalid_value("type", obj.get("type"), "field is immutable"))
        return causes + _check_immutable(obj, old, ("data",))


_NEEDED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def _absorb_strings(obj: Object) -> None:
    """`stringData` is only a way to write `data`."""
    strings = obj.pop("stringData", None) or {}
    if strings:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in strings.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _size(value: str) -> int:
    try:
        return len(base64.b64decode(value))
    except binascii.Error:
        return 0


def _check_key(path: str, key: str) -> list[Cause]:
    if len(key) > 253:
        return [invalid_value(path, key, "must be no more than 253 characters")]
    if not _DATA_KEY.fullmatch(key) or key in (".", ".."):
        return [invalid_value(path, key, _KEY_WORDS)]
    return []


def _check_size(path: str, size: int) -> list[Cause]:
    if size > LARGEST_DATA:
        return [Cause(path, "FieldValueTooLong", f"Too long: may not be more than {LARGEST_DATA} bytes")]
    return []


def _check_immutable(obj: Object, old: Object, parts: tuple[str, ...]) -> list[Cause]:
    """Check that an immutable object stays so, with all its data."""
    if not old.get("immutable"):
        return []
    message = "field is immutable when `immutable` is set"
    causes = [] if obj.get("immutable") else [forbidden_field("immutable", message)]
    return causes + [forbidden_field(part, message) for part in parts if (obj.get(part) or {}) != (old.get(part) or {})]


class Events(Plain):
    """Events may be created by an update, and are never checked against the object that they are about for long."""

    create_on_update = True
    selectable: tuple[str, ...] = (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
        "reason", "reportingComponent", "source", "type",
    )  # fmt: skip

    def fields(self, obj: Mapping[str, Any]) -> dict[str, str]:
        found = {path: text_at(obj, path) for path in Events.selectable}
        source = obj.get("source") or {}
        found["source"] = source.get("component") or obj.get("reportingComponent") or ""
        return found

    def validate(self, obj: Object) -> list[Cause]:
        about = (obj.get("involvedObject") or {}).get("namespace") or ""
        namespace = obj["metadata"].get("namespace", "")
        if (about or "default") != namespace:
            message = "does not match event.namespace"
            return [invalid_value("involvedObject.namespace", about, message)]
        return []


class NewEvents(Events):
    """Events of `events.k8s.io`: the same objects under other names, and with stricter rules."""

    selectable = tuple(path.replace("involvedObject", "regarding") for path in Events.selectable if path != "source")

    def fields(self, obj: Mapping[str, Any]) -> dict[str, str]:
        """The values of the stored form under the names of this one."""
        return {path.replace("involvedObject", "regarding"): value for path, value in super().fields(obj).items()}

    def validate(self, obj: Object) -> list[Cause]:
        about = (obj.get("regarding") or {}).get("namespace") or ""
        causes = []
        if (about or "default") != obj["metadata"].get("namespace", ""):
            causes.append(invalid_value("involvedObject.namespace", about, "does not match event.namespace"))
        if obj.get("eventTime"):
            for field in ("reportingController", "reportingInstance", "action", "reason"):
                causes += [] if obj.get(field) else [required(field)]
        return causes


class Quotas(Strategy):
    """Resource quotas: amounts of resources and counts of objects."""

    has_generation = False
    answers_deleted_object = True

    def validate(self, obj: Object) -> list[Cause]:
        return check_amounts("spec.hard", spec_of(obj).get("hard") or {})
