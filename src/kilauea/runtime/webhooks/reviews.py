"""Answers AdmissionReview requests."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from kilauea.admission.registry import mutations
from kilauea.admission.review import Denied, Hook, Review, Settings
from kilauea.api.ports import Resource, View

API_VERSION = "admission.k8s.io/v1"
_QUEUES = "invalid operation `{}`, expect operation to be `CREATE`"
_WRONG_OPERATION = {
    "/pods/mutate": "expect operation to be 'CREATE' ",
    "/pods/validate": "expect operation to be 'CREATE'",
    "/podgroups/mutate": _QUEUES,
    "/podgroups/validate": "unsupported operation {}",
    "/queues/mutate": _QUEUES,
    "/queues/validate": _QUEUES + ", `UPDATE` or `DELETE`",
}
"""Messages of hooks for unsupported operations, as in Volcano; other hooks use `_WRITES`."""
_WRITES = "expect operation to be 'CREATE' or 'UPDATE'"


class _Wire(msgspec.Struct, rename="camel"):
    """Base of decoded objects: unknown fields are ignored."""


class _Resource(_Wire):
    group: str = ""
    version: str = ""
    resource: str = ""


class _User(_Wire):
    username: str = ""


class _Request(_Wire):
    uid: str = ""
    resource: _Resource = msgspec.field(default_factory=_Resource)
    operation: str = ""
    namespace: str = ""
    name: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    user_info: _User = msgspec.field(default_factory=_User)
    dry_run: bool | None = None


class _Review(_Wire):
    request: _Request | None = None


_read = msgspec.json.Decoder(_Review).decode


def answer(hook: Hook, body: bytes, view: View, settings: Settings) -> bytes:
    """The answer of a hook to a request; an invalid body is denied with the error."""
    try:
        request = _read(body).request or _Request()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return _denied("", f"the AdmissionReview cannot be read: {error}")
    fault = _address_fault(hook, request)
    if fault:
        return _denied(request.uid, fault)
    review = _review(hook, request)
    try:
        if hook.mutate is not None:
            patch = mutations(hook, review, view, settings)
            return _allowed(request.uid, patch=patch)
        warnings = hook.validate(review, view, settings) if hook.validate is not None else []
        return _allowed(request.uid, warnings=warnings)
    except Denied as denied:
        return _denied(request.uid, denied.message)


def _address_fault(hook: Hook, request: _Request) -> str:
    """True if a request was sent to the wrong path."""
    asked, expected = request.resource, hook.resource
    if (asked.group, asked.version, asked.resource) != (expected.group, expected.version, expected.plural):
        return f"expect resource to be {_address(expected)}"
    if request.operation not in hook.operations:
        return _WRONG_OPERATION.get(hook.path, _WRITES).format(request.operation)
    return ""


def _address(resource: Resource) -> str:
    return f"{{{resource.group} {resource.version} {resource.plural}}}"


def _review(hook: Hook, request: _Request) -> Review:
    deleted = request.operation == "DELETE"
    return Review(
        request.operation,  # type: ignore[arg-type]  # one of the hook's, as was checked
        hook.resource,
        request.namespace,
        request.name or str(((request.object or {}).get("metadata") or {}).get("name") or ""),
        None if deleted else request.object or {"metadata": {}},
        request.old_object,
        request.user_info.username,
        bool(request.dry_run),
    )


def _allowed(uid: str, *, patch: list[dict[str, Any]] | None = None, warnings: list[str] | None = None) -> bytes:
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}
    if warnings:
        response["warnings"] = warnings
    return _wrapped(response)


def _denied(uid: str, why: str) -> bytes:
    return _wrapped({"uid": uid, "allowed": False, "status": {"message": why}})


def _wrapped(response: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
