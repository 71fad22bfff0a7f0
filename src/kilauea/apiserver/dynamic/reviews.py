"""AdmissionReview: requests to webhooks, and the required format of their responses."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kilauea.apiserver.admission.attributes import LARGEST, Attributes
from kilauea.apiserver.dynamic.remote import CallError
from kilauea.apiserver.parsing import MOST_CONTAINERS, has_too_many
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.status import ApiFault

Raw = Mapping[str, Any]
Object = dict[str, Any]

LARGEST_PART = 256 * 1024
"""Bytes of the warnings, the audit annotations and the status in a response; larger ones are not shown completely."""
LONGEST_WORD = 1024
"""Bytes of the uid, kind, apiVersion and patchType in a response."""
VERSIONS = ("v1", "v1beta1")
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def request_of(attributes: Attributes, resource: ResourceType, uid: str = "") -> Object:
    """Return the `request` of a review, without objects; CEL expressions use the same.

    Args:
        attributes: the write.
        resource: the kind that matched.
        uid: the UID of the review.
    """
    own = attributes.resource
    user = attributes.user
    user_info: Object = {"username": user.name}
    if user.uid:
        user_info["uid"] = user.uid
    if user.groups:
        user_info["groups"] = list(user.groups)
    if user.extra:
        user_info["extra"] = {key: list(values) for key, values in user.extra.items()}
    request: Object = {
        "uid": uid,
        "kind": _kind(resource, attributes.subresource),
        "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
        "requestKind": _kind(own, attributes.subresource),
        "requestResource": {"group": own.group, "version": own.version, "resource": own.plural},
        "operation": attributes.operation,
        "userInfo": user_info,
        "dryRun": attributes.dry_run,
        "options": _options(attributes),
    }
    if attributes.subresource:
        request["subResource"] = request["requestSubResource"] = attributes.subresource
    name = attributes.name or ((attributes.obj or {}).get("metadata") or {}).get("name")
    if name:
        request["name"] = name
    is_namespace = (own.group, own.plural) == ("", "namespaces")
    namespace = name if is_namespace else attributes.namespace
    if namespace:
        request["namespace"] = namespace
    return request


def _kind(resource: ResourceType, subresource: str) -> Object:
    """Return the kind of the object or of its subresource."""
    part = resource.subresource(subresource) if subresource else None
    if part is None:
        return {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {"group": part.group, "version": part.version, "kind": part.kind}


def _options(attributes: Attributes) -> Object | None:
    kind = _OPTIONS.get(attributes.operation)
    if kind is None:
        return None
    found: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    return found | {"dryRun": ["All"]} if attributes.dry_run else found


def review_version(hook: Raw) -> str:
    """Return the version of AdmissionReview to send to a webhook: the first supported one that it names."""
    return next((each for each in hook.get("admissionReviewVersions") or () if each in VERSIONS), "v1")


def encode_review(version: str, request: Raw, obj: Any, old: Any) -> bytes:
    """Return the body of a call."""
    body = {**request, "object": obj, "oldObject": old}
    return msgspec.json.encode(
        {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": body}
    )


@dataclass(frozen=True)
class Verdict:
    """A webhook's response."""

    allowed: bool
    patch: list[Any] = field(default_factory=list)
    warnings: tuple[str, ...] = ()
    audit: Mapping[str, str] = field(default_factory=dict)
    result: Raw | None = None


_NULL = msgspec.Raw(b"null")


class _Review(msgspec.Struct, rename="camel"):
    """The fields of a response that are read; others are skipped, whatever their size."""

    kind: msgspec.Raw = _NULL
    api_version: msgspec.Raw = _NULL
    response: msgspec.Raw = _NULL


class _Response(msgspec.Struct, rename="camel"):
    """The fields of `response` that are read."""

    uid: msgspec.Raw = _NULL
    allowed: msgspec.Raw = _NULL
    patch: msgspec.Raw = _NULL
    patch_type: msgspec.Raw = _NULL
    warnings: msgspec.Raw = _NULL
    audit_annotations: msgspec.Raw = _NULL
    status: msgspec.Raw = _NULL


class _Result(msgspec.Struct, omit_defaults=True):
    """The texts of a status, without its details."""

    code: int | None = None
    message: str | None = None
    reason: str | None = None


def read_verdict(body: bytes, version: str, uid: str, *, mutating: bool) -> Verdict:
    """Return the verdict in a response; raises CallError if it is invalid."""
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CallError(f"failed to call webhook: couldn't get version/kind; json parse error: {error}") from error
    review = _Review()
    with suppress(msgspec.ValidationError):  # not an object
        review = msgspec.json.decode(body, type=_Review)
    try:
        kind = _small(review.kind, "kind")
        if not kind:
            raise CallError("failed to call webhook: Object 'Kind' is missing in the answer")
        response = _response(review.response)
    except msgspec.ValidationError as error:
        raise CallError(f"received invalid webhook response: {error}") from error
    try:
        return _verified(response, (_small(review.api_version, "apiVersion") or "", kind), version, uid, mutating)
    except (CallError, TypeError, AttributeError, ValueError) as error:
        raise CallError(f"received invalid webhook response: {error}") from error


