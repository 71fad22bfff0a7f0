"""Device claims, slices and classes in the beta versions of `resource.k8s.io`, stored as `v1`.

`v1beta2` has the fields of `v1`. In `v1beta1` a request contains the fields of `exactly` in `v1`, and the properties of
a device are in `basic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

Object = dict[str, Any]
Change = Callable[[Object], Object]

BETAS = ("v1beta1", "v1beta2")
STABLE = ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices")
"""Kinds that `v1` also has."""
STORED = "resource.k8s.io/v1"
_FLAT = "resource.k8s.io/v1beta1"
_ASKED = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")
"""Fields of a request of `v1beta1` that are in `exactly` in `v1`."""


class BetaDevices:
    """Converts objects with devices between a beta version and the stored form."""

    def served(self, value: bytes, api_version: str) -> bytes:
        """Return stored bytes in a beta version, with kind, apiVersion and metadata first."""
        obj: Object = msgspec.json.decode(value)
        if obj["apiVersion"] == api_version:
            return value
        head = {"kind": obj["kind"], "apiVersion": api_version, "metadata": obj.get("metadata") or {}}
        rest = _converted(obj, _flat_request, _basic_device) if api_version == _FLAT else obj
        return msgspec.json.encode({**head, **rest, "apiVersion": api_version})

    def stored(self, obj: Object) -> Object:
        """Return the stored form of an object of a beta version; an object in that form is unchanged."""
        version = obj.get("apiVersion")
        if version == STORED:
            return obj
        rest = _converted(obj, _exact_request, _plain_device) if version == _FLAT else obj
        return {**rest, "apiVersion": STORED}


BETA_DEVICES = BetaDevices()


def _converted(obj: Object, request: Change, device: Change) -> Object:
    """Return a copy of an object with its requests and devices changed."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return obj
    if obj.get("kind") == "ResourceClaim":
        return {**obj, "spec": _with_requests(spec, request)}
    if obj.get("kind") == "ResourceClaimTemplate" and isinstance(spec.get("spec"), dict):
        return {**obj, "spec": {**spec, "spec": _with_requests(spec["spec"], request)}}
    if obj.get("kind") == "ResourceSlice" and spec.get("devices") is not None:
        return {**obj, "spec": {**spec, "devices": [device(each) for each in spec["devices"]]}}
    return obj


def _with_requests(spec: Object, change: Change) -> Object:
    devices = spec.get("devices")
    if not isinstance(devices, dict) or devices.get("requests") is None:
        return spec
    return {**spec, "devices": {**devices, "requests": [change(each) for each in devices["requests"]]}}


def _exact_request(request: Object) -> Object:
    """Convert a request of `v1beta1` to `v1`: its own fields move to `exactly`."""
    asked = {name: request[name] for name in _ASKED if _says_something(request, name)}
    rest = {name: value for name, value in request.items() if name not in _ASKED}
    return {**rest, "exactly": {"deviceClassName": "", **asked}} if asked else rest


def _says_something(request: Mapping[str, Any], name: str) -> bool:
    return request.get(name) is not None and (name != "deviceClassName" or bool(request[name]))


def _flat_request(request: Object) -> Object:
    rest = {name: value for name, value in request.items() if name != "exactly"}
    return {**rest, "deviceClassName": "", **(request.get("exactly") or {})}


def _plain_device(device: Object) -> Object:
    rest = {name: value for name, value in device.items() if name != "basic"}
    return {**rest, **(device.get("basic") or {})}


def _basic_device(device: Object) -> Object:
    return {"name": device.get("name", ""), "basic": {key: each for key, each in device.items() if key != "name"}}
