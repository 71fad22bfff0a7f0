"""Processes AdmissionReview requests."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import msgspec

from kilauea.admission.registry import mutations
from kilauea.admission.review import Denied, Hook, Review, Settings
from kilauea.api.ports import Clock, Key, Obj, Resource, View

WATCH_SECONDS = (0.1, 0.4, 1.0)
"""Pauses before a request is denied because of a missing object, which may have been created just before it."""
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


class Answer(NamedTuple):
    """The answer to a request.

    Attributes:
        body: an AdmissionReview.
        missing: True if the request was denied, and an object that the hook looked up is not in the view.
    """

    body: bytes
    missing: bool


def answer(hook: Hook, body: bytes, view: View, settings: Settings) -> Answer:
    """The answer of a hook to a request; an invalid body is denied with the error."""
    try:
        request = _read(body).request or _Request()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Answer(_denied("", f"the AdmissionReview cannot be read: {error}"), missing=False)
    fault = _address_fault(hook, request)
    if fault:
        return Answer(_denied(request.uid, fault), missing=False)
    review, lookups = _review(hook, request), _Lookups(view)
    try:
        if hook.mutate is not None:
            patch = mutations(hook, review, lookups, settings)
            return Answer(_allowed(request.uid, patch=patch), missing=False)
        warnings = hook.validate(review, lookups, settings) if hook.validate is not None else []
        return Answer(_allowed(request.uid, warnings=warnings), missing=False)
    except Denied as denied:
        return Answer(_denied(request.uid, denied.message), lookups.missing)


async def answer_in_time(hook: Hook, body: bytes, view: View, settings: Settings, clock: Clock) -> bytes:
    """The answer of a hook; before a missing object denies a request, the watches get time to bring it.

    `kubectl apply` sends a queue and its first job within milliseconds, and a watch may show the queue later.
    """
    for seconds in WATCH_SECONDS:
        found = answer(hook, body, view, settings)
        if not found.missing:
            return found.body
        await clock.sleep(seconds)
    return answer(hook, body, view, settings).body


class _Lookups:
    """A view that records if an object was missing."""

    def __init__(self, view: View) -> None:
        self.list, self.owned, self.labelled = view.list, view.owned, view.labelled
        self.indexed, self.count_indexed, self.aggregate = view.indexed, view.count_indexed, view.aggregate
        self._get, self._head = view.get, view.head
        self.missing = False

    def get(self, resource: Resource, key: Key) -> Obj | None:
        return self._noted(self._get(resource, key))

    def head(self, resource: Resource, key: Key) -> Obj | None:
        return self._noted(self._head(resource, key))

    def _noted(self, found: Obj | None) -> Obj | None:
        self.missing |= found is None
        return found


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
