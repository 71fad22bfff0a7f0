"""Who one is and what one may do: the reviews, which are answered and never kept.

Whoever is known to this server may do everything: it belongs to the person who started it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.fields import required
from kilauea.apiserver.request import GROUP_MASTERS, ApiResponse
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
    _check_attributes(call, obj)
    return _answer(obj, _allowed(call.user.groups))


async def subject_access_review(call: Call) -> ApiResponse:
    """May somebody else do this?"""
    obj = read_object(call)
    _check_attributes(call, obj)
    spec = obj.get("spec") or {}
    if not spec.get("user") and not spec.get("groups"):
        raise status.invalid(
            call.resource.kind,
            call.resource.group,
            "",
            [required("spec.user", "at least one of user or group must be specified")],
        )
    return _answer(obj, _allowed(spec.get("groups") or ()))


def _check_attributes(call: Call, obj: Object) -> None:
    """A review asks about a resource or about a path."""
    spec = obj.get("spec") or {}
    if not spec.get("resourceAttributes") and not spec.get("nonResourceAttributes"):
        words = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise status.invalid(call.resource.kind, call.resource.group, "", [required("spec.resourceAttributes", words)])


def _allowed(groups: tuple[str, ...] | list[str]) -> dict[str, Any]:
    """The outcome for somebody in these groups."""
    return {"allowed": GROUP_MASTERS in groups}


async def self_subject_rules_review(call: Call) -> ApiResponse:
    """What may I do in a namespace?"""
    obj = read_object(call)
    if not (obj.get("spec") or {}).get("namespace"):
        raise status.bad_request("no namespace on request")
    masters = GROUP_MASTERS in call.user.groups
    resources = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}] if masters else []
    paths = [{"verbs": ["*"], "nonResourceURLs": ["*"]}] if masters else []
    return _answer(obj, {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False})


async def token_review(call: Call) -> ApiResponse:
    """Whose token is this? It is known if it is that of the caller: nobody else is known here."""
    obj = read_object(call)
    token = (obj.get("spec") or {}).get("token")
    if not token:
        raise status.bad_request("token is required for TokenReview in authentication")
    sent = call.request.headers.get("authorization", "").removeprefix("Bearer ")
    if token != sent:
        return _answer(obj, {"authenticated": False, "user": {}, "error": "invalid bearer token"})
    return _answer(obj, {"authenticated": True, "user": _user_info(call)})


async def self_subject_review(call: Call) -> ApiResponse:
    """Who am I?"""
    obj = read_object(call)
    obj["metadata"] = {"creationTimestamp": call.backend.timestamp()}
    return _answer(obj, {"userInfo": _user_info(call)})


def _user_info(call: Call) -> dict[str, Any]:
    """The caller."""
    user = call.user
    found: dict[str, Any] = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    found["extra"] = {key: list(values) for key, values in user.extra.items()}
    return {key: value for key, value in found.items() if value}


_AUTHORIZATION, _AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
REVIEWS: Mapping[tuple[str, str], Review] = {
    (_AUTHORIZATION, "selfsubjectaccessreviews"): self_subject_access_review,
    (_AUTHORIZATION, "subjectaccessreviews"): subject_access_review,
    (_AUTHORIZATION, "localsubjectaccessreviews"): subject_access_review,
    (_AUTHORIZATION, "selfsubjectrulesreviews"): self_subject_rules_review,
    (_AUTHENTICATION, "tokenreviews"): token_review,
    (_AUTHENTICATION, "selfsubjectreviews"): self_subject_review,
}
