"""Errors as Kubernetes returns them: `metav1.Status` with code, reason, message and details.

Every error is an `ApiFault`, created by one of the functions here. The codes and reasons are the contract that clients
act on; the messages are those of the real server, because people and scripts know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

TIMEOUT = 504
"""Code of the answer to a request that took too long."""


LET_PASS = "LetPass"
"""The reason of a cause that an update did not introduce, which is only a warning."""


class Cause(NamedTuple):
    """An error in one field: its path, the reason code, and the message without the path."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class ApiFault(Exception):
    """A rejected request; `status` is its `metav1.Status`."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None, retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after = retry_after
        self.status = status("Failure", code, message, reason, details)

    def encode(self) -> bytes:
        """The status as JSON."""
        return encode(self.status)


def status(
    state: str, code: int, message: str = "", reason: str = "", details: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A `metav1.Status`; empty fields are left out."""
    out: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": state}
    if message:
        out["message"] = message
    if reason:
        out["reason"] = reason
    if details is not None:
        out["details"] = details
    if code:
        out["code"] = code
    return out


encode = msgspec.json.Encoder().encode
"""A status as JSON."""


def _details(name: str, group: str, kind: str, **more: Any) -> dict[str, Any]:
    """The `details` of a status; empty fields are left out."""
    return {key: value for key, value in {"name": name, "group": group, "kind": kind, **more}.items() if value}


def qualified(plural: str, group: str) -> str:
    """`pods`, or `deployments.apps`."""
    return f"{plural}.{group}" if group else plural


# --- missing and existing objects


def not_found(plural: str, group: str, name: str) -> ApiFault:
    """No object of this name."""
    return ApiFault(404, "NotFound", f'{qualified(plural, group)} "{name}" not found', _details(name, group, plural))


def no_such_resource() -> ApiFault:
    """The group does not have the resource."""
    return ApiFault(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(plural: str, group: str, name: str) -> ApiFault:
    """An object with this name exists."""
    message = f'{qualified(plural, group)} "{name}" already exists'
    return ApiFault(409, "AlreadyExists", message, _details(name, group, plural))


def name_conflict(plural: str, group: str, name: str) -> ApiFault:
    """Several generated names were all taken."""
    message = f'{qualified(plural, group)} "{name}" already exists'
    message += ", the server was not able to generate a unique name for the object"
    return ApiFault(409, "AlreadyExists", message, _details(name, group, plural), 1)


def conflict(plural: str, group: str, name: str, why: str) -> ApiFault:
    """The object has changed."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return ApiFault(409, "Conflict", message, _details(name, group, plural))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


# --- malformed requests


def cause_dict(cause: Cause) -> dict[str, str]:
    """Return a cause as in `details.causes`."""
    return {"reason": cause.reason, "message": cause.message, "field": cause.field}


def invalid(kind: str, group: str, name: str, causes: Iterable[Cause]) -> ApiFault:
    """An object with invalid fields."""
    found = list(causes)
    lines = list(dict.fromkeys(str(each) for each in found))
    text = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    message = f'{qualified(kind, group)} "{name}" is invalid: {text}'
    details = _details(name, group, kind, causes=[cause_dict(each) for each in found])
    return ApiFault(422, "Invalid", message, details)


def bad_request(message: str) -> ApiFault:
    """A request that cannot be understood."""
    return ApiFault(400, "BadRequest", message)


def too_large(limit: int) -> ApiFault:
    """A body beyond the limit, in bytes."""
    return ApiFault(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def timeout(message: str) -> ApiFault:
    """A request that took too long."""
    return ApiFault(TIMEOUT, "Timeout", f"Timeout: {message}", {})


def unsupported_media_type(accepted: Sequence[str]) -> ApiFault:
    """An unsupported media type of the body."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiFault(415, "UnsupportedMediaType", message)


def not_acceptable(offered: Sequence[str]) -> ApiFault:
    """None of the accepted media types is available."""
    message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(offered)}"
    return ApiFault(406, "NotAcceptable", message, {})


def no_such_form(offered: Sequence[str]) -> ApiFault:
    """A table, or another form of an object, that a kind does not have."""
    message = f"only the following media types are accepted: {', '.join(offered)}"
    return ApiFault(406, "NotAcceptable", message)


def wrong_method() -> ApiFault:
    """A method that a path does not have."""
    return ApiFault(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def no_such_verb(verb: str, group: str, resource: str) -> ApiFault:
    """A verb that a custom resource does not have."""
    message = f'{verb} is not supported on resources of kind "{resource}.{group}"'
    return ApiFault(405, "MethodNotAllowed", message, {"group": group, "kind": resource})


def no_proxy(resource: str, name: str, why: str = "") -> ApiFault:
    """A request that is to be passed on to a node, a pod or a service, and cannot be."""
    why = why or f"{resource.removesuffix('s')} {name} has no network in this cluster"
    message = f"{resource}/proxy is not available: {why}"
    return ApiFault(501, "NotImplemented", message)


# --- permissions


def unauthorized() -> ApiFault:
    """There are no credentials, or they are unknown."""
    return ApiFault(401, "Unauthorized", "Unauthorized")


def forbidden(plural: str, group: str, name: str, why: str) -> ApiFault:
    """The request is not allowed."""
    subject = qualified(plural, group) + (f' "{name}"' if name else "")
    return ApiFault(403, "Forbidden", f"{subject} is forbidden: {why}", _details(name, group, plural))


def too_many_requests(message: str, causes: Sequence[Cause] = (), retry_after: int = 0) -> ApiFault:
    """The request may be allowed later."""
    details: dict[str, Any] = {}
    if causes:
        details["causes"] = [{"reason": each.reason, "message": each.message} for each in causes]
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ApiFault(429, "TooManyRequests", message, details, retry_after)


# --- revisions


def expired(message: str, continue_token: str = "") -> ApiFault:
    """A revision that is no longer known."""
    fault = ApiFault(410, "Expired", message)
    if continue_token:
        fault.status["metadata"] = {"continue": continue_token}
    return fault


def revision_ahead(asked: int, current: int) -> ApiFault:
    """A revision that does not exist yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    message = f"Too large resource version: {asked}, current: {current}"
    return ApiFault(TIMEOUT, "Timeout", f"Timeout: {message}", details, 1)


def internal(why: str) -> ApiFault:
    """A fault of this server."""
    details = {"causes": [{"message": why}]}
    return ApiFault(500, "InternalError", f"Internal error occurred: {why}", details)
