"""Errors as Kubernetes returns them: `metav1.Status` with code, reason, message and details.

Every error is an `ApiFault`, created by one of the functions here. The codes and reasons are the contract that clients
act on; the messages are those of the real server, because people and scripts know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

TIMEOUT = 504
"""The response code for a request that has timed out."""


LET_PASS = "LetPass"
"""The reason of a cause that an update did not introduce, and that only results in a warning."""


class Cause(NamedTuple):
    """An error in one field: its path, the reason code, and the message without the path."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


MOST_CAUSES, MOST_CHARACTERS = 1_000, 512 * 1024
"""The maximum number of errors in an answer, and of their characters. Each item of a long list may have an error."""
MORE_ERRORS = Cause("<nil>", "FieldValueInvalid", "there are more errors, which are not listed")


def first_causes(causes: Iterable[Cause]) -> list[Cause]:
    """Return the errors that an answer lists, at least one; if there are others, the last one says so."""
    found: list[Cause] = []
    size = 0
    for each in causes:
        size += len(each.field) + len(each.message)
        if found and (len(found) == MOST_CAUSES or size > MOST_CHARACTERS):
            return [*found, MORE_ERRORS]
        found.append(each)
    return found


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
        """Return the status as JSON."""
        return encode(self.status)


def status(
    state: str, code: int, message: str = "", reason: str = "", details: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return a `metav1.Status`; empty fields are omitted."""
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
"""Encode a status as JSON."""


def _details(name: str, group: str, kind: str, **more: Any) -> dict[str, Any]:
    """Return the `details` of a status; empty fields are omitted."""
    return {key: value for key, value in {"name": name, "group": group, "kind": kind, **more}.items() if value}


def qualified(plural: str, group: str) -> str:
    """Return `pods`, or `deployments.apps`."""
    return f"{plural}.{group}" if group else plural


# --- missing and existing objects


def not_found(plural: str, group: str, name: str) -> ApiFault:
    """Return the error for a missing object."""
    return ApiFault(404, "NotFound", f'{qualified(plural, group)} "{name}" not found', _details(name, group, plural))


def no_such_resource() -> ApiFault:
    """Return the error for a resource that the group does not have."""
    return ApiFault(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(plural: str, group: str, name: str) -> ApiFault:
    """Return the error for an object that already exists."""
    message = f'{qualified(plural, group)} "{name}" already exists'
    return ApiFault(409, "AlreadyExists", message, _details(name, group, plural))


def name_conflict(plural: str, group: str, name: str) -> ApiFault:
    """Return the error if all generated names were taken."""
    message = f'{qualified(plural, group)} "{name}" already exists'
    message += ", the server was not able to generate a unique name for the object"
    return ApiFault(409, "AlreadyExists", message, _details(name, group, plural), 1)


def conflict(plural: str, group: str, name: str, why: str) -> ApiFault:
    """Return the error for a write to an object that has changed."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return ApiFault(409, "Conflict", message, _details(name, group, plural))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


# --- malformed requests


def cause_dict(cause: Cause) -> dict[str, str]:
    """Return a cause as in `details.causes`."""
    return {"reason": cause.reason, "message": cause.message, "field": cause.field}


def invalid(kind: str, group: str, name: str, causes: Iterable[Cause]) -> ApiFault:
    """Return the error for an object with invalid fields."""
    found = first_causes(causes)
    lines = list(dict.fromkeys(str(each) for each in found))
    text = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    message = f'{qualified(kind, group)} "{name}" is invalid: {text}'
    details = _details(name, group, kind, causes=[cause_dict(each) for each in found])
    return ApiFault(422, "Invalid", message, details)


def bad_request(message: str) -> ApiFault:
    """Return the error for a malformed request."""
    return ApiFault(400, "BadRequest", message)


def too_large(limit: int) -> ApiFault:
    """Return the error for a body beyond the limit, in bytes."""
    return ApiFault(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def timeout(message: str) -> ApiFault:
    """Return the error for a request that has timed out."""
    return ApiFault(TIMEOUT, "Timeout", f"Timeout: {message}", {})


def unsupported_media_type(accepted: Sequence[str]) -> ApiFault:
    """Return the error for an unsupported media type of the body."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiFault(415, "UnsupportedMediaType", message)


def not_acceptable(offered: Sequence[str]) -> ApiFault:
    """Return the error if none of the accepted media types is available."""
    message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(offered)}"
    return ApiFault(406, "NotAcceptable", message, {})


def no_such_form(offered: Sequence[str]) -> ApiFault:
    """Return the error for a form, such as a table, that a kind does not have."""
    message = f"only the following media types are accepted: {', '.join(offered)}"
    return ApiFault(406, "NotAcceptable", message)


def wrong_method() -> ApiFault:
    """Return the error for a method that a path does not support."""
    return ApiFault(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def no_such_verb(verb: str, group: str, resource: str) -> ApiFault:
    """Return the error for a verb that a custom resource does not support."""
    message = f'{verb} is not supported on resources of kind "{resource}.{group}"'
    return ApiFault(405, "MethodNotAllowed", message, {"group": group, "kind": resource})


def no_proxy(resource: str, name: str, why: str = "") -> ApiFault:
    """Return the error for a request that cannot be proxied to a node, a pod or a service."""
    why = why or f"{resource.removesuffix('s')} {name} has no network in this cluster"
    message = f"{resource}/proxy is not available: {why}"
    return ApiFault(501, "NotImplemented", message)


# --- permissions


def unauthorized() -> ApiFault:
    """Return the error for missing or unknown credentials."""
    return ApiFault(401, "Unauthorized", "Unauthorized")


def forbidden(plural: str, group: str, name: str, why: str) -> ApiFault:
    """Return the error for a request that is not allowed."""
    subject = qualified(plural, group) + (f' "{name}"' if name else "")
    return ApiFault(403, "Forbidden", f"{subject} is forbidden: {why}", _details(name, group, plural))


def too_many_requests(message: str, causes: Sequence[Cause] = (), retry_after: int = 0) -> ApiFault:
    """Return the error for a request that may be allowed later."""
    details: dict[str, Any] = {}
    if causes:
        details["causes"] = [{"reason": each.reason, "message": each.message} for each in causes]
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ApiFault(429, "TooManyRequests", message, details, retry_after)


# --- revisions


def expired(message: str, continue_token: str = "") -> ApiFault:
    """Return the error for a revision that is too old."""
    fault = ApiFault(410, "Expired", message)
    if continue_token:
        fault.status["metadata"] = {"continue": continue_token}
    return fault


def revision_ahead(asked: int, current: int) -> ApiFault:
    """Return the error for a revision that does not exist yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    message = f"Too large resource version: {asked}, current: {current}"
    return ApiFault(TIMEOUT, "Timeout", f"Timeout: {message}", details, 1)


def internal(why: str) -> ApiFault:
    """Return the error for a fault of this server."""
    details = {"causes": [{"message": why}]}
    return ApiFault(500, "InternalError", f"Internal error occurred: {why}", details)
