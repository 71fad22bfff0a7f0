"""Access reviews, which query users and permissions and are not stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.account_tokens import AUDIENCE
from kilauea.apiserver.fields import check_label_requirement, check_operator, invalid_value, required, too_many
from kilauea.apiserver.rbac.authorizer import Action
from kilauea.apiserver.request import GROUP_MASTERS, ApiResponse, User
from kilauea.apiserver.rest.body import read_object
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.objects import metadata_of, note_manager, settle_namespace
from kilauea.apiserver.status import Cause

Review = Callable[[Call], Awaitable[ApiResponse]]
MOST_GROUPS = 1000
"""Maximum groups of a user in a review, as each binding is checked for each of them."""
_METADATA = ("name", "generateName", "namespace", "uid", "resourceVersion", "labels", "annotations", "ownerReferences")
"""Fields of metadata in the order of the real server, before the others."""


def _answer(obj: Object, outcome: dict[str, Any]) -> ApiResponse:
    """Return the review with its status."""
    metadata = obj.get("metadata") or {}
    out = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": metadata, **obj, "status": outcome}
    return ApiResponse(201, msgspec.json.encode(out))


async def _read(call: Call) -> Object:
    """Return the review in the body, with its managers."""
    return await call.aside(_read_at_once, call)


def _read_at_once(call: Call) -> Object:
    obj = read_object(call)
    metadata_of(obj)
    note_manager(call, None, obj)
    return obj


def _refuse(call: Call, causes: list[Cause]) -> None:
    """Reject a review with errors; the real server does not name its kind."""
    if causes:
        raise status.invalid("", call.resource.group, "", causes)


async def self_subject_access_review(call: Call) -> ApiResponse:
    """Answer if the caller may perform an action."""
    obj = await _read(call)
    _refuse(call, [*_check_action(obj), *_check_selectors(obj), *_check_metadata(obj)])
    return _answer(obj, await _allowed(call, call.user, _action(obj)))


async def subject_access_review(call: Call) -> ApiResponse:
    """Answer if another user may perform an action."""
    obj = await _read(call)
    _refuse(call, [*_check_subject(obj), *_check_metadata(obj)])
    return await _of_subject(call, obj)


def _check_subject(obj: Object) -> list[Cause]:
    """Return the errors in the subject of a review."""
    spec, causes = obj.get("spec") or {}, _check_action(obj)
    if not spec.get("user") and not spec.get("groups"):
        causes.append(invalid_value("spec.user", "", "at least one of user or group must be specified"))
    if len(spec.get("groups") or ()) > MOST_GROUPS:
        causes.append(too_many("spec.groups", len(spec["groups"]), MOST_GROUPS))
    return [*causes, *_check_selectors(obj)]


def _check_metadata(obj: Object, *but: str) -> list[Cause]:
    """Check that a review has no metadata, except the fields `but`."""
    metadata = obj.get("metadata") or {}
    if not any(value for field, value in metadata.items() if field not in ("managedFields", *but)):
        return []
    order = [*_METADATA, *(field for field in metadata if field not in _METADATA)]
    told = {field: metadata[field] for field in order if metadata.get(field)}
    return [invalid_value("metadata", told, " ".join(("must be empty", *(f"except for {each}" for each in but))))]


def _check_selectors(obj: Object) -> Iterator[Cause]:
    """Yield the errors in the selectors of a review; unknown operators of newer clients are allowed."""
    resource = (obj.get("spec") or {}).get("resourceAttributes") or {}
    for field in ("fieldSelector", "labelSelector"):
        selector, path = resource.get(field), f"spec.resourceAttributes.{field}"
        if selector is None:
            continue
        raw, terms = selector.get("rawSelector") or "", selector.get("requirements") or []
        if raw and terms:
            message = "may not specified at the same time as requirements"
            yield invalid_value(f"{path}.rawSelector", raw, message)
        elif not raw and not terms:
            message = f"when {path} is specified, requirements or rawSelector is required"
            yield required(f"{path}.requirements", message)
        for number, term in enumerate(terms):
            where = f"{path}.requirements[{number}]"
            if field == "labelSelector":
                yield from check_label_requirement(where, term, any_operator=True)
            else:
                if not term.get("key"):
                    yield required(f"{where}.key", "must be specified")
                yield from check_operator(where, term, any_operator=True)


async def _of_subject(call: Call, obj: Object) -> ApiResponse:
    """Return the answer for another user."""
    spec = obj["spec"]
    user = User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()))
    return _answer(obj, await _allowed(call, user, _action(obj)))


async def local_subject_access_review(call: Call) -> ApiResponse:
    """Answer if another user may perform an action in the namespace of the review."""
    obj = await _read(call)
    settle_namespace(call, obj)
    spec, causes = obj.get("spec") or {}, _check_subject(obj)
    causes += _check_metadata(obj, "namespace")
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and (resource.get("namespace") or "") != call.namespace:
        given = resource.get("namespace") or ""
        message = "must match metadata.namespace"
        causes.append(invalid_value("spec.resourceAttributes.namespace", given, message))
    if path is not None:
        told = _told_path(path)
        causes.append(invalid_value("spec.nonResourceAttributes", told, "disallowed on this kind of request"))
    _refuse(call, causes)
    return await _of_subject(call, obj)


def _check_action(obj: Object) -> list[Cause]:
    """Return the errors in the attributes of a review: a resource or a path."""
    spec = obj.get("spec") or {}
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        message = "cannot be specified in combination with resourceAttributes"
        return [invalid_value("spec.nonResourceAttributes", _told_path(path), message)]
    if resource is None and path is None:
        message = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid_value("spec.resourceAttributes", None, message)]
    return []


def _told_path(path: Object) -> Object:
    """Return a path as the real server shows it, with the field names of Go."""
    return {"Path": path.get("path") or "", "Verb": path.get("verb") or ""}


def _action(obj: Object) -> Action:
    """Return the action of a valid review."""
    resource, path = obj["spec"].get("resourceAttributes"), obj["spec"].get("nonResourceAttributes")
    if resource is not None:
        fields = ("verb", "group", "resource", "subresource", "namespace", "name")
        return Action(*(resource.get(field) or "" for field in fields))
    return Action(path.get("verb") or "", path=path.get("path") or "")


async def _allowed(call: Call, user: User, action: Action) -> dict[str, Any]:
    """Return the status for a user."""
    if call.backend.authorizer.takes_long(action.namespace):
        await call.pause()
    reason = call.backend.authorizer.reason(user, action)
    return {"allowed": reason is not None} | ({"reason": reason} if reason else {})


async def self_subject_rules_review(call: Call) -> ApiResponse:
    """Return the rules of the caller in a namespace."""
    obj = await call.aside(read_object, call)
    namespace = (obj.get("spec") or {}).get("namespace")
    if not namespace:
        raise status.bad_request("no namespace on request")
    obj["spec"] = {}  # the response does not repeat the spec
    if call.backend.authorizer.takes_long(namespace):
        await call.pause()
    resources: list[Object] = []
    paths: list[Object] = []
    for grant in call.backend.authorizer.grants(call.user, namespace):
        rule = {key: value for key, value in msgspec.to_builtins(grant.rule).items() if value}
        (paths if "nonResourceURLs" in rule else resources).append(rule)
    if GROUP_MASTERS in call.user.groups and not any(rule["verbs"] == ["*"] for rule in resources):
        resources.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    return _answer(obj, {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False})


async def token_review(call: Call) -> ApiResponse:
    """Return the user of a token: the caller's own, or that of a service account."""
    obj = await _read(call)
    spec = obj.get("spec") or {}
    token = spec.get("token")
    if not token:
        raise status.bad_request("token is required for TokenReview in authentication")
    audience = (spec.get("audiences") or [AUDIENCE])[0]
    user = call.backend.accounts.user_of(token, audience) if call.backend.accounts is not None else None
    if user is None and token == call.request.headers.get("authorization", "").removeprefix("Bearer "):
        user = call.user
    if user is None:
        return _answer(obj, {"user": {}, "error": "invalid bearer token"})
    return _answer(obj, {"authenticated": True, "user": _user_info(user), "audiences": [audience]})


async def self_subject_review(call: Call) -> ApiResponse:
    """Return the caller."""
    obj = await call.aside(read_object, call)
    obj["metadata"] = {"creationTimestamp": call.backend.timestamp()}
    return _answer(obj, {"userInfo": _user_info(call.user)})


def _user_info(user: User) -> dict[str, Any]:
    """Return a user in the format of reviews."""
    found: dict[str, Any] = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    found["extra"] = {key: list(values) for key, values in user.extra.items()}
    return {key: value for key, value in found.items() if value}


_AUTHORIZATION, _AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
REVIEWS: Mapping[tuple[str, str], Review] = {
    (_AUTHORIZATION, "selfsubjectaccessreviews"): self_subject_access_review,
    (_AUTHORIZATION, "subjectaccessreviews"): subject_access_review,
    (_AUTHORIZATION, "localsubjectaccessreviews"): local_subject_access_review,
    (_AUTHORIZATION, "selfsubjectrulesreviews"): self_subject_rules_review,
    (_AUTHENTICATION, "tokenreviews"): token_review,
    (_AUTHENTICATION, "selfsubjectreviews"): self_subject_review,
}
