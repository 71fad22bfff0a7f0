"""Access reviews, which answer questions about users and permissions and are never stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.account_tokens import AUDIENCE
from kilauea.apiserver.fields import invalid_value, required
from kilauea.apiserver.rbac.authorizer import Action, Authorizer
from kilauea.apiserver.request import GROUP_MASTERS, ApiResponse, User
from kilauea.apiserver.rest.body import read_object
from kilauea.apiserver.rest.call import Call, Object

Review = Callable[[Call], Awaitable[ApiResponse]]


def _answer(obj: Object, outcome: dict[str, Any]) -> ApiResponse:
    """The review with its outcome."""
    metadata = obj.get("metadata") or {}
    out = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": metadata, **obj, "status": outcome}
    return ApiResponse(201, msgspec.json.encode(out))


async def self_subject_access_review(call: Call) -> ApiResponse:
    """May I do this?"""
    obj = read_object(call)
    return _answer(obj, _allowed(call, call.user, _action(call, obj)))


async def subject_access_review(call: Call) -> ApiResponse:
    """Answer if another user may do this."""
    obj = read_object(call)
    action = _action(call, obj)
    spec = obj.get("spec") or {}
    if not spec.get("user") and not spec.get("groups"):
        raise status.invalid(
            call.resource.kind,
            call.resource.group,
            "",
            [required("spec.user", "at least one of user or group must be specified")],
        )
    user = User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()))
    return _answer(obj, _allowed(call, user, action))


async def local_subject_access_review(call: Call) -> ApiResponse:
    """Answer if another user may do this in the namespace of the review, and in no other."""
    obj = read_object(call)
    spec = obj.get("spec") or {}
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    causes = []
    if path:
        causes.append(invalid_value("spec.nonResourceAttributes", path, "disallowed on this kind of request"))
    elif resource and resource.get("namespace") != call.namespace:
        given = resource.get("namespace") or ""
        message = "must match metadata.namespace"
        causes.append(invalid_value("spec.resourceAttributes.namespace", given, message))
    if causes:
        raise status.invalid(call.resource.kind, call.resource.group, "", causes)
    return await subject_access_review(call)


def _action(call: Call, obj: Object) -> Action:
    """The subject of a review: a resource or a path."""
    spec = obj.get("spec") or {}
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource:
        fields = ("verb", "group", "resource", "subresource", "namespace", "name")
        return Action(*(resource.get(field) or "" for field in fields))
    if path:
        return Action(path.get("verb") or "", path=path.get("path") or "")
    message = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    raise status.invalid(call.resource.kind, call.resource.group, "", [required("spec.resourceAttributes", message)])


def _allowed(call: Call, user: User, action: Action) -> dict[str, Any]:
    """The answer for a user."""
    reason = Authorizer(call.backend.store).reason(user, action)
    return {"allowed": reason is not None} | ({"reason": reason} if reason else {})


async def self_subject_rules_review(call: Call) -> ApiResponse:
    """Answer which actions the caller is allowed in a namespace."""
    obj = read_object(call)
    namespace = (obj.get("spec") or {}).get("namespace")
    if not namespace:
        raise status.bad_request("no namespace on request")
    resources: list[Object] = []
    paths: list[Object] = []
    for grant in Authorizer(call.backend.store).grants(call.user, namespace):
        rule = {key: value for key, value in msgspec.to_builtins(grant.rule).items() if value}
        (paths if "nonResourceURLs" in rule else resources).append(rule)
    if GROUP_MASTERS in call.user.groups and not any(rule["verbs"] == ["*"] for rule in resources):
        resources.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    return _answer(obj, {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False})


async def token_review(call: Call) -> ApiResponse:
    """Answer which user a token is for. Known are the caller's own, and those of service accounts."""
    obj = read_object(call)
    spec = obj.get("spec") or {}
    token = spec.get("token")
    if not token:
        raise status.bad_request("token is required for TokenReview in authentication")
    audience = (spec.get("audiences") or [AUDIENCE])[0]
    user = call.backend.accounts.user_of(token, audience) if call.backend.accounts is not None else None
    if user is None and token == call.request.headers.get("authorization", "").removeprefix("Bearer "):
        user = call.user
    if user is None:
        return _answer(obj, {"authenticated": False, "user": {}, "error": "invalid bearer token"})
    return _answer(obj, {"authenticated": True, "user": _user_info(user), "audiences": [audience]})


async def self_subject_review(call: Call) -> ApiResponse:
    """Answer which user the caller is."""
    obj = read_object(call)
    obj["metadata"] = {"creationTimestamp": call.backend.timestamp()}
    return _answer(obj, {"userInfo": _user_info(call.user)})


def _user_info(user: User) -> dict[str, Any]:
    """A user as reviews tell of one."""
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