def _response(text: msgspec.Raw) -> Object | None:
    """Return the fields of a response; warnings, annotations and details of an error are omitted if they are large."""
    if bytes(text) == b"null":
        return None
    given = msgspec.json.decode(text, type=_Response)
    found = {name: _small(getattr(given, name), name) for name in ("uid", "allowed")}
    found["patchType"] = _small(given.patch_type, "patchType")
    found["patch"] = msgspec.json.decode(given.patch, type=str | None)
    for name, part in (("warnings", given.warnings), ("auditAnnotations", given.audit_annotations)):
        found[name] = None if len(bytes(part)) > LARGEST_PART else msgspec.json.decode(part)
    if len(bytes(given.status)) <= LARGEST_PART:
        found["status"] = msgspec.json.decode(given.status)
    else:
        result = msgspec.json.decode(given.status, type=_Result)
        result.message = (result.message or "")[:LARGEST_PART]
        found["status"] = msgspec.to_builtins(result)
    return {name: value for name, value in found.items() if value is not None}


def _small(text: msgspec.Raw, name: str) -> Any:
    """Return the value of a field that is short in every valid response."""
    if len(bytes(text)) > LONGEST_WORD:
        raise CallError(f"{name} is longer than {LONGEST_WORD} bytes")
    return msgspec.json.decode(text)


def _verified(response: Object | None, form: tuple[str, str], version: str, uid: str, mutating: bool) -> Verdict:
    if response is None:
        raise CallError("webhook response was absent")
    given, kind = form
    if version == "v1":
        if response.get("uid", "") != uid:
            raise CallError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
        if (given, kind) != ("admission.k8s.io/v1", "AdmissionReview"):
            raise CallError(
                f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {given}, Kind={kind}"
            )
        _check_patch(response, mutating)
    _check_types(response)
    patch_type = response.get("patchType")
    if mutating and response.get("patch") and patch_type not in (None, "JSONPatch"):
        raise CallError(f'unsupported patch type "{patch_type}"')
    return Verdict(
        bool(response.get("allowed")),
        _patch(response) if mutating else [],
        tuple(map(str, response.get("warnings") or ())),
        dict(response.get("auditAnnotations") or {}),
        response.get("status"),
    )


def _check_types(response: Raw) -> None:
    """Reject fields of another type, which would be ambiguous: the string `false` must not allow a write."""
    result = response.get("status") or {}
    for path, value, wanted in (
        ("allowed", response.get("allowed"), bool),
        ("status", result, dict),
        *((f"status.{name}", result.get(name), kind) for name, kind in _STATUS.items()),
    ):
        if value is not None and (not isinstance(value, wanted) or (wanted is int and isinstance(value, bool))):
            raise CallError(f"response.{path} must be of type {_TYPES[wanted]}, got {type(value).__name__}")


_STATUS = {"code": int, "message": str, "reason": str, "details": dict}
_TYPES: Mapping[type, str] = {bool: "boolean", int: "integer", str: "string", dict: "object"}


def _check_patch(response: Raw, mutating: bool) -> None:
    """Check that patch and type come together, and only from mutating webhooks."""
    patch, form = response.get("patch"), response.get("patchType")
    if not mutating:
        if patch:
            raise CallError("validating webhook may not return response.patch")
        if form is not None:
            raise CallError("validating webhook may not return response.patchType")
    elif patch and form is None:
        raise CallError("webhook returned response.patch but not response.patchType")
    elif not patch and form is not None:
        raise CallError("webhook returned response.patchType but not response.patch")
    elif form == "":
        raise CallError('webhook returned invalid response.patchType of ""')


def _patch(response: Raw) -> list[Any]:
    if not response.get("patch"):
        return []
    try:
        text = base64.b64decode(response["patch"])
        if len(text) > LARGEST:
            raise CallError(f"the patch is larger than {LARGEST} bytes")
        if has_too_many(text):
            raise CallError(f"the patch has more than {MOST_CONTAINERS} lists and objects")
        patch = msgspec.json.decode(text)
    except (binascii.Error, msgspec.DecodeError, RecursionError) as error:
        raise CallError(f"the patch cannot be read: {error}") from error
    if not isinstance(patch, list):
        raise CallError("the patch is not a list of operations")
    return patch


def denial(name: str, result: Raw | None) -> ApiFault:
    """Return the error for a write that a webhook denies: its status, with its name before the message."""
    given = dict(result or {})
    code = given.get("code")
    code = code if isinstance(code, int) and 400 <= code < 600 else 400  # other codes are not errors in HTTP
    text, reason = str(given.get("message") or ""), str(given.get("reason") or "")
    denied = f'admission webhook "{name}" denied the request'
    message = f"{denied}: {text or reason}" if text or reason else f"{denied} without explanation"
    fault = ApiFault(code, reason, message, given.get("details"))
    return fault
